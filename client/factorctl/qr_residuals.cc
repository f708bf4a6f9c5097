#include "client/factorctl/qr_residuals.h"

#include <algorithm>
#include <cmath>
#include <complex>

#include "client/elements.h"

namespace factord::client {
namespace {

// One matrix, row-major.
template <typename T>
struct Dense {
  int64_t m = 0;
  int64_t n = 0;
  std::vector<T> values;

  T* row(int64_t i) { return values.data() + i * n; }
  const T* row(int64_t i) const { return values.data() + i * n; }
};

double FromComplex(std::complex<double> value, double*) { return value.real(); }
std::complex<double> FromComplex(std::complex<double> value, std::complex<double>*) {
  return value;
}
double Conj(double value) { return value; }
std::complex<double> Conj(std::complex<double> value) { return std::conj(value); }

template <typename T>
Dense<T> LoadMatrix(const TensorView& view, int64_t batch) {
  const BatchShape shape = ShapeOf(view.dims);
  Dense<T> matrix{shape.m, shape.n, std::vector<T>(shape.m * shape.n)};
  for (int64_t i = 0; i < shape.m; ++i) {
    for (int64_t j = 0; j < shape.n; ++j) {
      matrix.row(i)[j] = FromComplex(
          GetElement(view.dtype, ElementIndex(view.layout, shape, batch, i, j), view.data),
          static_cast<T*>(nullptr));
    }
  }
  return matrix;
}

// The largest column sum. NaN if there is any: max alone would lose it.
template <typename T>
double Norm1(const Dense<T>& matrix) {
  std::vector<double> sums(matrix.n, 0.0);
  for (int64_t i = 0; i < matrix.m; ++i) {
    for (int64_t j = 0; j < matrix.n; ++j) sums[j] += std::abs(matrix.row(i)[j]);
  }
  double norm = 0;
  for (double sum : sums) {
    if (std::isnan(sum)) return sum;
    norm = std::max(norm, sum);
  }
  return norm;
}

template <typename T>
QrResiduals ResidualsOfOne(Dense<T> a, const Dense<T>& q, const Dense<T>& r, double eps) {
  const double m_eps = static_cast<double>(std::max<int64_t>(a.m, 1)) * eps;
  const double a_norm = Norm1(a);
  for (int64_t i = 0; i < a.m; ++i) {
    for (int64_t p = 0; p < r.m; ++p) {  // a complete Q has columns that meet only R's zeros
      const T q_ip = q.row(i)[p];
      for (int64_t j = 0; j < a.n; ++j) a.row(i)[j] -= q_ip * r.row(p)[j];
    }
  }
  Dense<T> gram{q.n, q.n, std::vector<T>(q.n * q.n)};
  for (int64_t p = 0; p < q.n; ++p) gram.row(p)[p] = 1;
  for (int64_t i = 0; i < q.m; ++i) {
    for (int64_t p = 0; p < q.n; ++p) {
      const T q_ip = Conj(q.row(i)[p]);
      for (int64_t j = 0; j < q.n; ++j) gram.row(p)[j] -= q_ip * q.row(i)[j];
    }
  }
  const double difference = Norm1(a);
  // A zero matrix has no scale: what is left is then measured as it is.
  return {difference / ((a_norm > 0 ? a_norm : 1.0) * m_eps), Norm1(gram) / m_eps};
}

template <typename T>
std::vector<QrResiduals> ResidualsOfAll(const TensorView& a, const TensorView& q,
                                        const TensorView& r) {
  std::vector<QrResiduals> residuals;
  for (int64_t batch = 0; batch < ShapeOf(a.dims).batch_count; ++batch) {
    residuals.push_back(ResidualsOfOne(LoadMatrix<T>(a, batch), LoadMatrix<T>(q, batch),
                                       LoadMatrix<T>(r, batch), UnitRoundoff(a.dtype)));
  }
  return residuals;
}

}  // namespace

std::vector<QrResiduals> ComputeQrResiduals(const TensorView& a, const TensorView& q,
                                            const TensorView& r) {
  return IsComplex(a.dtype) ? ResidualsOfAll<std::complex<double>>(a, q, r)
                            : ResidualsOfAll<double>(a, q, r);
}

double QrResidualsFlops(const TensorView& a, const TensorView& q) {
  const BatchShape shape = ShapeOf(a.dims);
  const double m = static_cast<double>(shape.m);
  const double n = static_cast<double>(shape.n);
  const double q_columns = static_cast<double>(q.dims.back());
  const double real_flops = 2 * m * (std::min(m, n) * n + q_columns * q_columns);
  return static_cast<double>(shape.batch_count) * real_flops * (IsComplex(a.dtype) ? 4 : 1);
}

}  // namespace factord::client
