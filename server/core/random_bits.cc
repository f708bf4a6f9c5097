#include "server/core/random_bits.h"

#include "absl/random/random.h"

namespace factord {

std::uint64_t RandomBits() {
  thread_local absl::BitGen generator;
  return generator();
}

}  // namespace factord
