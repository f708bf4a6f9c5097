#include "client/factorctl/flags.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/elements.h"

namespace factord::client {
namespace {

constexpr char kUsagePayload[] = "factorctl.usage";

}  // namespace

absl::Status UsageError(absl::string_view message) {
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload(kUsagePayload, absl::Cord());
  return status;
}

bool IsUsageError(const absl::Status& status) {
  return status.GetPayload(kUsagePayload).has_value();
}

FlagSet::FlagSet(std::string command, std::string synopsis, std::string description)
    : command_(std::move(command)),
      synopsis_(std::move(synopsis)),
      description_(std::move(description)) {}

void FlagSet::Bool(std::string name, bool* value, std::string help) {
  flags_.push_back({std::move(name), "", std::move(help), *value ? "true" : "false",
                    [value](absl::string_view text) { return absl::SimpleAtob(text, value); }});
}

void FlagSet::Int(std::string name, int64_t* value, std::string help) {
  flags_.push_back({std::move(name), "N", std::move(help), absl::StrCat(*value),
                    [value](absl::string_view text) { return absl::SimpleAtoi(text, value); }});
}

void FlagSet::Double(std::string name, double* value, std::string help) {
  flags_.push_back({std::move(name), "X", std::move(help), RoundTripDouble(*value),
                    [value](absl::string_view text) { return absl::SimpleAtod(text, value); }});
}

void FlagSet::OptionalDouble(std::string name, std::string no_value, std::optional<double>* value,
                             std::string help) {
  flags_.push_back(
      {std::move(name), "X", std::move(help), std::move(no_value), [value](absl::string_view text) {
         double number;
         if (!absl::SimpleAtod(text, &number)) return false;
         *value = number;
         return true;
       }});
}

void FlagSet::String(std::string name, std::string hint, std::string* value, std::string help) {
  flags_.push_back({std::move(name), std::move(hint), std::move(help),
                    value->empty() ? "none" : *value, [value](absl::string_view text) {
                      *value = std::string(text);
                      return true;
                    }});
}

void FlagSet::Strings(std::string name, std::string hint, std::vector<std::string>* values,
                      std::string help) {
  flags_.push_back({std::move(name), std::move(hint), std::move(help),
                    values->empty() ? "none" : absl::StrJoin(*values, ","),
                    [values, is_first = true](absl::string_view text) mutable {
                      if (is_first) values->clear();  // the default gives way to what is given
                      is_first = false;
                      for (absl::string_view value : absl::StrSplit(text, ',', absl::SkipEmpty())) {
                        values->emplace_back(value);
                      }
                      return true;
                    }});
}

void FlagSet::Duration(std::string name, absl::Duration* value, std::string help) {
  flags_.push_back({std::move(name), "DURATION", std::move(help), absl::FormatDuration(*value),
                    [value](absl::string_view text) {
                      return absl::ParseDuration(text, value) && *value >= absl::ZeroDuration();
                    }});
}

FlagSet::Flag* FlagSet::Find(absl::string_view name) {
  const std::string wanted = absl::StrReplaceAll(name, {{"-", "_"}});
  for (Flag& flag : flags_) {
    if (flag.name == wanted) return &flag;
  }
  return nullptr;
}

absl::StatusOr<std::vector<std::string>> FlagSet::Parse(const std::vector<std::string>& arguments) {
  std::vector<std::string> positional;
  bool flags_ended = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view argument = arguments[i];
    if (flags_ended || argument.size() < 2 || argument[0] != '-') {
      positional.push_back(arguments[i]);
      continue;
    }
    if (argument == "--") {
      flags_ended = true;
      continue;
    }
    if (argument == "--help" || argument == "-h") {
      help_wanted_ = true;
      return positional;
    }
    const size_t equals = argument.find('=');
    const absl::string_view name = argument.substr(0, equals);
    Flag* flag = absl::StartsWith(name, "--") ? Find(name.substr(2)) : nullptr;
    if (flag == nullptr) return UsageError(absl::StrCat("there is no flag ", name));
    std::string value = "true";
    if (equals != absl::string_view::npos) {
      value = std::string(argument.substr(equals + 1));
    } else if (!flag->hint.empty()) {
      if (++i == arguments.size()) return UsageError(absl::StrCat(name, " needs a value"));
      value = arguments[i];
    }
    if (!flag->set(value)) {
      return UsageError(absl::StrCat(name, " is '", value, "', expected ",
                                     flag->hint.empty() ? "true or false" : flag->hint));
    }
  }
  return positional;
}

std::string FlagSet::Help() const {
  std::string help = absl::StrCat("Usage: factorctl ", command_, synopsis_.empty() ? "" : " ",
                                  synopsis_, " [flags]\n\n", description_, "\n\nFlags:\n");
  for (const Flag& flag : flags_) {
    absl::StrAppend(&help, "  --", flag.name, flag.hint.empty() ? "" : "=", flag.hint, "\n      ",
                    absl::StrReplaceAll(flag.help, {{"\n", "\n      "}}),
                    " Default: ", flag.default_value, ".\n");
  }
  return help;
}

}  // namespace factord::client
