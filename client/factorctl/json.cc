#include "client/factorctl/json.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/elements.h"

namespace factord::client {
namespace {

std::string Quote(absl::string_view value) {
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      quoted.push_back('\\');
      quoted.push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&quoted, "\\u%04x", static_cast<int>(c));
    } else {
      quoted.push_back(c);
    }
  }
  quoted.push_back('"');
  return quoted;
}

}  // namespace

JsonWriter& JsonWriter::Key(absl::string_view key) {
  BeforeValue();
  absl::StrAppend(&text_, Quote(key), ": ");
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::String(absl::string_view value) { return Value(Quote(value)); }
JsonWriter& JsonWriter::Int(int64_t value) { return Value(absl::StrCat(value)); }
JsonWriter& JsonWriter::Bool(bool value) { return Value(value ? "true" : "false"); }
JsonWriter& JsonWriter::Null() { return Value("null"); }

JsonWriter& JsonWriter::Double(double value) {
  return std::isfinite(value) ? Value(RoundTripDouble(value)) : Null();
}

std::string JsonWriter::Take() {
  text_.push_back('\n');
  return std::exchange(text_, {});
}

JsonWriter& JsonWriter::Begin(char bracket) {
  BeforeValue();
  text_.push_back(bracket);
  ++depth_;
  is_first_ = true;
  return *this;
}

JsonWriter& JsonWriter::End(char bracket) {
  --depth_;
  if (!is_first_) NewLine();
  text_.push_back(bracket);
  is_first_ = false;
  return *this;
}

JsonWriter& JsonWriter::Value(absl::string_view text) {
  BeforeValue();
  absl::StrAppend(&text_, text);
  return *this;
}

void JsonWriter::BeforeValue() {
  if (std::exchange(after_key_, false) || depth_ == 0) return;
  if (!is_first_) text_.push_back(',');
  is_first_ = false;
  NewLine();
}

void JsonWriter::NewLine() {
  text_.push_back('\n');
  text_.append(2 * depth_, ' ');
}

}  // namespace factord::client
