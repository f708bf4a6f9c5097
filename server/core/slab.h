// Slab: uninitialized host memory, aligned for vector loads. What payloads are copied into, and
// results written to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "absl/status/statusor.h"

namespace factord {

inline constexpr std::int64_t kSlabAlignment = 64;

// `bytes` rounded up to the alignment, so that what is carved one after another stays aligned.
constexpr std::int64_t AlignedBytes(std::int64_t bytes) {
  return (bytes + kSlabAlignment - 1) / kSlabAlignment * kSlabAlignment;
}

// Movable, not copyable; owns its memory.
class Slab {
 public:
  Slab() = default;

  // RESOURCE_EXHAUSTED where the system has no `bytes` left. bytes >= 0; 0 allocates nothing.
  static absl::StatusOr<Slab> Create(std::int64_t bytes);

  std::byte* data() const { return memory_.get(); }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
};

}  // namespace factord
