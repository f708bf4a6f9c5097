// MatrixView: a column-major matrix in somebody else's memory, as BLAS sees it.
#pragma once

#include <cstdint>

namespace factord {

template <class T>
struct MatrixView {
  T* data = nullptr;
  std::int64_t m = 0;   // rows
  std::int64_t n = 0;   // columns
  std::int64_t ld = 1;  // elements from one column to the next, >= max(1, m)

  T& operator()(std::int64_t i, std::int64_t j) const { return data[i + j * ld]; }
  T* col(std::int64_t j) const { return data + j * ld; }
  // Rows i to i + rows - 1 of columns j to j + cols - 1.
  MatrixView block(std::int64_t i, std::int64_t j, std::int64_t rows, std::int64_t cols) const {
    return {data + i + j * ld, rows, cols, ld};
  }
  // From (i, j) to the lower right corner.
  MatrixView from(std::int64_t i, std::int64_t j) const { return block(i, j, m - i, n - j); }
  MatrixView columns(std::int64_t j, std::int64_t cols) const { return block(0, j, m, cols); }
};

}  // namespace factord
