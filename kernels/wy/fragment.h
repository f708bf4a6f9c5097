// Matrix products by the tensor cores at the accuracy of T.
//
// A double goes in as it is. A float is split, x = hi + lo, both TF32 numbers of 11 bits, and a
// product is lo * hi + hi * lo + hi * hi: about 2^-22 of it is lost. The tensor core truncates
// whenever it adds to a float, always toward zero, so long sums would become too small. So the
// small products have sums of their own, and kSumLength products are all that is added up before
// the sum moves into a register of its own by an ordinary, rounded addition.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/simt/ptx.h"

namespace factord::kernels {

inline constexpr int kSumLength = 32;

// A lane's N entries of an operand.
template <class T, int N>
struct Fragment;

template <int N>
struct Fragment<float, N> {
  std::uint32_t hi[N], lo[N];

  // hi to nearest, so that lo is as often positive as negative; of a NaN lo is NaN. Two integer
  // instructions: RoundToTf32, which is careful with NaN and Inf, takes twice as many.
  __device__ __forceinline__ void Set(int i, float x) {
    hi[i] = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
    lo[i] = TruncateToTf32(x - __uint_as_float(hi[i]));
  }
};

template <int N>
struct Fragment<double, N> {
  double x[N];

  __device__ __forceinline__ void Set(int i, double value) { x[i] = value; }
};

// A lane's four entries of a sum of 16 x 8, laid out as Mma16x8x8's D. At most kSumLength products
// go in; Finish adds them to the longer sum whose value so far was given.
template <class T>
struct Accumulator;

template <>
struct Accumulator<float> {
  float small[4] = {}, large[4] = {};

  __device__ __forceinline__ explicit Accumulator(const float (&)[4]) {}
  __device__ __forceinline__ void Add(const Fragment<float, 4>& a, const Fragment<float, 2>& b) {
    Mma16x8x8(small, a.lo, b.hi);
    Mma16x8x8(large, a.hi, b.hi);
    Mma16x8x8(small, a.hi, b.lo);
  }
  __device__ __forceinline__ void Finish(float (&value)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) value[i] += large[i] + small[i];
  }
};

template <>
struct Accumulator<double> {
  double sum[4];

  __device__ __forceinline__ explicit Accumulator(const double (&value)[4])
      : sum{value[0], value[1], value[2], value[3]} {}
  __device__ __forceinline__ void Add(const Fragment<double, 4>& a, const Fragment<double, 2>& b) {
    Mma16x8x8(sum, a.x, b.x);
  }
  __device__ __forceinline__ void Finish(double (&value)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) value[i] = sum[i];
  }
};

// Where a lane stands in a fragment.
struct LanePlace {
  int g, t;

  __device__ __forceinline__ explicit LanePlace(int lane) : g(lane / 4), t(lane % 4) {}
};

// A is 16 x 8, entry(i, k) its entries.
template <class T, class Entry>
__device__ __forceinline__ void LoadA(Fragment<T, 4>& a, LanePlace lane, Entry entry) {
  a.Set(0, entry(lane.g, lane.t));
  a.Set(1, entry(lane.g + 8, lane.t));
  a.Set(2, entry(lane.g, lane.t + 4));
  a.Set(3, entry(lane.g + 8, lane.t + 4));
}

// B is 8 x 8: B(k, j) at b[k * kLd + j].
template <int kLd, class T>
__device__ __forceinline__ void LoadB(Fragment<T, 2>& b, LanePlace lane, const T* from) {
  b.Set(0, from[lane.t * kLd + lane.g]);
  b.Set(1, from[(lane.t + 4) * kLd + lane.g]);
}

// The same for A stored by rows, A(i, k) at a[i * kLd + k], and the B it meets. Which of the eight
// k a lane holds is free as long as both agree: floats take neighbours, two in one access.
template <int kLd>
__device__ __forceinline__ void LoadRowsOfA(Fragment<float, 4>& a, LanePlace lane,
                                            const float* from) {
  const float2 upper = *reinterpret_cast<const float2*>(from + lane.g * kLd + 2 * lane.t);
  const float2 lower = *reinterpret_cast<const float2*>(from + (lane.g + 8) * kLd + 2 * lane.t);
  a.Set(0, upper.x);
  a.Set(1, lower.x);
  a.Set(2, upper.y);
  a.Set(3, lower.y);
}
template <int kLd>
__device__ __forceinline__ void LoadBForRows(Fragment<float, 2>& b, LanePlace lane,
                                             const float* from) {
  b.Set(0, from[2 * lane.t * kLd + lane.g]);
  b.Set(1, from[(2 * lane.t + 1) * kLd + lane.g]);
}
template <int kLd>
__device__ __forceinline__ void LoadRowsOfA(Fragment<double, 4>& a, LanePlace lane,
                                            const double* from) {
  LoadA(a, lane, [&](int i, int k) { return from[i * kLd + k]; });
}
template <int kLd>
__device__ __forceinline__ void LoadBForRows(Fragment<double, 2>& b, LanePlace lane,
                                             const double* from) {
  LoadB<kLd>(b, lane, from);
}

// A warp's 32 x 16 of a larger product.
inline constexpr int kWarpRows = 32;
inline constexpr int kWarpCols = 16;

template <class T>
struct WarpSum {
  T value[2][2][4] = {};  // 16 rows, 8 columns, Mma16x8x8's D

  // += A B with kTerms terms, a multiple of kSumLength. entry(i, k) are A's; B is stored by rows.
  template <int kTerms, int kLdB, class Entry>
  __device__ __forceinline__ void AddProduct(Entry entry, const T* b, LanePlace lane) {
    static_assert(kTerms % kSumLength == 0);
#pragma unroll 1
    for (int start = 0; start < kTerms; start += kSumLength) {
      Accumulator<T> sum[2][2] = {{Accumulator<T>(value[0][0]), Accumulator<T>(value[0][1])},
                                  {Accumulator<T>(value[1][0]), Accumulator<T>(value[1][1])}};
#pragma unroll
      for (int k = start; k < start + kSumLength; k += 8) {
        Fragment<T, 4> a_part[2];
        Fragment<T, 2> b_part[2];
#pragma unroll
        for (int x = 0; x < 2; ++x) {
          LoadA(a_part[x], lane, [&](int i, int t) { return entry(16 * x + i, k + t); });
          LoadB<kLdB>(b_part[x], lane, b + k * kLdB + 8 * x);
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int j = 0; j < 2; ++j) sum[i][j].Add(a_part[i], b_part[j]);
        }
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 2; ++j) sum[i][j].Finish(value[i][j]);
      }
    }
  }

  __device__ __forceinline__ void Add(const WarpSum& other) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) value[i][j][e] += other.value[i][j][e];
      }
    }
  }

  // Entry (r, c) of the 32 x 16 to to[r * kLd + c].
  template <int kLd>
  __device__ __forceinline__ void Store(T* to, LanePlace lane) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          to[(16 * i + e / 2 * 8 + lane.g) * kLd + 8 * j + 2 * lane.t + e % 2] = value[i][j][e];
        }
      }
    }
  }
};

}  // namespace factord::kernels
