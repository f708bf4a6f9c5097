#include "server/core/slab.h"

#include "absl/strings/str_cat.h"

namespace factord {

absl::StatusOr<Slab> Slab::Create(std::int64_t bytes) {
  Slab slab;
  if (bytes == 0) return slab;
  slab.memory_.reset(static_cast<std::byte*>(
      std::aligned_alloc(kSlabAlignment, static_cast<std::size_t>(AlignedBytes(bytes)))));
  if (slab.memory_ == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("out of memory: the system refused ", bytes, " bytes"));
  }
  return slab;
}

}  // namespace factord
