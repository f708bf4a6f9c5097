#include "tests/support/r_ratio.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace factord::testing {
namespace {

using Column = std::vector<long double>;

// Columns, each scaled so that its norm is 1; of norm 0 stay.
struct Scaled {
  std::vector<Column> columns;
  Column norms;
};

template <class T>
Scaled ScaledColumns(const std::vector<T>& A, std::int64_t m, std::int64_t n) {
  Scaled scaled;
  for (std::int64_t j = 0; j < n; ++j) {
    const auto first = A.begin() + j * m;
    Column column(first, first + m);
    long double square = 0;
    for (const long double x : column) square += x * x;
    const long double norm = std::sqrt(square);
    if (norm > 0) {
      for (long double& x : column) x /= norm;
    }
    scaled.columns.push_back(std::move(column));
    scaled.norms.push_back(norm);
  }
  return scaled;
}

// R of the columns, column by column; its signs are LAPACK's: the opposite of alpha's, where alpha
// has a tail.
std::vector<Column> Geqr2(std::vector<Column> columns, Column& alphas, Column& tails) {
  const std::size_t n = columns.size();
  for (std::size_t j = 0; j < n; ++j) {
    Column& v = columns[j];
    long double sigma = 0;
    for (std::size_t i = j + 1; i < v.size(); ++i) sigma += v[i] * v[i];
    const long double alpha = v[j];
    alphas.push_back(alpha);
    tails.push_back(std::sqrt(sigma));
    if (sigma == 0) continue;
    const long double beta = -std::copysign(std::sqrt(alpha * alpha + sigma), alpha);
    const long double v0 = alpha - beta, tau = -v0 / beta;  // v = (1, tail / v0)
    for (std::size_t k = j + 1; k < n; ++k) {
      Column& x = columns[k];
      long double w = v0 * x[j];
      for (std::size_t i = j + 1; i < v.size(); ++i) w += v[i] * x[i];
      w *= tau / (v0 * v0);
      x[j] -= w * v0;
      for (std::size_t i = j + 1; i < v.size(); ++i) x[i] -= w * v[i];
    }
    v[j] = beta;
    std::fill(v.begin() + static_cast<std::ptrdiff_t>(j) + 1, v.end(), 0.0L);
  }
  for (Column& column : columns) column.resize(n, 0.0L);
  return columns;
}

long double Dot(const Column& a, const Column& b) {
  long double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Coefficients of column j of S in those before it; columns of no length of their own get none.
Column Coefficients(const std::vector<Column>& S, std::size_t j) {
  Column c(S[j].begin(), S[j].begin() + static_cast<std::ptrdiff_t>(j));
  for (std::size_t i = j; i-- > 0;) {
    for (std::size_t k = i + 1; k < j; ++k) c[i] -= S[k][i] * c[k];
    c[i] = std::abs(S[i][i]) > 1e-17L ? c[i] / S[i][i] : 0;
  }
  return c;
}

void Raise(double& worst, long double ratio) {
  if (!(ratio <= worst)) {
    worst =
        std::isnan(ratio) ? std::numeric_limits<double>::infinity() : static_cast<double>(ratio);
  }
}

}  // namespace

template <class T>
RRatios RAloneRatios(const std::vector<T>& A, const std::vector<T>& R, std::int64_t m,
                     std::int64_t n) {
  const long double eps = static_cast<long double>(std::numeric_limits<T>::epsilon()) / 2;
  const long double eta = std::numeric_limits<T>::denorm_min();
  const long double d = 30 * static_cast<long double>(std::max<std::int64_t>(1, m)) * eps;
  const Scaled a = ScaledColumns(A, m, n);
  Column alphas, tails;
  const std::vector<Column> S = Geqr2(a.columns, alphas, tails);
  // A tail whose square is not a number of the type may count as none.
  const long double least_tail = std::sqrt(static_cast<long double>(std::numeric_limits<T>::min()));

  RRatios ratios;
  std::vector<Column> r;
  for (std::int64_t j = 0; j < n; ++j) {
    const auto column = static_cast<std::size_t>(j);
    r.emplace_back(static_cast<std::size_t>(n), 0.0L);
    const long double norm = a.norms[column] > 0 ? a.norms[column] : 1;
    for (std::int64_t i = 0; i < n; ++i) {
      const T x = R[static_cast<std::size_t>(i + j * n)];
      ratios.triangular &= i <= j || (x == 0 && !std::signbit(x));
      r.back()[static_cast<std::size_t>(i)] = static_cast<long double>(x) / norm;
    }
  }
  // What rounding to a subnormal adds, next to the column's norm.
  const auto slack = [&](std::size_t j) {
    return static_cast<long double>(m) * eta / (a.norms[j] > 0 ? a.norms[j] : 1);
  };
  for (std::size_t j = 0; j < S.size(); ++j) {
    for (std::size_t k = 0; k <= j; ++k) {
      const long double error = std::abs(Dot(r[j], r[k]) - Dot(a.columns[j], a.columns[k]));
      Raise(ratios.gram, error / (2 * d + 2 * slack(j) + 2 * slack(k)));
    }
    long double moved = d + slack(j);
    const Column c = Coefficients(S, j);
    for (std::size_t i = 0; i < j; ++i) moved += std::abs(c[i]) * (d + slack(i));
    const long double difference = std::abs(std::abs(r[j][j]) - std::abs(S[j][j]));
    Raise(ratios.distance, difference / moved);
    if (std::abs(alphas[j]) > 100 * moved && tails[j] > least_tail && S[j][j] * r[j][j] < 0)
      ratios.signs = false;
  }
  return ratios;
}

template RRatios RAloneRatios(const std::vector<float>&, const std::vector<float>&, std::int64_t,
                              std::int64_t);
template RRatios RAloneRatios(const std::vector<double>&, const std::vector<double>&, std::int64_t,
                              std::int64_t);

}  // namespace factord::testing
