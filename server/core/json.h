// JSON strings, for what writes JSON itself: log lines and spans.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace factord {

// Appends `text` as a JSON string, quotes included. Whatever its bytes, the result is valid JSON in
// UTF-8: each byte that is not part of a character becomes U+FFFD.
void AppendJsonString(absl::string_view text, std::string& json);

}  // namespace factord
