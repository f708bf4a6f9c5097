// Workspace: scratch memory of one thread, handed out in order and taken back scope by scope. It
// grows to what was ever needed and stays there, so a run of equal matrices allocates nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "server/engine/matrix_view.h"

namespace factord {

// Every pointer handed out is a multiple of this. BLAS kernels may round differently at another
// alignment, so the bits of a result depend on it.
inline constexpr std::size_t kAlignment = 64;

// A multiple of kAlignment for every column; not of 1 KiB, lest a row's entries fight for one cache
// set.
template <class T>
constexpr std::int64_t LeadingDimension(std::int64_t m) {
  constexpr std::int64_t kStep = kAlignment / sizeof(T);
  const std::int64_t ld = m < 1 ? kStep : (m + kStep - 1) / kStep * kStep;
  return ld * static_cast<std::int64_t>(sizeof(T)) % 1024 == 0 ? ld + kStep : ld;
}

// Not thread-safe. Memory is uninitialized. Aligned, so that neighbours in an array share no cache
// line.
class alignas(kAlignment) Workspace {
 public:
  // Gives back, on destruction, all that was taken since.
  class Scope {
   public:
    explicit Scope(Workspace& workspace)
        : workspace_(workspace), block_(workspace.block_), used_(workspace.used_) {}
    ~Scope() {
      workspace_.block_ = block_;
      workspace_.used_ = used_;
      if (block_ == 0 && used_ == 0) workspace_.Merge();
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Workspace& workspace_;
    const std::size_t block_;
    const std::size_t used_;
  };

  template <class T>
  T* Take(std::int64_t count) {
    return reinterpret_cast<T*>(TakeBytes(static_cast<std::size_t>(count) * sizeof(T)));
  }
  template <class T>
  MatrixView<T> TakeMatrix(std::int64_t m, std::int64_t n) {
    const std::int64_t ld = LeadingDimension<T>(m);
    return {Take<T>(ld * n), m, n, ld};
  }

  // Gives the memory back to the system if there is more than `bytes` of it. Not within a Scope.
  void Trim(std::size_t bytes) {
    if (capacity_bytes() > bytes) blocks_.clear();
  }

  std::size_t capacity_bytes() const {
    std::size_t total = 0;
    for (const Block& block : blocks_) total += block.bytes;
    return total;
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const {
      ::operator delete[](memory, std::align_val_t{kAlignment});
    }
  };
  struct Block {
    std::unique_ptr<std::byte[], Free> memory;
    std::size_t bytes = 0;
  };

  static Block Allocate(std::size_t bytes) {
    return {std::unique_ptr<std::byte[], Free>(new (std::align_val_t{kAlignment}) std::byte[bytes]),
            bytes};
  }

  std::byte* TakeBytes(std::size_t bytes) {
    const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    while (block_ < blocks_.size() && used_ + rounded > blocks_[block_].bytes) {
      ++block_;
      used_ = 0;
    }
    if (block_ == blocks_.size()) blocks_.push_back(Allocate(std::max(rounded, kFirstBytes)));
    std::byte* taken = blocks_[block_].memory.get() + used_;
    used_ += rounded;
    return taken;
  }

  // With nothing in use: one block instead of many.
  void Merge() {
    if (blocks_.size() < 2) return;
    const std::size_t total = capacity_bytes();
    blocks_.clear();
    blocks_.push_back(Allocate(total));
  }

  static constexpr std::size_t kFirstBytes = 256 << 10;

  std::vector<Block> blocks_;
  std::size_t block_ = 0;  // in use; those before it are full
  std::size_t used_ = 0;   // bytes of it
};

}  // namespace factord
