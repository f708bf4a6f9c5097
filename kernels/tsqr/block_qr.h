// R of rows that lie in the registers of one thread block: LAPACK's geqr2, of which only R is kept.
#pragma once

#include <cuda_runtime.h>

#include "kernels/householder.h"
#include "kernels/simt/ptx.h"
#include "kernels/simt/sums.h"

namespace factord::kernels::tsqr {

// The matrix has kAllRows rows and N columns, a power of two; thread (group, col) holds entries
// (i kGroups + group, col). Per column: who holds it publishes it, everybody forms his part of its
// products with the other columns, everybody adds the parts up.
template <class T, int N, int kThreads, int kRows>
struct BlockQr {
  static_assert((N & (N - 1)) == 0 && N <= 64 && kThreads % 64 == 0);
  static constexpr int kGroups = kThreads / N;
  static constexpr int kAllRows = kGroups * kRows;
  // Threads whose parts a warp's shuffles can't add up.
  static constexpr int kSlots = N <= 32 ? kThreads / 32 : kGroups;

  struct Shared {
    T column[2][kAllRows];  // of step j in [j % 2]: zero on and above the diagonal
    T row[2][N];
    T sums[kSlots][N];
  };

  static __device__ __forceinline__ int Col() { return static_cast<int>(threadIdx.x) % N; }
  static __device__ __forceinline__ int Group() { return static_cast<int>(threadIdx.x) / N; }

  // out (N x N, in shared or global memory) := R with zeros below its diagonal; x is destroyed. By
  // all threads of the block, which must meet before they use `out` or reuse `shared`.
  static __device__ __forceinline__ void Run(T (&x)[kRows], Shared& shared, T* out) {
    const int col = Col(), group = Group();
    const int slot = N <= 32 ? static_cast<int>(threadIdx.x) / 32 : group;
#pragma unroll 1
    for (int j = 0; j < N; ++j) {
      T* const column = shared.column[j % 2];
      T* const row = shared.row[j % 2];
      if (col == j) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          const int r = i * kGroups + group;
          column[r] = r > j ? x[i] : T(0);
        }
      }
      if (group == j % kGroups) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          int offset = j / kGroups - i;
          Forget(offset);  // else x would be indexed, and so lie in memory
          if (offset == 0) row[col] = x[i];
        }
      }
      __syncthreads();

      T d[2] = {T(0), T(0)};
#pragma unroll
      for (int i = 0; i < kRows; ++i) d[i % 2] += column[i * kGroups + group] * x[i];
      T part = d[0] + d[1];
#pragma unroll
      for (int other = 16; other >= N; other /= 2) part += __shfl_xor_sync(kAllLanes, part, other);
      if (N >= 32 || threadIdx.x % 32 < N) shared.sums[slot][col] = part;
      __syncthreads();

      T sigma = 0, product = 0;
#pragma unroll
      for (int s = 0; s < kSlots; ++s) {
        sigma += shared.sums[s][j];
        product += shared.sums[s][col];
      }
      const Reflector<T> h = Larfg(row[j], sigma);
      const T w = h.tau * (row[col] + h.scale * product), f = h.scale * w;
      if (group == 0) out[j * N + col] = col < j ? T(0) : col == j ? h.beta : row[col] - w;
#pragma unroll
      for (int i = 0; i < kRows; ++i) x[i] -= column[i * kGroups + group] * f;
    }
  }
};

}  // namespace factord::kernels::tsqr
