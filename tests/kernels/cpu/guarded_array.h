// An array that nothing may touch beyond its ends: pages that are not there lie before and behind
// it, and what is left of its own pages is watched.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cstddef>
#include <cstring>
#include <map>
#include <new>
#include <span>
#include <vector>

namespace factord::kernels::testing {

// Pages between two that are not there. Kept for whoever asks next: to map them takes longer than a
// small matrix. One thread's.
class GuardedPages {
 public:
  explicit GuardedPages(std::size_t bytes) : size_(PageSize() * std::bit_ceil(Pages(bytes))) {
    std::vector<std::byte*>& kept = Kept()[size_];
    if (kept.empty()) {
      first_ = Map(size_);
    } else {
      first_ = kept.back();
      kept.pop_back();
    }
  }
  ~GuardedPages() { Kept()[size_].push_back(first_); }
  GuardedPages(const GuardedPages&) = delete;
  GuardedPages& operator=(const GuardedPages&) = delete;

  std::span<std::byte> bytes() const { return {first_, size_}; }

 private:
  static std::size_t PageSize() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }
  static std::size_t Pages(std::size_t bytes) { return (bytes + PageSize() - 1) / PageSize(); }
  static std::map<std::size_t, std::vector<std::byte*>>& Kept() {
    static std::map<std::size_t, std::vector<std::byte*>> kept;
    return kept;
  }
  static std::byte* Map(std::size_t size) {
    void* const pages = mmap(nullptr, size + 2 * PageSize(), PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    std::byte* const first = static_cast<std::byte*>(pages) + PageSize();
    if (mprotect(first, size, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    return first;
  }

  const std::size_t size_;
  std::byte* first_;
};

template <class T>
class GuardedArray {
 public:
  // Ends `spare` bytes before the page behind it, or earlier, so that its first element is aligned.
  explicit GuardedArray(std::size_t size, std::size_t alignment = alignof(T), std::size_t spare = 0)
      : bytes_(size * sizeof(T)), pages_(bytes_ + spare + alignment) {
    std::memset(all().data(), kRogueByte, all().size());
    data_ = all().data() + (all().size() - spare - bytes_) / alignment * alignment;
  }

  T* data() const { return reinterpret_cast<T*>(data_); }

  // Every byte. An array begins with a rogue value in each element, finite and large.
  void Fill(int byte) { std::memset(data_, byte, bytes_); }

  bool GuardsIntact() const {
    const std::byte *const data = data_, *const end = all().data() + all().size();
    return IsRogue({all().data(), data}) && IsRogue({data + bytes_, end});
  }

 private:
  static constexpr unsigned char kRogueByte = 0x5A;

  std::span<std::byte> all() const { return pages_.bytes(); }
  // The first byte is, and each of the others is like the one before.
  static bool IsRogue(std::span<const std::byte> zone) {
    return zone.empty() || (zone[0] == std::byte{kRogueByte} &&
                            std::memcmp(zone.data(), zone.data() + 1, zone.size() - 1) == 0);
  }

  const std::size_t bytes_;
  const GuardedPages pages_;
  std::byte* data_;
};

}  // namespace factord::kernels::testing
