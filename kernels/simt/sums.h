// Sums over the 32 lanes of a warp.
//
// Every sum here is formed by the same tree: lanes 16 apart, then 8, 4, 2, 1. So its bits do not
// depend on how many sums are taken at once.
#pragma once

#include <cuda_runtime.h>

namespace factord::kernels {

inline constexpr unsigned kAllLanes = 0xffffffffu;

// Recursive halving: each lane gives N values and gets the sum of one of them, number lane / (32 /
// N). Each round exchanges half of what is left, so N values take N - 1 + log2(32 / N) shuffles: 9
// for N = 8, where a butterfly for each takes 40.
template <int N, class T>
__device__ __forceinline__ T SumScatter(T (&a)[N], int lane) {
  static_assert(N >= 1 && N <= 32 && (N & (N - 1)) == 0);
#pragma unroll
  for (int half = N / 2, bit = 16; half >= 1; half /= 2, bit /= 2) {
    const bool upper = (lane & bit) != 0;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const T keep = upper ? a[i + half] : a[i];
      const T send = upper ? a[i] : a[i + half];
      a[i] = keep + __shfl_xor_sync(kAllLanes, send, bit);
    }
  }
#pragma unroll
  for (int bit = 16 / N; bit >= 1; bit /= 2) a[0] += __shfl_xor_sync(kAllLanes, a[0], bit);
  return a[0];
}

// Every lane gets all N sums. N is any number up to 32.
template <int N, class T>
__device__ __forceinline__ void AllSum(T (&d)[N], int lane) {
  constexpr int kPadded = N > 16 ? 32 : N > 8 ? 16 : N > 4 ? 8 : N > 2 ? 4 : N;
  T a[kPadded];
#pragma unroll
  for (int j = 0; j < kPadded; ++j) a[j] = j < N ? d[j] : T(0);
  const T sum = SumScatter(a, lane);
#pragma unroll
  for (int j = 0; j < N; ++j) d[j] = __shfl_sync(kAllLanes, sum, j * (32 / kPadded));
}

}  // namespace factord::kernels
