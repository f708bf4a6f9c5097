// Gzip, as HTTP's Content-Encoding has it.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace factord {

std::string Gzip(absl::string_view plain);

// Whether a request with this Accept-Encoding takes gzip: it is named, or "*" is, without q=0.
bool AcceptsGzip(absl::string_view accept_encoding);

}  // namespace factord
