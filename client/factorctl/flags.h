#ifndef FACTORD_CLIENT_FACTORCTL_FLAGS_H_
#define FACTORD_CLIENT_FACTORCTL_FLAGS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace factord::client {

// An error in how the command was called; factorctl exits with 2 for these, with 1 for all others.
absl::Status UsageError(absl::string_view message);
bool IsUsageError(const absl::Status& status);

// The flags of one command: each writes into a variable, whose value before is the default that the
// help shows. The variables must outlive Parse.
//
// --name=value, --name value and, for booleans, --name; '-' and '_' in names are the same; after --
// all is positional.
class FlagSet {
 public:
  // `synopsis`: the positional arguments, e.g. "A.npy". `description`: what the command does.
  FlagSet(std::string command, std::string synopsis, std::string description);

  void Bool(std::string name, bool* value, std::string help);
  void Int(std::string name, int64_t* value, std::string help);
  void Double(std::string name, double* value, std::string help);
  void OptionalDouble(std::string name, std::string no_value, std::optional<double>* value,
                      std::string help);
  void String(std::string name, std::string hint, std::string* value, std::string help);
  // May be given several times, and each time with several values between commas.
  void Strings(std::string name, std::string hint, std::vector<std::string>* values,
               std::string help);
  void Duration(std::string name, absl::Duration* value, std::string help);

  // One of a few words, each of which stands for a value.
  template <typename T>
  void Choice(std::string name, std::vector<std::pair<std::string, T>> choices, T* value,
              std::string help);

  // Returns the positional arguments. A usage error names the flag and what was expected. --help
  // sets HelpWanted and leaves the rest unread.
  absl::StatusOr<std::vector<std::string>> Parse(const std::vector<std::string>& arguments);
  bool HelpWanted() const { return help_wanted_; }
  std::string Help() const;

 private:
  struct Flag {
    std::string name;
    std::string hint;  // empty: a boolean
    std::string help;
    std::string default_value;
    std::function<bool(absl::string_view)> set;  // false: not such a value
  };

  Flag* Find(absl::string_view name);

  const std::string command_;
  const std::string synopsis_;
  const std::string description_;
  std::vector<Flag> flags_;
  bool help_wanted_ = false;
};

template <typename T>
void FlagSet::Choice(std::string name, std::vector<std::pair<std::string, T>> choices, T* value,
                     std::string help) {
  std::string hint;
  std::string default_value;
  for (const auto& [word, meaning] : choices) {
    absl::StrAppend(&hint, hint.empty() ? "" : "|", word);
    if (meaning == *value) default_value = word;
  }
  flags_.push_back({std::move(name), std::move(hint), std::move(help), std::move(default_value),
                    [choices = std::move(choices), value](absl::string_view text) {
                      for (const auto& [word, meaning] : choices) {
                        if (word != text) continue;
                        *value = meaning;
                        return true;
                      }
                      return false;
                    }});
}

}  // namespace factord::client

#endif  // FACTORD_CLIENT_FACTORCTL_FLAGS_H_
