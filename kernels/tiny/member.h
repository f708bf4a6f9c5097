// A matrix of a batch, where its operands lie, and how it ends: what the tiny kernels share.
#pragma once

#include <cuda_runtime.h>

#include <bit>
#include <cstdint>
#include <limits>

#include "kernels/householder.h"
#include "kernels/problem.h"

namespace factord::kernels::tiny {

// A matrix in device memory, of fewer than 2^31 entries: (i, j) at data[i * row + j * col].
template <class T>
struct Operand {
  T* data;
  int rows, cols;
  int row, col;     // strides
  bool by_columns;  // a column's entries are neighbours in memory; else a row's

  __device__ __forceinline__ T& at(int i, int j) const { return data[i * row + j * col]; }
  __device__ __forceinline__ Operand transposed() const {
    return {data, cols, rows, col, row, !by_columns};
  }
};

// Matrix `index` of the batch. Past the batch's end it is empty, but for `run` and `local`, which
// go on counting in the last run.
template <class T>
struct Member {
  __device__ __forceinline__ Member(const Batch<T>& batch, std::int64_t index)
      : index(index),
        live(index < batch.count),
        run(RunOf(batch, live ? index : batch.count - 1)),
        local(index - run.first),
        m(live ? run.m : 0),
        n(live ? run.n : 0),
        p(live ? run.p : 0) {}

  __device__ __forceinline__ int k() const { return m < n ? m : n; }
  __device__ __forceinline__ int QColumns(const Problem& problem) const {
    return problem.q == QMode::kComplete ? m : k();
  }

  // The member's matrix among an operand's, of which `first` is the run's first.
  template <class U>
  __device__ __forceinline__ Operand<U> Matrix(U* first, int rows, int cols,
                                               bool column_major) const {
    return {first + local * rows * cols, rows,        cols, column_major ? 1 : cols,
            column_major ? rows : 1,     column_major};
  }
  // C or the result as an m x p matrix: C^T where Q stands on C's right.
  template <class U>
  __device__ __forceinline__ Operand<U> LeftHandMatrix(U* first, const Problem& problem) const {
    return problem.right ? Matrix(first, p, m, problem.rhs_column_major).transposed()
                         : Matrix(first, m, p, problem.rhs_column_major);
  }

  const std::int64_t index;
  const bool live;
  const Run<T>& run;
  const std::int64_t local;
  const int m, n, p;
};

// The largest exponent field of a column's entries.
template <class T, int kRows>
__device__ __forceinline__ int LargestField(const T (&x)[kRows]) {
  constexpr int kBelow = 8 * sizeof(T) - 32;  // bits below the first 32
  std::uint32_t largest = 0;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const auto bits = std::bit_cast<typename Ieee<T>::Bits>(x[r]);
    largest = max(largest, static_cast<std::uint32_t>(bits >> kBelow) & 0x7fffffffu);
  }
  return static_cast<int>(largest >> (Ieee<T>::kMantissaBits - kBelow));
}

// What det Q and R's diagonal say about signs. Bit i of the result: column i of Q and row i of R
// are negated. `negative`: bit i says that R's i-th diagonal entry is; `reflects`: that H_i is not
// the identity, so that its determinant is -1.
__device__ __forceinline__ unsigned ChooseFlips(Sign sign, unsigned negative, unsigned reflects,
                                                int m) {
  if (sign == Sign::kLapack) return 0;
  const bool negative_determinant = __popc(negative ^ reflects) % 2 != 0;
  if (sign == Sign::kSpecialOrthogonal && negative_determinant && m > 0) negative ^= 1u << (m - 1);
  return negative;
}

// Writes the member's status and, where its input was not finite, NaN over all of its outputs,
// which lanes of this warp have written, or threads that it has met since. `part`: this thread's
// number among the `parts` that share the member. All lanes of the warp.
template <class T>
__device__ __forceinline__ void Finish(const Problem& problem, const Batch<T>& batch,
                                       const Member<T>& member, bool nonfinite, bool out_of_range,
                                       int part, int parts) {
  const auto fill = [&](T* first, std::int64_t elements) {
    T* const out = first + member.local * elements;
    for (std::int64_t i = part; i < elements; i += parts)
      out[i] = std::numeric_limits<T>::quiet_NaN();
  };
  __syncwarp();
  if (!member.live) return;
  if (nonfinite) {
    const std::int64_t m = member.m, n = member.n, k = member.k();
    if (problem.op != Op::kApplyQ && problem.q != QMode::kNone)
      fill(member.run.q, m * member.QColumns(problem));
    if (problem.op == Op::kFactorize && problem.r) fill(member.run.r, k * n);
    if (problem.op == Op::kFactorize && problem.reflectors) {
      fill(member.run.reflectors, m * n);
      fill(member.run.tau, k);
    }
    if (problem.op == Op::kApplyQ) fill(member.run.result, m * member.p);
  }
  if (part != 0) return;
  std::uint32_t status = 0;
  if (nonfinite)
    status = kNonfiniteInput;
  else if (out_of_range)
    status = kResultOutOfRange;
  batch.status[member.index] = status;
}

}  // namespace factord::kernels::tiny
