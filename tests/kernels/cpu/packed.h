// Packed reflectors as inputs of kFormQ and kApplyQ.
#pragma once

#include <algorithm>
#include <vector>

#include "tests/kernels/cpu/qr_harness.h"

namespace factord::kernels::testing {

// What kFactorize makes of matrices.
template <class T>
std::vector<Item<T>> Packed(const Shape& shape, const std::vector<Item<T>>& matrices) {
  const Problem problem{.reflectors = true, .column_major = true};
  std::vector<Item<T>> items;
  for (Result<T>& result : RunBatch(problem, shape, matrices, AllAtOnce<T>()))
    items.push_back({.a = std::move(result.reflectors), .tau = std::move(result.tau)});
  return items;
}

// On and above the diagonal, and in all of the columns from k on, lies R, which says nothing of Q.
template <class T>
void SetR(const Shape& shape, T value, std::vector<T>& packed) {
  for (int j = 0; j < shape.n; ++j) {
    const int rows = j < shape.k() ? j + 1 : shape.m;
    std::fill_n(packed.begin() + static_cast<std::ptrdiff_t>(j) * shape.m, rows, value);
  }
}

}  // namespace factord::kernels::testing
