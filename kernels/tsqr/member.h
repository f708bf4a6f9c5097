// One matrix as the blocks that share it see it.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>

#include "kernels/householder.h"
#include "kernels/problem.h"
#include "kernels/tsqr/workspace.h"

namespace factord::kernels::tsqr {

// True in the last of `blocks` blocks that come here with the same counter, zero at first: it sees
// what the others had written. By all threads.
__device__ __forceinline__ bool IsLastOf(std::uint32_t* counter, int blocks) {
  __threadfence();
  __syncthreads();
  const bool last = __syncthreads_or(threadIdx.x == 0 &&
                                     atomicAdd(counter, 1u) == static_cast<unsigned>(blocks) - 1);
  if (last) __threadfence();
  return last;
}

// One block's matrix: the rows below its first n, which the parts share.
template <class T, int N>
struct Member {
  __device__ __forceinline__ Member(const Problem& problem, const Batch<T>& batch,
                                    const Workspace<T>& work)
      : index(blockIdx.x / static_cast<unsigned>(work.parts)),
        run(RunOf(batch, index)),
        local(index - run.first),
        part(static_cast<int>(blockIdx.x % static_cast<unsigned>(work.parts))),
        parts(work.parts),
        m(run.m),
        n(run.n),
        strides(StridesOf(m, n, problem.column_major)),
        a(run.a + local * m * n),
        state(work.states + index),
        r(work.r + index * parts * (N * N)),
        fields(work.fields + index * parts * N) {}

  // Entry (i, j) of A, zero outside of it.
  __device__ __forceinline__ T At(int i, int j) const {
    return i < m && j < n ? a[i * strides.row + j * strides.col] : T(0);
  }
  // By rows, without a gap between the kernels' N columns, 16-byte aligned: rows can be copied 16
  // bytes at a time.
  __device__ __forceinline__ bool IsPacked() const {
    return strides.col == 1 && n == N && reinterpret_cast<std::uintptr_t>(a) % 16 == 0;
  }
  // Rows below the first n.
  __device__ __forceinline__ int Rows() const { return m > n ? m - n : 0; }

  __device__ __forceinline__ bool IsLast() const { return IsLastOf(&state->arrived, parts); }

  const std::int64_t index;
  const Run<T>& run;
  const std::int64_t local;  // in the run
  const int part, parts;
  const int m, n;
  const Strides strides;
  const T* const a;
  State* const state;
  T* const r;
  int* const fields;
};

// The matrix's R and its status: entry (i, j) is r(i, j) unscale(j). By all threads.
template <class T, int N, int kThreads, class R, class Unscale>
__device__ void WriteR(const Problem& problem, const Batch<T>& batch, const Member<T, N>& member,
                       R r, Unscale unscale, bool nonfinite) {
  const int n = member.n, k = member.run.k();
  T* const out = member.run.r + member.local * k * n;
  const Strides strides = StridesOf(k, n, problem.column_major);
  bool finite = true;
  for (int e = static_cast<int>(threadIdx.x); e < k * n; e += kThreads) {
    const int i = e / n, j = e % n;
    T value = i > j ? T(0) : static_cast<T>(r(i, j) * unscale(j));
    if (problem.sign != Sign::kLapack && i <= j) {
      if (r(i, i) < 0) value = -value;
      if (i == j && value == T(0)) value = T(0);  // -0 becomes +0
    }
    if (nonfinite) value = std::numeric_limits<T>::quiet_NaN();
    finite &= ExponentField(value) != Ieee<T>::kTopField;
    out[i * strides.row + j * strides.col] = value;
  }
  const bool overflow = !__syncthreads_and(finite);
  if (threadIdx.x != 0) return;
  std::uint32_t& status = batch.status[member.index];
  status = 0;
  if (nonfinite) {
    status = kNonfiniteInput;
  } else if (overflow) {
    status = kResultOutOfRange;
  }
}

}  // namespace factord::kernels::tsqr
