// SHA-256: secrets are compared and remembered by it, not as they are.
#pragma once

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace factord {

using Digest = std::array<std::uint8_t, 32>;

Digest DigestOf(absl::string_view text);

// Takes as long wherever the two differ.
bool EqualInConstantTime(const Digest& a, const Digest& b);

}  // namespace factord
