// R of rows that lie in the registers of one thread block, a few whole rows a thread: for few
// columns. LAPACK's geqr2, of which only R is kept.
#pragma once

#include <cuda_runtime.h>

#include "kernels/householder.h"
#include "kernels/simt/sums.h"

namespace factord::kernels::tsqr {

// The matrix: N rows, row t of them in `top` of thread t, above kRows rows of every thread. Column
// j of step j is always the first in registers: the update moves the others up.
template <class T, int N, int kThreads, int kRows>
struct RowQr {
  static_assert((N & (N - 1)) == 0 && N <= 32 && kThreads % 32 == 0);
  static constexpr int kWarps = kThreads / 32;

  struct Shared {  // of step j in [j % 2]
    T sums[2][kWarps][N];
    T pivot[2][N];
  };

  // out (N x N, in shared or global memory) := R with zeros below its diagonal; the rows are
  // destroyed. By all threads of the block, which must meet before they use `out` or reuse
  // `shared`.
  static __device__ __forceinline__ void Run(T (&top)[N], T (&rows)[kRows][N], Shared& shared,
                                             T* out) {
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, col = lane % N;
#pragma unroll 1
    for (int j = 0; j < N; ++j) {
      const bool has_top = thread > j && thread < N;
      T p[N];
#pragma unroll
      for (int k = 0; k < N; ++k) {
        p[k] = has_top ? top[0] * top[k] : T(0);
#pragma unroll
        for (int i = 0; i < kRows; ++i) p[k] += rows[i][0] * rows[i][k];
      }
      const T warp_sum = SumScatter(p, lane);
      if (lane % (32 / N) == 0) shared.sums[j % 2][thread / 32][lane / (32 / N)] = warp_sum;
      if (thread == j) {
#pragma unroll
        for (int k = 0; k < N; ++k) shared.pivot[j % 2][k] = top[k];
      }
      __syncthreads();

      T product = 0;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) product += shared.sums[j % 2][w][col];
      const T pivot = shared.pivot[j % 2][col];
      const Reflector<T> h = Larfg(shared.pivot[j % 2][0], __shfl_sync(kAllLanes, product, 0));
      const T w = h.tau * (pivot + h.scale * product), f = h.scale * w;
      if (thread < N) {
        const bool right = col + j < N;
        out[j * N + (right ? col + j : col + j - N)] = !right     ? T(0)
                                                       : col == 0 ? h.beta
                                                                  : pivot - w;
      }
      const T top_v = has_top ? top[0] : T(0);
      T v[kRows];
#pragma unroll
      for (int i = 0; i < kRows; ++i) v[i] = rows[i][0];
#pragma unroll
      for (int k = 1; k < N; ++k) {
        const T fk = __shfl_sync(kAllLanes, f, k);
        top[k - 1] = top[k] - top_v * fk;
#pragma unroll
        for (int i = 0; i < kRows; ++i) rows[i][k - 1] = rows[i][k] - v[i] * fk;
      }
      top[N - 1] = 0;
#pragma unroll
      for (int i = 0; i < kRows; ++i) rows[i][N - 1] = 0;
    }
  }
};

}  // namespace factord::kernels::tsqr
