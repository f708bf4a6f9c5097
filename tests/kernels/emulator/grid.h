// A launch while it runs: clusters of blocks of warps of lanes; a lane is a CUDA thread.
//
// Lanes run as fibers. What lanes and the scheduler share is atomic, mostly relaxed:
// ThreadSanitizer regards every lane as a thread of its own, and shall see only the order that CUDA
// promises.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "emulator.h"
#include "fiber.h"
#include "guarded_memory.h"
#include "vectors.h"

namespace emulator {

inline constexpr int kWarpSize = 32;

// Orders nothing.
template <class T>
class Relaxed {
 public:
  Relaxed(T value = T()) : value_(value) {}
  operator T() const { return value_.load(std::memory_order_relaxed); }
  T operator=(T value) {
    value_.store(value, std::memory_order_relaxed);
    return value;
  }

 private:
  std::atomic<T> value_;
};

// A word that lanes wait for: it changes when they may go on. Part of a block's shared memory (an
// mbarrier) or not.
inline std::uint64_t LoadWord(const std::uint64_t* word, std::memory_order order) {
  return std::atomic_ref(*const_cast<std::uint64_t*>(word)).load(order);
}

struct Launch;
struct Cluster;
struct Block;
struct Warp;

struct AsyncCopy {
  void* to;
  const void* from;  // null: zeros
  std::size_t bytes;
};

struct Lane {
  enum class State { kReady, kWaiting, kPaused, kFinished };

  int number = 0;  // in its warp
  uint3 index{};   // threadIdx
  Warp* warp = nullptr;
  Block* block = nullptr;
  Fiber fiber;

  Relaxed<State> state{State::kReady};
  // While it waits: for *word to differ from `seen`.
  Relaxed<const std::uint64_t*> word;
  Relaxed<std::uint64_t> seen;
  Relaxed<const char*> place{"its start"};  // the last primitive

  // Its own.
  std::vector<AsyncCopy> open_copies;  // not yet committed
  std::deque<std::vector<AsyncCopy>> committed_copies;
  bool cluster_arrived = false;
  std::uint64_t cluster_generation = 0;  // when it arrived
};

struct Warp {
  static constexpr int kWords = 6;  // the most that a lane gives to an exchange
  struct Exchange {
    Relaxed<std::uint64_t> words[kWarpSize][kWords];
  };

  int number = 0;
  Block* block = nullptr;
  std::vector<Lane> lanes;
  StackSet* stacks = nullptr;  // of the lanes

  // The meeting of all lanes in a warp primitive. Exchanges alternate, so that a lane may enter the
  // next meeting while others still read the last one's.
  std::uint64_t generation = 0;
  std::atomic<int> arrived = 0;
  Relaxed<const char*> operation;
  Exchange exchanges[2];

  Relaxed<int> finished;
  Relaxed<std::uint64_t> progress;  // changes with everything that may let another lane go on
  Relaxed<Fiber*> scheduler;        // of the OS thread that it runs on
  Relaxed<std::uint64_t> random;    // 0: lanes in order
  Relaxed<int> step{1};             // from one lane to the next

  void Progress() { progress = progress + 1; }
  int size() const { return static_cast<int>(lanes.size()); }
};

struct Block {
  explicit Block(std::size_t shared_bytes) : shared(shared_bytes) {}

  uint3 index{};  // blockIdx
  int rank = 0;   // in its cluster
  Cluster* cluster = nullptr;
  GuardedMemory shared;
  std::deque<Warp> warps;
  int threads = 0;

  // __syncthreads
  std::uint64_t generation = 0;
  std::atomic<int> arrived = 0;
  std::atomic<int> votes[2] = {0, 0};  // by the parity of the generation

  // SyncWarps, by its id
  struct Meeting {
    std::uint64_t generation = 0;
    std::atomic<int> arrived = 0;
  };
  Meeting meetings[16];

  std::atomic<std::uint64_t> fence = 0;
  std::atomic<int> finished = 0;
};

struct PeerCopy {
  Block* from_block;
  Block* to_block;
  void* to;
  const void* from;
  std::uint32_t bytes;
  std::uint64_t* barrier;
};

struct Cluster {
  Launch* launch = nullptr;
  std::deque<Block> blocks;
  std::uint64_t generation = 0;
  std::atomic<int> arrived = 0;
  int threads = 0;
  std::vector<PeerCopy> peer_copies;  // under way; in the sequential scheduler only
};

struct Launch {
  Options options;
  dim3 grid;
  dim3 block;
  unsigned cluster = 1;
  std::size_t shared_bytes = 0;
  bool cooperative = false;
  bool lanes_are_threads = true;  // for ThreadSanitizer
  const std::function<void()>* thread = nullptr;
  std::atomic<std::uint64_t> fence = 0;
};

// The lane that runs on this OS thread; null outside of kernels.
extern constinit thread_local Lane* current_lane;
inline Lane& CurrentLane();

// ---- the scheduler
// Runs all of the launch.
void Run(Launch& launch);
// Until *word differs from `seen`. Orders nothing.
void Wait(const std::uint64_t* word, std::uint64_t seen, const char* place);
// Lets all other lanes have a turn.
void Pause(const char* place);

// Gives `values` to the warp and returns what all its lanes gave, once all of them are here. Orders
// nothing.
const Warp::Exchange& Meet(const char* operation, std::span<const std::uint64_t> values);

// Completes a copy to a peer.
void Deliver(const PeerCopy& copy);

// An error of the kernel: says where and ends the process.
[[noreturn]] void Fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

inline Lane& CurrentLane() {
  if (current_lane == nullptr) Fail("a device function was called outside of a kernel");
  return *current_lane;
}

}  // namespace emulator
