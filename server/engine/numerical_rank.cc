#include "server/engine/numerical_rank.h"

#include <algorithm>
#include <cmath>

namespace factord {
namespace {

// Below 1, to cover the rounding errors of the bounds themselves.
constexpr double kComparisonMargin = 0.5;
constexpr double kInverseMargin = 0.25;  // a computed inverse at rcond's edge has half its digits

template <class T>
double UpperFrobenius(MatrixView<const T> R) {
  double sum = 0;
  for (std::int64_t j = 0; j < R.n; ++j) {
    for (std::int64_t i = 0; i <= j; ++i) sum += std::norm(Wide<T>(R(i, j)));
  }
  return std::sqrt(sum);
}

// sqrt(||M^-1||_1 ||M^-1||_inf), from M y = 1 and M^T z = 1 (M^-1 >= 0, so its row sums are y).
template <class T>
double ComparisonBound(MatrixView<const T> R, Workspace& workspace) {
  const std::int64_t n = R.n;
  const Workspace::Scope scope(workspace);
  double* y = workspace.Take<double>(n);
  std::fill(y, y + n, 1.0);
  double y_max = 0;
  for (std::int64_t j = n - 1; j >= 0; --j) {
    y[j] /= std::abs(Wide<T>(R(j, j)));
    y_max = std::max(y_max, y[j]);
    for (std::int64_t i = 0; i < j; ++i) y[i] += std::abs(Wide<T>(R(i, j))) * y[j];
  }
  double* z = y;
  double z_max = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    double sum = 1;
    for (std::int64_t i = 0; i < j; ++i) sum += std::abs(Wide<T>(R(i, j))) * z[i];
    z[j] = sum / std::abs(Wide<T>(R(j, j)));
    z_max = std::max(z_max, z[j]);
  }
  return std::sqrt(y_max) * std::sqrt(z_max);
}

// ||R^-1||_F; Inf where R is singular.
template <class T>
double InverseFrobenius(MatrixView<const T> R, Workspace& workspace) {
  const Workspace::Scope scope(workspace);
  const MatrixView<T> inverse = workspace.TakeMatrix<T>(R.n, R.n);
  for (std::int64_t j = 0; j < R.n; ++j) std::copy(R.col(j), R.col(j) + j + 1, inverse.col(j));
  if (!lapack::trtri(R.n, inverse.data, inverse.ld)) return INFINITY;
  return UpperFrobenius<T>({inverse.data, inverse.m, inverse.n, inverse.ld});
}

}  // namespace

template <class T>
bool IsFullRank(MatrixView<const T> R, double rcond, Workspace& workspace) {
  const double largest = rcond * UpperFrobenius(R);
  // Written so that a NaN (0 * Inf, from a zero on the diagonal) proves nothing.
  if (largest * ComparisonBound(R, workspace) < kComparisonMargin) return true;
  return largest * InverseFrobenius(R, workspace) < kInverseMargin;
}

template <class T>
RankedSvd<Wide<T>> DecomposeTriangle(MatrixView<const T> R, double rcond, Workspace& workspace) {
  using W = Wide<T>;
  const std::int64_t n = R.n;
  RankedSvd<W> svd{workspace.TakeMatrix<W>(n, n), workspace.Take<double>(n),
                   workspace.TakeMatrix<W>(n, n), 0};
  if (n == 0) return svd;
  const Workspace::Scope scope(workspace);
  const MatrixView<W> A = workspace.TakeMatrix<W>(n, n);
  bool zero_on_diagonal = false;
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < n; ++i) A(i, j) = i <= j ? W(R(i, j)) : W(0);
    zero_on_diagonal |= R(j, j) == T(0);
  }
  W* work = workspace.Take<W>(lapack::gesdd_lwork(n));
  double* rwork = workspace.Take<double>(lapack::gesdd_lrwork(n));
  auto* iwork = workspace.Take<std::int32_t>(lapack::gesdd_liwork(n));
  if (!lapack::gesdd(n, A.data, A.ld, svd.s, svd.U.data, svd.U.ld, svd.Vt.data, svd.Vt.ld, work,
                     rwork, iwork)) {
    std::fill(svd.s, svd.s + n, 0.0);  // never seen for finite data
  }
  while (svd.rank < n && svd.s[svd.rank] > rcond * svd.s[0]) ++svd.rank;
  // Certainly singular, whatever rounding made of sigma_n and however small rcond is.
  if (zero_on_diagonal) svd.rank = std::min(svd.rank, n - 1);
  return svd;
}

#define FACTORD_INSTANTIATE(T)                                       \
  template bool IsFullRank(MatrixView<const T>, double, Workspace&); \
  template RankedSvd<Wide<T>> DecomposeTriangle(MatrixView<const T>, double, Workspace&);
FACTORD_INSTANTIATE(float)
FACTORD_INSTANTIATE(double)
FACTORD_INSTANTIATE(std::complex<float>)
FACTORD_INSTANTIATE(std::complex<double>)
#undef FACTORD_INSTANTIATE

}  // namespace factord
