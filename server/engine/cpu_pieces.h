// CpuPieces: how the CPU engine shares a batch out among its threads. Pure; every figure that
// decides about it is in this file and cpu_pieces.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "server/core/batch.h"
#include "server/core/spec.h"
#include "server/engine/piece.h"

namespace factord {

// How fast one thread is at matrices of a spec, roughly: it decides how they are shared out, and
// nothing of their results.
struct Pace {
  double flops_per_ns = 1;
  // Each matrix counts as this many more: calls, packing, memory.
  double overhead_flops = 0;
  // A matrix that takes one thread this long is worth all threads' attention.
  double team_ns = 0;
  // Matrices that go best together; more only in multiples of it.
  std::int64_t group = 1;
};

// A team for some 1 ms of one matrix and more: between its panels LAPACK's threads sleep and are
// woken.
inline constexpr Pace kLapackPace = {.flops_per_ns = 4, .overhead_flops = 2000, .team_ns = 5e6};

// kernels/cpu, f32 and c64: half of what 64 x 64 reaches with AVX-512, so that small ones are not
// overrated. Tiles are handed over within a microsecond: what a team costs is its first wake-up.
inline constexpr Pace kSimdPaceF32 = {.flops_per_ns = 32, .overhead_flops = 500, .team_ns = 2.5e5};
// f64 and c128.
inline constexpr Pace kSimdPaceF64 = {.flops_per_ns = 16, .overhead_flops = 500, .team_ns = 2.5e5};

struct CpuPieces {
  std::vector<Piece> shared;            // one thread each, several a chunk
  std::vector<std::size_t> chunk_ends;  // chunk i ends before shared[chunk_ends[i]]
  std::vector<Piece> together;          // by all threads, one matrix after the other
};

// Every matrix of the batch, once, in its jobs' order. What `pieces` held is forgotten, its memory
// used again.
void CutForCpu(const Batch& batch, int threads, absl::FunctionRef<Pace(const Spec&)> pace_of,
               CpuPieces& pieces);

}  // namespace factord
