// A leaf: kVec columns of a panel in the registers of one warp. Knows nothing of other warps.
//
// Lane t keeps rows t, t + 32, t + 64, ...: row 32 i + t is x[i][.], kItems of them. Rows past the
// matrix's last are zero. All sums run over i in ascending order and then over the lanes by one
// tree, and every product that is added to something is an explicit fma: bits depend on kVec and on
// the entries, but not on kItems.
//
// I0 is the row block of the diagonal: rows 32 I0 ... 32 I0 + 31 hold it, and what is above them is
// finished. It is a template argument because the rows above then cost nothing at all.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <utility>

#include "kernels/householder.h"
#include "kernels/simt/sums.h"

namespace factord::kernels {

// 16 bytes, moved at once.
template <class T>
struct alignas(16) Chunk {
  static constexpr int kSize = 16 / sizeof(T);
  T entry[kSize];
};

template <class T, int kItems, int kVec>
struct Leaf {
  using Tile = T[kItems][kVec];
  static constexpr int kLd = 32 * kItems;  // from one published reflector to the next

  // Unrolled over the columns, Factor spends nothing on finished ones; it is worth its code only in
  // short columns.
  static constexpr bool kFlat = kItems <= 6;

  // kVec entries of `rows` rows, `ld` apart.
  static __device__ __forceinline__ void Load(Tile& x, const T* a, int ld, int rows, int lane) {
    constexpr int kChunk = Chunk<T>::kSize;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int row = 32 * i + lane;
#pragma unroll
      for (int j = 0; j < kVec; j += kChunk) {
        Chunk<T> chunk = {};
        if (row < rows) chunk = *reinterpret_cast<const Chunk<T>*>(a + row * ld + j);
#pragma unroll
        for (int c = 0; c < kChunk; ++c) x[i][j + c] = chunk.entry[c];
      }
    }
  }

  // Zeros lose their sign: whether a finished zero keeps it depends on how the loops were unrolled.
  static __device__ __forceinline__ void Store(const Tile& x, T* a, int ld, int rows, int lane) {
    constexpr int kChunk = Chunk<T>::kSize;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int row = 32 * i + lane;
#pragma unroll
      for (int j = 0; j < kVec; j += kChunk) {
        Chunk<T> chunk;
#pragma unroll
        for (int c = 0; c < kChunk; ++c) chunk.entry[c] = x[i][j + c] + T(0);
        if (row < rows)
          *reinterpret_cast<Chunk<T>*>(a + static_cast<std::int64_t>(row) * ld + j) = chunk;
      }
    }
  }

  // x := (I - tau v v^T) x. v is kLd long, zero above its diagonal, which lies in row block I0;
  // blocks above are not read.
  template <int I0>
  static __device__ __forceinline__ void Apply(Tile& x, const T* v, T tau, int lane) {
    T vi[kItems], d[kVec] = {};
#pragma unroll
    for (int i = I0; i < kItems; ++i) {
      vi[i] = v[32 * i + lane];
#pragma unroll
      for (int j = 0; j < kVec; ++j) d[j] = std::fma(vi[i], x[i][j], d[j]);
    }
    AllSum(d, lane);
#pragma unroll
    for (int j = 0; j < kVec; ++j) d[j] *= -tau;
#pragma unroll
    for (int i = I0; i < kItems; ++i) {
#pragma unroll
      for (int j = 0; j < kVec; ++j) x[i][j] = std::fma(vi[i], d[j], x[i][j]);
    }
  }

  // Factors the leaf: R and V in place. The diagonal of its first column lies in row `col`, in
  // block I0. publish(k, tau, v) is called by all lanes for each reflector: v[i], i >= I0, zero
  // above the diagonal and one on it.
  template <int I0, class Publish>
  static __device__ __forceinline__ void Factor(Tile& x, int col, int lane, Publish publish) {
    if constexpr (kFlat) {
      [&]<int... K>(std::integer_sequence<int, K...>) {
        (FactorColumn<I0, kVec - K>(x, K, col + K, lane, publish), ...);
      }
      (std::make_integer_sequence<int, kVec>{});
    } else {
#pragma unroll 1
      for (int k = 0; k < kVec; ++k) FactorColumn<I0, kVec>(x, k, col + k, lane, publish);
    }
  }

 private:
  // Column k, which is x[.][0], and its effect on the others; then the columns rotate by one place,
  // so that the next is x[.][0] and the finished ones are last. The first kOpen take part, finished
  // ones among them with nothing added. The tail t = a_k(k + 1 : m) gives the norm and the products
  // with all other columns in one pass and one reduction: v_k^T a_j = a_j[k] + scale * (t^T a_j).
  template <int I0, int kOpen, class Publish>
  static __device__ __forceinline__ void FactorColumn(Tile& x, int k, int col, int lane,
                                                      Publish& publish) {
    const int row = 32 * I0 + lane;
    const bool below = row > col;
    T d[kOpen], pivot[kOpen];
    const T tail = below ? x[I0][0] : T(0);
#pragma unroll
    for (int j = 0; j < kOpen; ++j) {
      d[j] = std::fma(tail, x[I0][j], T(0));
#pragma unroll
      for (int i = I0 + 1; i < kItems; ++i) d[j] = std::fma(x[i][0], x[i][j], d[j]);
    }
    AllSum(d, lane);
#pragma unroll
    for (int j = 0; j < kOpen; ++j) pivot[j] = __shfl_sync(kAllLanes, x[I0][j], col % 32);

    const Reflector<T> h = Larfg(pivot[0], d[0]);
    const T above = row == col ? h.beta : x[I0][0];
    T v[kItems];
    v[I0] = below ? x[I0][0] * h.scale : row == col ? T(1) : T(0);
#pragma unroll
    for (int i = I0 + 1; i < kItems; ++i) v[i] = x[i][0] * h.scale;
    publish(k, h.tau, v);

#pragma unroll
    for (int j = 1; j < kOpen; ++j) {
      const T y = j < kVec - k ? -h.tau * std::fma(h.scale, d[j], pivot[j]) : T(0);
#pragma unroll
      for (int i = I0; i < kItems; ++i) x[i][j - 1] = std::fma(v[i], y, x[i][j]);
    }
#pragma unroll
    for (int i = I0; i < kItems; ++i) {
#pragma unroll
      for (int j = kOpen; j < kVec; ++j) x[i][j - 1] = x[i][j];
      x[i][kVec - 1] = i > I0 || below ? v[i] : above;
    }
  }
};

}  // namespace factord::kernels
