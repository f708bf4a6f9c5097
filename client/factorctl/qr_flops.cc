#include "client/factorctl/qr_flops.h"

#include <algorithm>

#include "client/tensor.h"

namespace factord::client {
namespace {

// k reflectors, each shorter by one than the one before, applied to a trailing matrix of m x n that
// shrinks likewise: the sum over j < k of 4 (m - j) (n - j), up to lower-order terms.
double ReflectionFlops(double m, double n, double k) {
  return 4 * m * n * k - 2 * (m + n) * k * k + 4 * k * k * k / 3;
}

}  // namespace

double QrFlops(const Dims& dims, v1::DType dtype, const v1::QrOptions& qr) {
  const BatchShape shape = ShapeOf(dims);
  const double m = static_cast<double>(shape.m);
  const double n = static_cast<double>(shape.n);
  const double k = std::min(m, n);
  double flops = ReflectionFlops(m, n, k);
  if (qr.q() == v1::Q_MODE_REDUCED) flops += ReflectionFlops(m, k, k);
  if (qr.q() == v1::Q_MODE_COMPLETE) flops += ReflectionFlops(m, m, k);
  return static_cast<double>(shape.batch_count) * flops * (IsComplex(dtype) ? 4 : 1);
}

}  // namespace factord::client
