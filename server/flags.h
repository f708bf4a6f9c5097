// factord's flags: one for each field of Options, a few for the program itself; what --help says
// of them, and how a command line is read.
#pragma once

#include <string>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/options.h"

ABSL_DECLARE_FLAG(double, tune_seconds);
ABSL_DECLARE_FLAG(std::string, output);
ABSL_DECLARE_FLAG(std::string, probe);
ABSL_DECLARE_FLAG(std::string, tls_ca);
ABSL_DECLARE_FLAG(std::string, tls_cert);
ABSL_DECLARE_FLAG(std::string, tls_key);

namespace factord {

struct FlagRow {
  absl::string_view name;
  // What it takes, with its unit: BYTES, say. Words between bars are all that it takes. Of a
  // boolean: empty.
  absl::string_view value;
};

struct FlagGroup {
  absl::string_view title;
  std::vector<FlagRow> flags;
};

// Every flag of this program is in one group.
const std::vector<FlagGroup>& FlagGroups();

struct CommandLine {
  std::vector<std::string> words;  // all but flags: the command
  bool help = false;
  bool version = false;
};

// Sets the flags. --name=value, --name value and, for booleans, --name and --noname; '-' and '_' in
// names are the same; the last of several counts; after -- all are words. --help and --version
// leave the rest unread. INVALID_ARGUMENT naming the flag and what it takes.
absl::StatusOr<CommandLine> ReadCommandLine(const std::vector<std::string>& arguments);

Options OptionsFromFlags();

// What --help prints.
std::string HelpText();

}  // namespace factord
