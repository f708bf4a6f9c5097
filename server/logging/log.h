// Log lines with fields beside their message. What needs no fields uses spdlog as it is.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "spdlog/spdlog.h"

namespace factord {

class LogFields {
 public:
  using Value = std::variant<std::string, std::int64_t, double>;

  // `key` is a constant. Values may be anything: the formatters escape them.
  LogFields& Add(absl::string_view key, absl::string_view value) {
    return Append(key, std::string(value));
  }
  LogFields& Add(absl::string_view key, std::int64_t value) { return Append(key, value); }
  LogFields& AddMilliseconds(absl::string_view key, absl::Duration value) {
    return Append(key, absl::ToDoubleMilliseconds(value));
  }

  const std::vector<std::pair<absl::string_view, Value>>& values() const { return values_; }

 private:
  LogFields& Append(absl::string_view key, Value value) {
    values_.emplace_back(key, std::move(value));
    return *this;
  }

  std::vector<std::pair<absl::string_view, Value>> values_;
};

// Whether such a line would be written: before going to the trouble of making its fields.
inline bool LogsAt(spdlog::level::level_enum level) {
  return spdlog::default_logger_raw()->should_log(level);
}

void Log(spdlog::level::level_enum level, absl::string_view message, const LogFields& fields);

// For formatters: the fields of the line that this thread is writing; none outside of Log.
const LogFields& FieldsOfThisLine();

}  // namespace factord
