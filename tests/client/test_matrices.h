#ifndef FACTORD_TESTS_CLIENT_TEST_MATRICES_H_
#define FACTORD_TESTS_CLIENT_TEST_MATRICES_H_

#include <complex>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "client/elements.h"
#include "client/tensor.h"

namespace factord::client {

// `values` in the order in which they lie in memory.
inline Matrices MakeMatrices(v1::DType dtype, std::vector<int64_t> dims,
                             const std::vector<std::complex<double>>& values,
                             v1::Layout layout = v1::LAYOUT_ROW_MAJOR) {
  Matrices matrices{dtype, std::move(dims), layout, ""};
  matrices.data.resize(values.size() * DTypeBytes(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    SetElement(dtype, static_cast<int64_t>(i), values[i], &matrices.data);
  }
  return matrices;
}

inline Matrices RandomMatrices(v1::DType dtype, std::vector<int64_t> dims, uint64_t seed,
                               v1::Layout layout = v1::LAYOUT_ROW_MAJOR) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  std::vector<std::complex<double>> values(*TensorBytes(dtype, dims) / DTypeBytes(dtype));
  for (std::complex<double>& value : values) value = {normal(generator), normal(generator)};
  return MakeMatrices(dtype, std::move(dims), values, layout);
}

inline std::vector<std::complex<double>> ValuesOf(const Matrices& matrices) {
  std::vector<std::complex<double>> values(matrices.data.size() / DTypeBytes(matrices.dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = GetElement(matrices.dtype, static_cast<int64_t>(i), matrices.data);
  }
  return values;
}

}  // namespace factord::client

#endif  // FACTORD_TESTS_CLIENT_TEST_MATRICES_H_
