// R0 and its diagonal blocks' inverses from a sample of the rows.
#pragma once

#include "kernels/householder.h"
#include "kernels/simt/ptx.h"
#include "kernels/simt/sums.h"
#include "kernels/tsqr/cholesky.h"

namespace factord::kernels::tsqr {

// Spreads the bits of x.
__device__ __forceinline__ std::uint32_t Mixed(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ (x >> 16);
}

// The block's threads factor the sample by modified Gram-Schmidt, which is Householder on [0; X],
// columns scaled by powers of two and pivoted inside each block of 8.
template <class C>
class Preconditioner {
 public:
  static constexpr int N = C::N, kColumns = C::kColumns, kRows = C::kSampleRows;

  __device__ __forceinline__ explicit Preconditioner(typename C::Shared& shared)
      : shared_(shared),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32),
        col_(lane_ % N),
        row_group_(lane_ / N % C::kRowGroups) {}

  // Of this thread's sample row i; entry(row, column) is the sample's.
  template <class Entry>
  __device__ __forceinline__ void Run(Entry entry) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int row = (warp_ * C::kRowGroups + row_group_) * kRows + i;
#pragma unroll
      for (int c = 0; c < kColumns; ++c) x_[i][c] = entry(row, Column(c));
    }
    Scale();
    Norms(norm2_);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      reference_[c] = first_[c] = norm2_[c];
      position_[c] = -1;
    }
#pragma unroll 1
    for (int k = 0; k < N; ++k) Step(k);
    __syncthreads();
    Invert();
    __syncthreads();
  }

 private:
  static constexpr double kNoise = 64 * 0x1p-53;

  __device__ __forceinline__ int Column(int c) const { return col_ + 32 * c; }
  // Column p's value of v, to all lanes.
  __device__ __forceinline__ double Of(const double (&v)[kColumns], int p) const {
    const double mine = kColumns > 1 ? Select(p >= 32, v[kColumns - 1], v[0]) : v[0];
    return __shfl_sync(kAllLanes, mine, p % 32);
  }

  // v := its sum, or maximum, over all rows of the block's threads.
  template <class Combine>
  __device__ __forceinline__ void Reduce(double (&v)[kColumns], Combine combine) {
    double* const buffer = shared_.reduce + (phase_ ^= 1) * C::kWarps * N;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      if (C::kRowGroups > 1) v[c] = combine(v[c], __shfl_xor_sync(kAllLanes, v[c], 16));
      buffer[warp_ * N + Column(c)] = v[c];
    }
    __syncthreads();
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      double all[2] = {buffer[Column(c)], buffer[N + Column(c)]};
#pragma unroll
      for (int w = 2; w < C::kWarps; ++w)
        all[w % 2] = combine(all[w % 2], buffer[w * N + Column(c)]);
      v[c] = combine(all[0], all[1]);
    }
  }
  __device__ __forceinline__ void Sum(double (&v)[kColumns]) {
    Reduce(v, [](double a, double b) { return a + b; });
  }

  __device__ __forceinline__ void Norms(double (&v)[kColumns]) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      double s[2] = {0, 0};
#pragma unroll
      for (int i = 0; i < kRows; ++i) s[i % 2] += x_[i][c] * x_[i][c];
      v[c] = s[0] + s[1];
    }
    Sum(v);
  }

  __device__ __forceinline__ void Scale() {
    double largest[kColumns];
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      largest[c] = 0;
#pragma unroll
      for (int i = 0; i < kRows; ++i) largest[c] = fmax(largest[c], fabs(x_[i][c]));
    }
    Reduce(largest, [](double a, double b) { return fmax(a, b); });
    constexpr int kMost = 1000;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int field = largest[c] > 0 ? ExponentField(largest[c]) : kBias<double>;
      const int e = min(max(field - kBias<double>, -kMost), kMost);
      const double inverse = PowerOfTwo<double>(kBias<double> - e);
#pragma unroll
      for (int i = 0; i < kRows; ++i) x_[i][c] *= inverse;
      if (warp_ == 0) shared_.scale[Column(c)] = PowerOfTwo<double>(kBias<double> + e);
    }
  }

  // The largest remaining column of the block of 8 that k is in, the first one on a tie.
  __device__ __forceinline__ int Pivot(int k) const {
    unsigned key = 0;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int j = Column(c);
      const unsigned bits = __float_as_uint(static_cast<float>(fmax(norm2_[c], 0.0)));
      const unsigned own = ((bits & ~7u) | static_cast<unsigned>(7 - j % 8)) + 8;
      if (j / 8 == k / 8 && position_[c] < 0) key = own;
    }
    key = __reduce_max_sync(kAllLanes, key);
    return (k & ~7) + 7 - static_cast<int>(key & 7);
  }

  __device__ __forceinline__ void Step(int k) {
    int p = Pivot(k);
    if (!(Of(norm2_, p) >= 1e-8 * Of(reference_, p))) {  // downdated too far; all see the same
      Norms(norm2_);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) reference_[c] = norm2_[c];
      p = Pivot(k);
    }
    double v[kRows], product[kColumns];
    const int from = C::kRowGroups > 1 ? (lane_ & 16) | p : p % 32;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const double mine = kColumns > 1 ? Select(p >= 32, x_[i][kColumns - 1], x_[i][0]) : x_[i][0];
      v[i] = __shfl_sync(kAllLanes, mine, from);
    }
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      double s[2] = {0, 0};
#pragma unroll
      for (int i = 0; i < kRows; ++i) s[i % 2] += v[i] * x_[i][c];
      product[c] = s[0] + s[1];
    }
    Sum(product);
    const double sigma = Of(product, p), first = Of(first_, p);
    const bool real = sigma > kNoise * kNoise * first;
    const double inverse_root = real ? InverseSqrt(sigma) : 0.0;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      double r = position_[c] < 0 ? product[c] * inverse_root : 0.0;
      const double w = r * inverse_root;
#pragma unroll
      for (int i = 0; i < kRows; ++i) x_[i][c] -= v[i] * w;
      norm2_[c] -= r * r;
      if (Column(c) == p) {
        position_[c] = k;
        if (!real) r = first > 0 ? kNoise * sqrt(first) : 1.0;
      }
      if (warp_ == 0 && row_group_ == 0) shared_.r0[k * N + Column(c)] = r;
    }
    if (threadIdx.x == 0) shared_.order[k] = p;
  }

  // Column q % 8 of the inverse of diagonal block q / 8.
  __device__ __forceinline__ void Invert() {
    for (int q = static_cast<int>(threadIdx.x); q < N; q += C::kThreads) {
      const int b = q & ~7, k = q % 8;
      double z[8];
#pragma unroll
      for (int i = 7; i >= 0; --i) {
        const double* const row = shared_.r0 + (b + i) * N;
        double s = i == k ? 1.0 : 0.0;
#pragma unroll
        for (int l = i + 1; l < 8; ++l) s -= row[shared_.order[b + l]] * z[l];
        z[i] = i <= k ? s / row[shared_.order[b + i]] : 0.0;
        shared_.inverse[shared_.order[b + i] * 8 + k] = z[i];
      }
    }
  }

  typename C::Shared& shared_;
  const int lane_, warp_, col_, row_group_;
  double x_[kRows][kColumns];
  double norm2_[kColumns], reference_[kColumns], first_[kColumns];
  int position_[kColumns];
  int phase_ = 0;
};

}  // namespace factord::kernels::tsqr
