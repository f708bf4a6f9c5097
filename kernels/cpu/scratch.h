// Scratch: a caller's scratch memory, handed out in order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/qr.h"

namespace factord::kernels::cpu {

// Over null memory it only counts: what an algorithm takes from it is what it needs.
class Scratch {
 public:
  explicit Scratch(std::byte* memory) : memory_(reinterpret_cast<std::uintptr_t>(memory)) {}

  // `count` elements, uninitialized, aligned to kAlignment.
  template <class T>
  T* Take(std::int64_t count) {
    const std::uintptr_t taken = memory_ + used_;
    used_ +=
        (static_cast<std::size_t>(count) * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return reinterpret_cast<T*>(taken);
  }
  std::size_t used() const { return used_; }
  bool counts_only() const { return memory_ == 0; }

 private:
  std::uintptr_t memory_;
  std::size_t used_ = 0;
};

}  // namespace factord::kernels::cpu
