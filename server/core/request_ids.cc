#include "server/core/request_ids.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/core/random_bits.h"

namespace factord {
namespace {

constexpr std::size_t kMaxRequestIdBytes = 128;

}  // namespace

bool IsRequestId(absl::string_view id) {
  return !id.empty() && id.size() <= kMaxRequestIdBytes &&
         std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c < 0x7F; });
}

std::string NewRequestId() {
  return absl::StrCat(absl::Hex(RandomBits(), absl::kZeroPad16),
                      absl::Hex(RandomBits(), absl::kZeroPad16));
}

}  // namespace factord
