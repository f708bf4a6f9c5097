// A CUDA device on the CPU: kernels and the CUDA runtime's functions compiled as ordinary C++. What
// tests can set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime.h"
#include "sanitizers.h"

namespace emulator {

enum class Scheduler {
  kSequential,  // all CUDA threads of a launch on the calling OS thread
  kThreaded,    // one OS thread per warp, so that warps really run at the same time
};

struct Options {
  Scheduler scheduler = kThreadSanitizer ? Scheduler::kThreaded : Scheduler::kSequential;
  // 0: blocks, warps and lanes take turns in order. Otherwise their order, and where a warp is
  // interrupted, are random.
  std::uint64_t seed = 0;
  // CopyAsync takes place only in CopyAsyncWait and leaves NaNs until then; in the sequential
  // scheduler CopyToPeer too takes place some time later. So a missing wait is noticed.
  bool deferred_copies = true;

  // ThreadSanitizer also sees races between the lanes of a warp. That takes two to three times as
  // long, and is not done where more than 4096 lanes are alive together.
  bool races_within_warps = true;

  int devices = 1;
  int multiprocessors = 132;
  std::size_t memory_bytes = std::size_t{4} << 30;  // of a device
};

// For all launches and calls from now on. Keeps allocations, but forgets FailAfter and LimitMemory.
void SetOptions(const Options& options);
Options GetOptions();

// A lost device: after `calls` more calls for it, every call for it returns `error`, until
// SetOptions.
void FailAfter(int device, int calls, cudaError_t error);

// cudaMalloc fails where the device's allocations would exceed this, instead of memory_bytes.
void LimitMemory(int device, std::size_t bytes);

// What cudaMalloc has handed out and cudaFree not yet got back.
std::size_t AllocatedBytes(int device);

}  // namespace emulator
