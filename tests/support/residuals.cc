#include "tests/support/residuals.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace factord::testing {
namespace {

// Complex arithmetic without the library's special cases for Inf and NaN, which cost tenfold.
struct Number {
  long double re = 0, im = 0;
};
Number operator+(Number a, Number b) { return {a.re + b.re, a.im + b.im}; }
Number operator-(Number a, Number b) { return {a.re - b.re, a.im - b.im}; }
Number Conj(Number a) { return {a.re, -a.im}; }
long double Square(Number a) { return a.re * a.re + a.im * a.im; }

// The arithmetic for one element type: real types never touch the imaginary part.
template <class T>
struct Arithmetic {
  using Real = T;
  static Number Of(T x) { return {x, 0}; }
  static Number Times(Number a, Number b) { return {a.re * b.re, 0}; }
  static T Round(Number x) { return static_cast<T>(x.re); }
};
template <class R>
struct Arithmetic<std::complex<R>> {
  using Real = R;
  static Number Of(std::complex<R> x) { return {x.real(), x.imag()}; }
  static Number Times(Number a, Number b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  }
  static std::complex<R> Round(Number x) { return {static_cast<R>(x.re), static_cast<R>(x.im)}; }
};

template <class T>
class Matrix {
 public:
  Matrix(std::int64_t m, std::int64_t n) : m_(m), data_(static_cast<std::size_t>(m * n)) {}
  Matrix(const std::vector<T>& A, std::int64_t m) : m_(m) {
    for (const T& a : A) data_.push_back(Arithmetic<T>::Of(a));
  }
  Number& operator()(std::int64_t i, std::int64_t j) {
    return data_[static_cast<std::size_t>(i + j * m_)];
  }
  const Number* col(std::int64_t j) const { return data_.data() + j * m_; }

 private:
  std::int64_t m_;
  std::vector<Number> data_;
};

// NaN is the worst of all.
double Worst(double a, long double b) {
  if (!(b <= std::numeric_limits<double>::max())) return std::numeric_limits<double>::infinity();
  return std::max(a, static_cast<double>(b));
}

template <class T>
long double Tolerance(std::int64_t m) {
  const long double eps = sizeof(typename Arithmetic<T>::Real) == 4 ? 0x1p-24L : 0x1p-53L;
  return 30 * static_cast<long double>(std::max<std::int64_t>(1, m)) * eps;
}

// The bound on column j's residual. long double has exponents enough: nothing need be scaled.
template <class T>
long double ColumnBound(const Number* a, std::int64_t m) {
  long double sum = 0;
  for (std::int64_t i = 0; i < m; ++i) sum += Square(a[i]);
  const long double eta = std::numeric_limits<typename Arithmetic<T>::Real>::denorm_min();
  return Tolerance<T>(m) * std::sqrt(sum) + static_cast<long double>(m) * eta;
}

long double Ratio(long double sum_of_squares, long double bound) {
  return sum_of_squares == 0 ? 0 : std::sqrt(sum_of_squares) / bound;
}

// C := H C or H^H C, H = I - tau v v^H from column i of `packed`, on columns [0, cols).
template <class T>
void ApplyReflector(const std::vector<T>& packed, Number tau, std::int64_t m, std::int64_t i,
                    Matrix<T>& C, std::int64_t cols) {
  using Ops = Arithmetic<T>;
  const auto v = [&](std::int64_t r) {
    return r == i ? Number{1, 0} : Ops::Of(packed[static_cast<std::size_t>(r + i * m)]);
  };
  for (std::int64_t j = 0; j < cols; ++j) {
    Number w;
    for (std::int64_t r = i; r < m; ++r) w = w + Ops::Times(Conj(v(r)), C(r, j));
    w = Ops::Times(tau, w);
    for (std::int64_t r = i; r < m; ++r) C(r, j) = C(r, j) - Ops::Times(v(r), w);
  }
}

template <class T>
Matrix<T> FormQ(const std::vector<T>& packed, const std::vector<T>& tau, std::int64_t m,
                std::int64_t cols) {
  Matrix<T> Q(m, cols);
  for (std::int64_t j = 0; j < cols; ++j) Q(j, j) = {1, 0};
  for (auto i = static_cast<std::int64_t>(tau.size()) - 1; i >= 0; --i) {
    ApplyReflector(packed, Arithmetic<T>::Of(tau[static_cast<std::size_t>(i)]), m, i, Q, cols);
  }
  return Q;
}

template <class T>
double Orthogonality(const Matrix<T>& Q, std::int64_t m, std::int64_t q) {
  using Ops = Arithmetic<T>;
  std::vector<long double> sums(static_cast<std::size_t>(q));
  for (std::int64_t j = 0; j < q; ++j) {
    for (std::int64_t c = 0; c <= j; ++c) {
      Number dot;
      for (std::int64_t i = 0; i < m; ++i) dot = dot + Ops::Times(Conj(Q.col(c)[i]), Q.col(j)[i]);
      if (c == j) dot.re -= 1;
      const long double size = std::sqrt(Square(dot));
      sums[static_cast<std::size_t>(j)] += size;
      if (c != j) sums[static_cast<std::size_t>(c)] += size;
    }
  }
  double worst = 0;
  for (long double sum : sums) worst = Worst(worst, sum / Tolerance<T>(m));
  return worst;
}

}  // namespace

template <class T>
double OrthogonalityRatio(const std::vector<T>& Q, std::int64_t m, std::int64_t q) {
  return Orthogonality(Matrix<T>(Q, m), m, q);
}

template <class T>
std::vector<T> QFromReflectors(const std::vector<T>& packed, const std::vector<T>& tau,
                               std::int64_t m, std::int64_t cols) {
  const Matrix<T> Q = FormQ(packed, tau, m, cols);
  std::vector<T> rounded(static_cast<std::size_t>(m * cols));
  std::transform(Q.col(0), Q.col(0) + m * cols, rounded.begin(), Arithmetic<T>::Round);
  return rounded;
}

template <class T>
double ApplyRatio(const std::vector<T>& packed, const std::vector<T>& tau, std::int64_t m,
                  bool adjoint, const std::vector<T>& C, const std::vector<T>& X) {
  if (X.size() != C.size()) return std::numeric_limits<double>::infinity();
  if (m == 0) return 0;
  const auto p = static_cast<std::int64_t>(C.size()) / m, k = static_cast<std::int64_t>(tau.size());
  const Matrix<T> c(C, m), x(X, m);
  Matrix<T> expected(C, m);
  for (std::int64_t step = 0; step < k; ++step) {
    const std::int64_t i = adjoint ? step : k - 1 - step;
    const Number tau_i = Arithmetic<T>::Of(tau[static_cast<std::size_t>(i)]);
    ApplyReflector(packed, adjoint ? Conj(tau_i) : tau_i, m, i, expected, p);
  }
  double worst = 0;
  for (std::int64_t j = 0; j < p; ++j) {
    long double sum = 0;
    for (std::int64_t i = 0; i < m; ++i) sum += Square(x.col(j)[i] - expected.col(j)[i]);
    worst = Worst(worst, Ratio(sum, ColumnBound<T>(c.col(j), m)));
  }
  return worst;
}

template <class T>
SolveRatios LeastSquaresRatios(const std::vector<T>& A, const std::vector<T>& B,
                               const std::vector<T>& X,
                               const std::vector<decltype(std::abs(T{}))>& norms, std::int64_t m,
                               std::int64_t n) {
  using Ops = Arithmetic<T>;
  const auto norm = [m](const Number* x) {
    long double sum = 0;
    for (std::int64_t i = 0; i < m; ++i) sum += Square(x[i]);
    return std::sqrt(sum);
  };
  const auto over = [m](long double error, long double size) {
    return error == 0 ? 0 : error / (Tolerance<T>(m) * size);
  };
  const auto p = static_cast<std::int64_t>(norms.size());
  const Matrix<T> a(A, m), x(X, n);
  Matrix<T> r(B, m);
  SolveRatios ratios;
  for (std::int64_t c = 0; c < p; ++c) {
    long double size = norm(r.col(c));  // s
    for (std::int64_t j = 0; j < n; ++j) {
      const Number x_j = x.col(c)[j];
      for (std::int64_t i = 0; i < m; ++i) r(i, c) = r(i, c) - Ops::Times(a.col(j)[i], x_j);
      size += norm(a.col(j)) * std::sqrt(Square(x_j));
    }
    const long double r_norm = norm(r.col(c));
    const long double difference = norms[static_cast<std::size_t>(c)] - r_norm;
    ratios.norm = Worst(ratios.norm, over(std::abs(difference), size));
    for (std::int64_t j = 0; j < n; ++j) {
      Number dot;
      for (std::int64_t i = 0; i < m; ++i) dot = dot + Ops::Times(Conj(a.col(j)[i]), r.col(c)[i]);
      ratios.residual =
          Worst(ratios.residual, over(std::sqrt(Square(dot)), norm(a.col(j)) * (r_norm + size)));
    }
  }
  return ratios;
}

template <class T>
Ratios QrRatios(const std::vector<T>& A, const std::vector<T>& Q, const std::vector<T>& R,
                std::int64_t m, std::int64_t n) {
  using Ops = Arithmetic<T>;
  const std::int64_t k = std::min(m, n);
  const std::int64_t q = m == 0 ? 0 : static_cast<std::int64_t>(Q.size()) / m;
  Ratios ratios;
  const Matrix<T> a(A, m), wide_q(Q, m);
  Matrix<T> r(R, k);
  for (std::int64_t j = 0; j < n; ++j) {
    const long double bound = ColumnBound<T>(a.col(j), m);
    for (std::int64_t i = j + 1; i < k; ++i)
      ratios.triangular &= r(i, j).re == 0 && r(i, j).im == 0;
    long double inside = 0;  // ||(R - Q^H A)_j||^2, R with zero rows appended where Q is complete
    for (std::int64_t c = 0; c < q; ++c) {
      Number dot = c < k ? r(c, j) : Number{};
      for (std::int64_t i = 0; i < m; ++i)
        dot = dot - Ops::Times(Conj(wide_q.col(c)[i]), a.col(j)[i]);
      inside += Square(dot);
    }
    ratios.residual = Worst(ratios.residual, Ratio(inside, bound));
    if (q != k) continue;
    long double outside = 0;  // ||(A - Q R)_j||^2
    for (std::int64_t i = 0; i < m; ++i) {
      Number sum = a.col(j)[i];
      for (std::int64_t c = 0; c <= std::min(j, k - 1); ++c)
        sum = sum - Ops::Times(wide_q.col(c)[i], r(c, j));
      outside += Square(sum);
    }
    ratios.residual = Worst(ratios.residual, Ratio(outside, bound));
  }
  ratios.orthogonality = Orthogonality(wide_q, m, q);
  return ratios;
}

template <class T>
Ratios ReflectorRatios(const std::vector<T>& A, const std::vector<T>& packed,
                       const std::vector<T>& tau, std::int64_t m, std::int64_t n) {
  const std::int64_t k = std::min(m, n);
  Ratios ratios;
  const Matrix<T> a(A, m);
  Matrix<T> c(A, m), r(packed, m);
  for (std::int64_t i = 0; i < k; ++i) {
    ApplyReflector(packed, Conj(Arithmetic<T>::Of(tau[static_cast<std::size_t>(i)])), m, i, c, n);
  }
  for (std::int64_t j = 0; j < n; ++j) {
    long double sum = 0;
    for (std::int64_t i = 0; i < m; ++i) sum += Square(i <= j ? c(i, j) - r(i, j) : c(i, j));
    ratios.residual = Worst(ratios.residual, Ratio(sum, ColumnBound<T>(a.col(j), m)));
  }
  ratios.orthogonality = Orthogonality(FormQ(packed, tau, m, k), m, k);
  return ratios;
}

#define FACTORD_INSTANTIATE(T)                                                                  \
  template Ratios QrRatios(const std::vector<T>&, const std::vector<T>&, const std::vector<T>&, \
                           std::int64_t, std::int64_t);                                         \
  template Ratios ReflectorRatios(const std::vector<T>&, const std::vector<T>&,                 \
                                  const std::vector<T>&, std::int64_t, std::int64_t);           \
  template std::vector<T> QFromReflectors(const std::vector<T>&, const std::vector<T>&,         \
                                          std::int64_t, std::int64_t);                          \
  template double OrthogonalityRatio(const std::vector<T>&, std::int64_t, std::int64_t);        \
  template double ApplyRatio(const std::vector<T>&, const std::vector<T>&, std::int64_t, bool,  \
                             const std::vector<T>&, const std::vector<T>&);                     \
  template SolveRatios LeastSquaresRatios(                                                      \
      const std::vector<T>&, const std::vector<T>&, const std::vector<T>&,                      \
      const std::vector<decltype(std::abs(T{}))>&, std::int64_t, std::int64_t);
FACTORD_INSTANTIATE(float)
FACTORD_INSTANTIATE(double)
FACTORD_INSTANTIATE(std::complex<float>)
FACTORD_INSTANTIATE(std::complex<double>)
#undef FACTORD_INSTANTIATE

}  // namespace factord::testing
