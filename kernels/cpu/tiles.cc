#include "kernels/cpu/tiles.h"

#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace factord::kernels::cpu {
namespace {

constexpr std::uint64_t kLoop = std::uint64_t{1} << 32;

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

std::uint32_t TilesLeft(std::uint64_t word) { return static_cast<std::uint32_t>(word); }

}  // namespace

void Tiles::Open(std::int64_t count, Body body, void* context) {
  count_ = count;
  done_.store(0, std::memory_order_relaxed);
  body_.store(body, std::memory_order_relaxed);
  context_.store(context, std::memory_order_relaxed);
  const std::uint64_t loop = word_.load(std::memory_order_relaxed) / kLoop + 1;
  word_.store(loop * kLoop + static_cast<std::uint64_t>(count), std::memory_order_release);
}

void Tiles::Finish() {
  Work(word_.load(std::memory_order_relaxed));
  for (int turns = 0; done_.load(std::memory_order_acquire) < count_;) Wait(turns);
}

void Tiles::Close() { closed_.store(true, std::memory_order_release); }

void Tiles::Help() {
  std::uint64_t word = 0;
  for (int turns = 0; !closed_.load(std::memory_order_acquire);) {
    word = word_.load(std::memory_order_acquire);
    if (TilesLeft(word) == 0) {
      Wait(turns);
    } else {
      turns = 0;
      Work(word);
    }
  }
}

std::uint64_t Tiles::Work(std::uint64_t word) {
  while (TilesLeft(word) > 0) {
    const Body body = body_.load(std::memory_order_relaxed);
    void* const context = context_.load(std::memory_order_relaxed);
    // Succeeds only while the loop is the one whose body was read: its number never comes back.
    if (word_.compare_exchange_weak(word, word - 1, std::memory_order_acq_rel,
                                    std::memory_order_acquire)) {
      body(context, TilesLeft(word) - 1);
      done_.fetch_add(1, std::memory_order_release);
      word = word_.load(std::memory_order_acquire);
    }
  }
  return word;
}

}  // namespace factord::kernels::cpu
