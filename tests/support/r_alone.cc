#include "tests/support/r_alone.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

namespace factord::testing {
namespace {

using Wide = std::vector<long double>;

std::size_t At(std::int64_t rows, std::int64_t i, std::int64_t j) {
  return static_cast<std::size_t>(i + j * rows);
}

long double NormOf(const long double* x, std::int64_t size) {
  long double sum = 0;
  for (std::int64_t i = 0; i < size; ++i) sum += x[i] * x[i];
  return std::sqrt(sum);
}

// The R (n x n) of LAPACK's geqrf; column(alpha, the tail's norm) is told of each.
template <class Column>
Wide Geqrf(Wide x, std::int64_t m, std::int64_t n, Column column) {
  for (std::int64_t j = 0; j < n; ++j) {
    long double* const v = &x[At(m, j, j)];
    const std::int64_t size = m - j;
    const long double alpha = v[0], tail = NormOf(v + 1, size - 1);
    column(alpha, tail);
    if (tail == 0) continue;
    const long double beta = -std::copysign(NormOf(v, size), alpha);
    v[0] -= beta;
    for (std::int64_t k = j + 1; k < n; ++k) {
      long double* const c = &x[At(m, j, k)];
      const long double dot = std::inner_product(v, v + size, c, 0.0L);
      for (std::int64_t i = 0; i < size; ++i) c[i] += v[i] * dot / (beta * (alpha - beta));
    }
    v[0] = beta;
  }
  Wide r(At(n, 0, n));
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i <= j; ++i) r[At(n, i, j)] = x[At(m, i, j)];
  }
  return r;
}

// The columns of x (n x n) from the one that is the farthest from the span of those before it on;
// those of which rounding to subnormals leaves little come after all others.
std::vector<std::int64_t> PivotsOf(Wide x, std::int64_t n, const std::vector<bool>& coarse) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const auto norm = [&](std::int64_t k) { return NormOf(&x[At(n, 0, k)], n); };
  const auto rank = [&](std::int64_t k) {
    return std::pair(!coarse[static_cast<std::size_t>(k)], norm(k));
  };
  for (auto next = order.begin(); next != order.end(); ++next) {
    std::iter_swap(next, std::max_element(next, order.end(), [&](std::int64_t k, std::int64_t l) {
                     return rank(k) < rank(l);
                   }));
    const long double* const q = &x[At(n, 0, *next)];
    const long double square = norm(*next) * norm(*next);
    for (auto other = next + 1; square > 0 && other != order.end(); ++other) {
      long double* const c = &x[At(n, 0, *other)];
      const long double dot = std::inner_product(q, q + n, c, 0.0L);
      for (std::int64_t i = 0; i < n; ++i) c[i] -= q[i] * (dot / square);
    }
  }
  return order;
}

// The R of x's columns in this order, with a diagonal >= 0.
Wide OrderedR(const Wide& x, const std::vector<std::int64_t>& order, std::int64_t n) {
  Wide ordered;
  for (std::int64_t k : order) ordered.insert(ordered.end(), &x[At(n, 0, k)], &x[At(n, 0, k)] + n);
  Wide r = Geqrf(ordered, n, n, [](long double, long double) {});
  for (std::int64_t i = 0; i < n; ++i) {
    if (r[At(n, i, i)] >= 0) continue;
    for (std::int64_t j = i; j < n; ++j) r[At(n, i, j)] *= -1;
  }
  return r;
}

template <class T>
constexpr long double kEps = sizeof(T) == 4 ? 0x1p-24L : 0x1p-53L;

}  // namespace

template <class T>
RAlone<T>::RAlone(const std::vector<T>& A, std::int64_t m, std::int64_t n) : m_(m), n_(n) {
  const Wide wide(A.begin(), A.end());
  for (std::int64_t j = 0; j < n; ++j) norms_.push_back(NormOf(&wide[At(m, 0, j)], m));
  r_ = Geqrf(wide, m, n, [&](long double alpha, long double tail) {
    alphas_.push_back(alpha);
    tails_.push_back(tail);
  });
}

template <class T>
std::vector<long double> RAlone<T>::Scaled(Wide r) const {
  for (std::int64_t j = 0; j < n_; ++j) {
    const long double norm = norms_[static_cast<std::size_t>(j)];
    for (std::int64_t i = 0; norm != 0 && i < n_; ++i) r[At(n_, i, j)] /= norm;
  }
  return r;
}

template <class T>
double RAlone<T>::ResidualRatio(const std::vector<T>& R) const {
  const long double eta = std::numeric_limits<T>::denorm_min();
  const Wide x = Scaled(r_), y = Scaled(Wide(R.begin(), R.end()));
  std::vector<bool> coarse;
  for (const long double norm : norms_) coarse.push_back(norm != 0 && eta > kEps<T> * norm);
  const std::vector<std::int64_t> order = PivotsOf(x, n_, coarse);
  const Wide s0 = OrderedR(x, order, n_), s = OrderedR(y, order, n_);
  double worst = 0;
  for (std::int64_t j = 0; j < n_; ++j) {
    Wide difference;
    for (std::int64_t i = 0; i < n_; ++i) difference.push_back(s[At(n_, i, j)] - s0[At(n_, i, j)]);
    const long double error = NormOf(difference.data(), n_);
    if (std::isnan(error)) return std::numeric_limits<double>::infinity();
    const auto column = static_cast<std::size_t>(order[static_cast<std::size_t>(j)]);
    const long double norm = norms_[column], rows = static_cast<long double>(m_);
    const long double bound =
        30 * std::max(1.0L, rows) * kEps<T> + (norm == 0 ? 0 : rows * eta / norm);
    worst = std::max(worst, static_cast<double>(error / bound));
  }
  return worst;
}

template <class T>
bool RAlone<T>::HasSigns(const std::vector<T>& R) const {
  const long double eta = std::numeric_limits<T>::denorm_min();
  // A tail whose square is not a number of the type may count as none.
  const long double least_tail = std::sqrt(static_cast<long double>(std::numeric_limits<T>::min()));
  const Wide x = Scaled(r_);
  long double least = 1;  // on the diagonal so far
  for (std::int64_t j = 0; j < n_; ++j) {
    const auto column = static_cast<std::size_t>(j);
    const long double norm = norms_[column], rows = static_cast<long double>(m_);
    least = std::min(least, std::abs(x[At(n_, j, j)]));
    const long double error = (30 * rows * kEps<T> * norm + rows * eta) / (least * least);
    const long double least_tail_here =
        j == 0 ? least_tail * norm : std::max(error, least_tail * norm);
    if (!(std::abs(r_[At(n_, j, j)]) > error) || tails_[column] <= least_tail_here) return true;
    if (std::abs(alphas_[column]) > error &&
        std::signbit(R[At(n_, j, j)]) != std::signbit(r_[At(n_, j, j)]))
      return false;
  }
  return true;
}

template class RAlone<float>;
template class RAlone<double>;

}  // namespace factord::testing
