#include "server/logging/formatters.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "server/core/json.h"
#include "server/logging/log.h"
#include "spdlog/pattern_formatter.h"

namespace factord {
namespace {

void Append(absl::string_view text, spdlog::memory_buf_t& to) {
  to.append(text.data(), text.data() + text.size());
}

// Microseconds, where the value is a time in milliseconds. JSON has no infinity.
std::string NumberText(double value) {
  return std::isfinite(value) ? absl::StrFormat("%.3f", value) : "0";
}

std::string HumanText(const std::string& value) {
  const bool plain = !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
    return c > ' ' && c < 0x7F && c != '"' && c != '\\';
  });
  return plain ? value : absl::StrCat("\"", absl::CHexEscape(value), "\"");
}

std::string JsonText(const std::string& value) {
  std::string json;
  AppendJsonString(value, json);
  return json;
}

// A number, or what `text` makes of a string.
template <typename TextOf>
std::string ValueText(const LogFields::Value& value, TextOf text) {
  if (const auto* string = std::get_if<std::string>(&value)) return text(*string);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return absl::StrCat(*integer);
  return NumberText(std::get<double>(value));
}

// The pattern's %*.
class HumanFields final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg&, const std::tm&,
              spdlog::memory_buf_t& line) override {
    for (const auto& [key, value] : FieldsOfThisLine().values()) {
      Append(absl::StrCat(" ", key, "=", ValueText(value, HumanText)), line);
    }
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<HumanFields>();
  }
};

class Json final : public spdlog::formatter {
 public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    std::string json =
        absl::StrCat("{\"time\":\"",
                     absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::FromChrono(message.time),
                                      absl::UTCTimeZone()),
                     "\",\"level\":\"", LevelName(message.level), "\",\"message\":");
    AppendJsonString({message.payload.data(), message.payload.size()}, json);
    for (const auto& [key, value] : FieldsOfThisLine().values()) {
      json.push_back(',');
      AppendJsonString(key, json);
      absl::StrAppend(&json, ":", ValueText(value, JsonText));
    }
    absl::StrAppend(&json, "}\n");
    Append(json, line);
  }
  std::unique_ptr<formatter> clone() const override { return std::make_unique<Json>(); }

 private:
  static absl::string_view LevelName(spdlog::level::level_enum level) {
    const auto name = spdlog::level::to_string_view(level);
    return {name.data(), name.size()};
  }
};

}  // namespace

std::unique_ptr<spdlog::formatter> HumanFormatter() {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<HumanFields>('*').set_pattern("[%Y-%m-%d %H:%M:%S.%e] [%n] [%^%l%$] %v%*");
  return formatter;
}

std::unique_ptr<spdlog::formatter> JsonFormatter() { return std::make_unique<Json>(); }

}  // namespace factord
