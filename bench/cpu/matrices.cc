#include "bench/cpu/matrices.h"

#include <cmath>
#include <random>

#include "kernels/problem.h"

namespace factord::bench::cpu {
namespace {

template <class R>
void Draw(std::mt19937& random, R& x) {
  x = std::normal_distribution<R>()(random);
}
template <class R>
void Draw(std::mt19937& random, std::complex<R>& x) {
  std::normal_distribution<R> normal;
  const R real = normal(random);
  x = {real, normal(random)};
}

}  // namespace

template <class T>
Matrices<T> RandomMatrices(std::int64_t count, int rows, int cols) {
  Matrices<T> matrices(count, rows, cols);
  std::mt19937 random(20261130);
  for (std::size_t i = 0; i < matrices.values.size(); ++i) Draw(random, matrices.values.data()[i]);
  return matrices;
}

template <class T>
Matrices<T> Transposed(const Matrices<T>& matrices) {
  Matrices<T> result(matrices.count, matrices.rows, matrices.cols, !matrices.column_major);
  const auto from = kernels::StridesOf(matrices.rows, matrices.cols, matrices.column_major);
  const auto to = kernels::StridesOf(result.rows, result.cols, result.column_major);
  for (std::int64_t i = 0; i < matrices.count; ++i) {
    for (int row = 0; row < matrices.rows; ++row) {
      for (int col = 0; col < matrices.cols; ++col)
        result[i][row * to.row + col * to.col] = matrices[i][row * from.row + col * from.col];
    }
  }
  return result;
}

template <class T>
double Difference(const Matrices<T>& x, const Matrices<T>& y) {
  const auto in_x = kernels::StridesOf(x.rows, x.cols, x.column_major);
  const auto in_y = kernels::StridesOf(y.rows, y.cols, y.column_major);
  double difference = 0, norm = 0;
  for (std::int64_t i = 0; i < x.count; ++i) {
    for (int row = 0; row < x.rows; ++row) {
      for (int col = 0; col < x.cols; ++col) {
        const T y_entry = y[i][row * in_y.row + col * in_y.col];
        difference += std::norm(x[i][row * in_x.row + col * in_x.col] - y_entry);
        norm += std::norm(y_entry);
      }
    }
  }
  return std::sqrt(difference / norm);
}

#define FACTORD_INSTANTIATE(T)                                 \
  template Matrices<T> RandomMatrices(std::int64_t, int, int); \
  template Matrices<T> Transposed(const Matrices<T>&);         \
  template double Difference(const Matrices<T>&, const Matrices<T>&);
FACTORD_INSTANTIATE(float)
FACTORD_INSTANTIATE(double)
FACTORD_INSTANTIATE(std::complex<float>)
FACTORD_INSTANTIATE(std::complex<double>)
#undef FACTORD_INSTANTIATE

}  // namespace factord::bench::cpu
