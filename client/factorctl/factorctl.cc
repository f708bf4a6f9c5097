#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "client/factorctl/commands.h"
#include "client/factorctl/flags.h"
#include "client/grpc_status.h"

namespace factord::client {
namespace {

struct Command {
  absl::string_view name;
  absl::string_view summary;
  absl::Status (*run)(const std::vector<std::string>&, Terminal*);
};

constexpr Command kCommands[] = {
    {"qr", "factorize the matrices in a file, A = Q R", RunQr},
    {"solve", "least squares: minimize ||b - A x||", RunSolve},
    {"reduce", "R and least squares of a matrix of any height, row by row", RunReduce},
    {"info", "the server's version, backends and limits", RunInfo},
    {"explain", "what a request would do, without doing it", RunExplain},
    {"bench", "measure the server under load", RunBench},
};

std::string Usage() {
  std::string usage = "Usage: factorctl COMMAND [arguments] [flags]\n\nCommands:\n";
  for (const Command& command : kCommands) {
    absl::StrAppend(&usage, "  ", command.name, std::string(10 - command.name.size(), ' '),
                    command.summary, "\n");
  }
  absl::StrAppend(&usage,
                  "\nfactorctl COMMAND --help lists a command's flags, factorctl --version prints "
                  "the version.\n");
  return usage;
}

// One line: code (unless it is a usage error), message, and the field if the server named one.
std::string Sentence(const absl::Status& status) {
  std::string text = IsUsageError(status) ? std::string(status.message())
                                          : absl::StrCat(absl::StatusCodeToString(status.code()),
                                                         ": ", status.message());
  const std::optional<std::string> field = RefusedField(status);
  if (field.has_value() && text.find(*field) == std::string::npos) {
    absl::StrAppend(&text, " (", *field, ")");
  }
  return absl::StrReplaceAll(text, {{"\n", " "}});
}

}  // namespace

int RunFactorctl(const std::vector<std::string>& arguments, Terminal* terminal) {
  if (arguments.empty()) {
    terminal->err << Usage();
    return 2;
  }
  const std::string& name = arguments[0];
  if (name == "--help" || name == "-h" || name == "help") {
    terminal->out << Usage();
    return 0;
  }
  if (name == "--version") {
    terminal->out << "factorctl " FACTORD_VERSION "\n";
    return 0;
  }
  for (const Command& command : kCommands) {
    if (command.name != name) continue;
    const absl::Status status = command.run({arguments.begin() + 1, arguments.end()}, terminal);
    if (status.ok()) return 0;
    terminal->err << "factorctl " << name << ": " << Sentence(status) << "\n";
    if (!IsUsageError(status)) return 1;
    terminal->err << "factorctl " << name << " --help lists the flags.\n";
    return 2;
  }
  terminal->err << "factorctl: there is no command '" << name << "'.\n" << Usage();
  return 2;
}

}  // namespace factord::client
