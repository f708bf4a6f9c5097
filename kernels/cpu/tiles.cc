#include "kernels/cpu/tiles.h"

#include <algorithm>
#include <cstddef>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace factord::kernels::cpu {
namespace {

// Of a waiting thread before it lets others run: some tens of microseconds.
constexpr int kSpins = 1000;

void Pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// One turn of a wait.
void Wait(int& turns) {
  if (++turns < kSpins) {
    Pause();
  } else {
    std::this_thread::yield();
  }
}

std::uint32_t NumberOf(std::uint64_t loop) { return static_cast<std::uint32_t>(loop >> 32); }
int PortionsOf(std::uint64_t loop) { return static_cast<int>(loop & 0xffffffff); }

}  // namespace

void Tiles::Open(std::int64_t count, Body body, void* context) {
  body_ = body;
  context_ = context;
  count_ = count;
  done_.store(0, std::memory_order_relaxed);
  const std::uint32_t number = NumberOf(loop_.load(std::memory_order_relaxed)) + 1;
  const auto portions = static_cast<std::uint64_t>(std::min<std::int64_t>(count, kMostPortions));
  loop_.store(std::uint64_t{number} << 32 | portions, std::memory_order_release);
}

void Tiles::Finish() {
  const std::uint64_t loop = loop_.load(std::memory_order_relaxed);
  Work(loop, 0);
  for (int turns = 0; done_.load(std::memory_order_acquire) < PortionsOf(loop);) Wait(turns);
}

void Tiles::Close() { closed_.store(true, std::memory_order_release); }

void Tiles::Help() {
  const int member = members_.fetch_add(1, std::memory_order_relaxed);
  std::uint64_t seen = 0;
  for (int turns = 0; !closed_.load(std::memory_order_acquire);) {
    const std::uint64_t loop = loop_.load(std::memory_order_acquire);
    if (loop == seen) {
      Wait(turns);
      continue;
    }
    turns = 0;
    seen = loop;
    Work(loop, member);
  }
}

void Tiles::Work(std::uint64_t loop, int member) {
  const int portions = PortionsOf(loop);
  const int members = members_.load(std::memory_order_relaxed);
  for (int i = member; i < portions; i += members) Take(loop, i);
  for (int i = 0; i < portions; ++i) {
    if (i % members != member) Take(loop, i);
  }
}

void Tiles::Take(std::uint64_t loop, int portion) {
  std::atomic<std::uint32_t>& taken = taken_[static_cast<std::size_t>(portion)];
  // A helper that comes late, with an older loop, finds all of it taken: that loop was finished.
  std::uint32_t last = taken.load(std::memory_order_relaxed);
  const std::uint32_t number = NumberOf(loop);
  if (last >= number || !taken.compare_exchange_strong(last, number, std::memory_order_relaxed)) {
    return;
  }
  // The loop is open until this portion is done: what describes it may be read.
  const std::int64_t portions = PortionsOf(loop);
  const std::int64_t first = count_ - (portion + 1) * count_ / portions;
  const std::int64_t end = count_ - portion * count_ / portions;
  for (std::int64_t tile = first; tile < end; ++tile) body_(context_, tile);
  done_.fetch_add(1, std::memory_order_release);
}

}  // namespace factord::kernels::cpu
