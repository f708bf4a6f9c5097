#include "server/core/json.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_format.h"

namespace factord {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

bool IsContinuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

// Bytes of the character at the front of `text`, which is not empty; 0: there is none. As RFC 3629
// has it: no overlong forms, no surrogates, nothing beyond U+10FFFF.
std::size_t CharacterSize(absl::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const std::size_t size = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if (!IsContinuation(byte(i))) return 0;
  }
  if (first == 0xE0 && byte(1) < 0xA0) return 0;
  if (first == 0xED && byte(1) > 0x9F) return 0;
  if (first == 0xF0 && byte(1) < 0x90) return 0;
  if (first == 0xF4 && byte(1) > 0x8F) return 0;
  return size;
}

void AppendAscii(char c, std::string& json) {
  switch (c) {
    case '"':
      json += "\\\"";
      return;
    case '\\':
      json += "\\\\";
      return;
    case '\n':
      json += "\\n";
      return;
    case '\r':
      json += "\\r";
      return;
    case '\t':
      json += "\\t";
      return;
    default:
      break;
  }
  if (c < 0x20 || c == 0x7F) {
    absl::StrAppendFormat(&json, "\\u%04x", static_cast<unsigned>(c));
  } else {
    json.push_back(c);
  }
}

}  // namespace

void AppendJsonString(absl::string_view text, std::string& json) {
  json.push_back('"');
  while (!text.empty()) {
    const std::size_t size = CharacterSize(text);
    if (size == 1) {
      AppendAscii(text[0], json);
    } else if (size == 0) {
      json.append(kReplacement.data(), kReplacement.size());
    } else {
      json.append(text.data(), size);
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
  json.push_back('"');
}

}  // namespace factord
