// Strided: one matrix of a request, in the client's order, and the copies between it and a
// MatrixView.
#pragma once

#include <algorithm>
#include <complex>
#include <cstdint>

#include "server/core/types.h"
#include "server/engine/lapack.h"
#include "server/engine/matrix_view.h"

namespace factord {

// One of the strides is 1, the other that dimension's extent; both count elements.
template <class T>
struct Strided {
  T* data = nullptr;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t row_stride = 1;
  std::int64_t col_stride = 1;

  static Strided Of(T* data, std::int64_t m, std::int64_t n, Layout layout) {
    return layout == Layout::kRowMajor ? Strided{data, m, n, n, 1} : Strided{data, m, n, 1, m};
  }
  Strided transposed() const { return {data, n, m, col_stride, row_stride}; }
  Strided columns(std::int64_t j, std::int64_t cols) const {
    return {data + j * col_stride, m, cols, row_stride, col_stride};
  }
  // Whether a column's entries are neighbours.
  bool by_columns() const { return row_stride == 1; }
  T& operator()(std::int64_t i, std::int64_t j) const {
    return data[i * row_stride + j * col_stride];
  }
};

template <class T>
T Conj(T x) {
  if constexpr (kIsComplex<T>) {
    return std::conj(x);
  } else {
    return x;
  }
}

// Rows and columns of the square tiles in which a matrix is transposed: 16 lines of either side
// stay in the L1 cache.
inline constexpr std::int64_t kTransposeTile = 16;

// visit(i, j) for each entry of an m x n matrix, in an order that suits both a column-major matrix
// and (by_columns or not) a strided one.
template <class Visit>
void ForEntries(std::int64_t m, std::int64_t n, bool by_columns, Visit&& visit) {
  if (by_columns) {
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i < m; ++i) visit(i, j);
    }
    return;
  }
  for (std::int64_t i0 = 0; i0 < m; i0 += kTransposeTile) {
    const std::int64_t i1 = std::min(m, i0 + kTransposeTile);
    for (std::int64_t j0 = 0; j0 < n; j0 += kTransposeTile) {
      const std::int64_t j1 = std::min(n, j0 + kTransposeTile);
      for (std::int64_t i = i0; i < i1; ++i) {
        for (std::int64_t j = j0; j < j1; ++j) visit(i, j);
      }
    }
  }
}

}  // namespace factord
