// Work: the batch in the form in which all kernels but the tiny ones see it. Row-major, every
// matrix padded with zeros to one size: a zero row or column is an exact no-op of every step (tau =
// 0), so no kernel needs to know a matrix's own shape.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/simt/qualifiers.h"

namespace factord::kernels {

// Columns come in multiples of this: so do leading dimensions, and rows are 16-byte aligned.
inline constexpr int kColumnUnit = 8;

FACTORD_HOST_DEVICE constexpr int RoundUp(int x, int unit) { return (x + unit - 1) / unit * unit; }

// Matrix i at data + i * stride; entry (r, c) of it at r * ld + c. Device memory, 256-byte aligned,
// ld and stride multiples of kColumnUnit.
template <class T>
struct Work {
  T* data = nullptr;
  std::int64_t stride = 0;
  int rows = 0;
  int cols = 0;  // a multiple of kColumnUnit
  int ld = 0;
  std::int64_t count = 0;

  FACTORD_HOST_DEVICE T* matrix(std::int64_t i) const { return data + i * stride; }
  template <class U>
  requires(std::is_same_v<U, const T> && !std::is_const_v<T>) FACTORD_HOST_DEVICE operator Work<U>()
      const {
    return {data, stride, rows, cols, ld, count};
  }
};

// Vectors: of matrix i at data + i * stride.
template <class T>
struct WorkVectors {
  T* data = nullptr;
  std::int64_t stride = 0;
  FACTORD_HOST_DEVICE T* vector(std::int64_t i) const { return data + i * stride; }
  template <class U>
  requires(std::is_same_v<U, const T> && !std::is_const_v<T>) FACTORD_HOST_DEVICE
  operator WorkVectors<U>() const {
    return {data, stride};
  }
};

}  // namespace factord::kernels
