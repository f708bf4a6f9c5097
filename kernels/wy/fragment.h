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

// A lane's four entries of a sum of 16 x 8, laid out as Mma16x8x8's D. kSumLength products go
// in, or twice as many where that is all; Finish adds them to the longer sum whose value so far was
// given.
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

// A warp's 32 x 16 of a larger product: two by two fragments.
inline constexpr int kWarpRows = 32;
inline constexpr int kWarpCols = 16;

// Which of the 32 rows and 16 columns are row or column g of the fragments is free. Floats that one
// lane needs stand side by side in memory; doubles take one access each in any case, and meet fewer
// bank conflicts like this.
template <class T>
struct WarpLayout;

template <>
struct WarpLayout<float> {
  // Of fragment x / 2, its row g + x % 2 * 8.
  static __device__ __forceinline__ int Row(int g, int x) { return 4 * g + x; }
  // Of fragment x, its column g.
  static __device__ __forceinline__ int Col(int g, int x) { return 2 * g + x; }
  // What lane group g needs of a row of memory that holds 32 rows, or 16 columns.
  static __device__ __forceinline__ void LoadRows(float (&to)[4], const float* from, int g) {
    const float4 x = *reinterpret_cast<const float4*>(from + 4 * g);
    to[0] = x.x;
    to[1] = x.y;
    to[2] = x.z;
    to[3] = x.w;
  }
  static __device__ __forceinline__ void LoadCols(float (&to)[2], const float* from, int g) {
    const float2 x = *reinterpret_cast<const float2*>(from + 2 * g);
    to[0] = x.x;
    to[1] = x.y;
  }
};

template <>
struct WarpLayout<double> {
  static __device__ __forceinline__ int Row(int g, int x) { return g + 8 * x; }
  static __device__ __forceinline__ int Col(int g, int x) { return g + 8 * x; }
  static __device__ __forceinline__ void LoadRows(double (&to)[4], const double* from, int g) {
#pragma unroll
    for (int x = 0; x < 4; ++x) to[x] = from[Row(g, x)];
  }
  static __device__ __forceinline__ void LoadCols(double (&to)[2], const double* from, int g) {
#pragma unroll
    for (int x = 0; x < 2; ++x) to[x] = from[Col(g, x)];
  }
};

// The operand A of a warp's product, stored by columns: A(i, k) at data[k * kLd + i].
template <int kLd, class T>
struct ByColumns {
  const T* data;

  // A lane's rows of column k.
  __device__ __forceinline__ void Load(T (&to)[4], int k, int g) const {
    WarpLayout<T>::LoadRows(to, data + k * kLd, g);
  }
};
// The same given entry by entry.
template <class Entry>
struct ByEntries {
  Entry entry;  // (i, k)

  template <class T>
  __device__ __forceinline__ void Load(T (&to)[4], int k, int g) const {
#pragma unroll
    for (int x = 0; x < 4; ++x) to[x] = entry(WarpLayout<T>::Row(g, x), k);
  }
};
template <class Entry>
ByEntries(Entry) -> ByEntries<Entry>;

template <class T>
struct WarpSum {
  T value[2][2][4] = {};  // of fragments, each Mma16x8x8's D

  // visit(row, col, value) for each of the lane's entries.
  template <class Visit>
  __device__ __forceinline__ void ForEach(LanePlace lane, Visit visit) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          visit(WarpLayout<T>::Row(lane.g, 2 * i + e / 2),
                WarpLayout<T>::Col(2 * lane.t + e % 2, j), value[i][j][e]);
        }
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

  // += A B with kTerms terms, a multiple of kSumLength. B is stored by rows.
  template <int kTerms, int kLdB, class A>
  __device__ __forceinline__ void AddProduct(const A& a, const T* b, LanePlace lane) {
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
        for (int half = 0; half < 2; ++half) {
          const int term = k + 4 * half + lane.t;
          T rows[4], cols[2];
          a.Load(rows, term, lane.g);
          WarpLayout<T>::LoadCols(cols, b + term * kLdB, lane.g);
#pragma unroll
          for (int x = 0; x < 2; ++x) {
            a_part[x].Set(2 * half, rows[2 * x]);
            a_part[x].Set(2 * half + 1, rows[2 * x + 1]);
            b_part[x].Set(half, cols[x]);
          }
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
};

// ---- a narrow product whose A is stored by rows: its 16 x 8 fragments, and the 8 x 8 of B that
// they meet. Which of eight terms a lane holds is free as long as both agree: floats take
// neighbours, two in one access.

// A(i, k) at from[i * kLd + k].
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
__device__ __forceinline__ void LoadRowsOfA(Fragment<double, 4>& a, LanePlace lane,
                                            const double* from) {
  a.Set(0, from[lane.g * kLd + lane.t]);
  a.Set(1, from[(lane.g + 8) * kLd + lane.t]);
  a.Set(2, from[lane.g * kLd + lane.t + 4]);
  a.Set(3, from[(lane.g + 8) * kLd + lane.t + 4]);
}

// B(k, j) at from[k * kLd + j].
template <int kLd>
__device__ __forceinline__ void LoadBForRows(Fragment<float, 2>& b, LanePlace lane,
                                             const float* from) {
  b.Set(0, from[2 * lane.t * kLd + lane.g]);
  b.Set(1, from[(2 * lane.t + 1) * kLd + lane.g]);
}
template <int kLd>
__device__ __forceinline__ void LoadBForRows(Fragment<double, 2>& b, LanePlace lane,
                                             const double* from) {
  b.Set(0, from[lane.t * kLd + lane.g]);
  b.Set(1, from[(lane.t + 4) * kLd + lane.g]);
}

}  // namespace factord::kernels
