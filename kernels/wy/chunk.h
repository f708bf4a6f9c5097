// Pieces of matrices on their way through shared memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/simt/ptx.h"
#include "kernels/work.h"

namespace factord::kernels {

// V and C are walked in chunks of as many rows, beginning at row j: 16 KiB for 64 columns. A row in
// shared memory is longer than its columns, so that the lanes of a fragment's load (fragment.h) are
// at different banks.
template <class T>
struct Chunk;
template <>
struct Chunk<float> {
  static constexpr int kRows = 64;
  static constexpr int kPadding = 8;
};
template <>
struct Chunk<double> {
  static constexpr int kRows = 32;
  static constexpr int kPadding = 4;
};

// kRows x kCols, copied by all kThreads of a block. Each thread sees what it copied itself once its
// own copies are done, the others after a barrier.
template <class T, int kRows, int kCols, int kThreads>
struct SharedTile {
  static constexpr int kLd = kCols + Chunk<T>::kPadding;
  T data[kRows * kLd];

  // Columns from `cols` and rows from `rows` become zero and are not read.
  __device__ __forceinline__ void CopyAsync(const T* from, std::int64_t ld, int rows, int cols) {
    ForEachPiece([&](int r, int c) {
      CopyAsync16(data + r * kLd + c, from + r * ld + c, r < rows && c < cols);
    });
  }

  // The chunk's first row is row `row` of V, which has nb columns: what stands above its diagonal
  // there is R, and on it. Each thread corrects what it copied itself.
  __device__ __forceinline__ void MakeUnitLower(int row, int nb) {
    if (row >= nb) return;
    ForEachPiece([&](int r, int c) {
#pragma unroll
      for (int i = 0; i < kPiece; ++i) {
        if (row + r <= c + i && c < nb) data[r * kLd + c + i] = row + r == c + i ? T(1) : T(0);
      }
    });
  }

 private:
  static constexpr int kPiece = 16 / sizeof(T);
  static constexpr int kPiecesOfRow = kCols / kPiece;
  static constexpr int kRowsAtOnce = kThreads / kPiecesOfRow;

  template <class Visit>
  __device__ __forceinline__ void ForEachPiece(Visit visit) {
    static_assert(kThreads % kPiecesOfRow == 0 && kRows % kRowsAtOnce == 0);
    const int row = static_cast<int>(threadIdx.x) / kPiecesOfRow;
    const int col = static_cast<int>(threadIdx.x) % kPiecesOfRow * kPiece;
#pragma unroll
    for (int r = 0; r < kRows; r += kRowsAtOnce) visit(row + r, col);
  }
};

}  // namespace factord::kernels
