// Memory between two guard zones, filled with NaNs.
#pragma once

#include <cstddef>
#include <optional>

namespace emulator {

class GuardedMemory {
 public:
  static constexpr std::size_t kGuard = 1024;      // bytes on either side
  static constexpr std::size_t kAlignment = 1024;  // of data()

  explicit GuardedMemory(std::size_t bytes);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  std::byte* data() const { return base_ + kGuard; }
  std::size_t size() const { return size_; }
  bool Contains(const void* p, std::size_t bytes) const;
  // Where it was written outside of data() ... data() + size(), as an offset from data().
  std::optional<std::ptrdiff_t> Damage() const;

 private:
  std::size_t size_;
  std::byte* base_;
};

}  // namespace emulator
