#include "guarded_memory.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "sanitizers.h"

namespace emulator {
namespace {

constexpr std::byte kGuardByte{0xA5};

}  // namespace

GuardedMemory::GuardedMemory(std::size_t bytes) : size_(bytes) {
  const std::size_t total = (kGuard + bytes + kGuard + kAlignment - 1) / kAlignment * kAlignment;
  base_ = static_cast<std::byte*>(std::aligned_alloc(kAlignment, total));
  if (base_ == nullptr) throw std::bad_alloc();
  std::memset(base_, static_cast<int>(kGuardByte), kGuard);
  std::memset(data(), 0xFF, size_);
  std::memset(data() + size_, static_cast<int>(kGuardByte), kGuard);
#ifdef EMULATOR_ASAN
  __asan_poison_memory_region(base_, kGuard);
  __asan_poison_memory_region(data() + size_, kGuard);
#endif
}

GuardedMemory::~GuardedMemory() {
#ifdef EMULATOR_ASAN
  __asan_unpoison_memory_region(base_, kGuard);
  __asan_unpoison_memory_region(data() + size_, kGuard);
#endif
  std::free(base_);
}

bool GuardedMemory::Contains(const void* p, std::size_t bytes) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(data()),
             at = reinterpret_cast<std::uintptr_t>(p);
  return at >= begin && at - begin <= size_ && bytes <= size_ - (at - begin);
}

std::optional<std::ptrdiff_t> GuardedMemory::Damage() const {
  if (kAddressSanitizer) return std::nullopt;  // it has reported any
  const auto damaged = [](std::byte b) { return b != kGuardByte; };
  for (const std::byte* zone : {base_, data() + size_}) {
    const std::byte* const at = std::find_if(zone, zone + kGuard, damaged);
    if (at != zone + kGuard) return at - data();
  }
  return std::nullopt;
}

}  // namespace emulator
