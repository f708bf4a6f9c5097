// The accuracy that the API promises, as ratios: 1 is the bound, anything above (or NaN, shown as
// infinity) breaks it.
//   ||(R - Q^H A)_j||_2 <= 30 max(1, m) eps ||a_j||_2 + m eta   for each column j     ("residual")
//   ||Q^H Q - I||_1     <= 30 max(1, m) eps ("orthogonality")
// eps = 2^-24 or 2^-53, eta the smallest subnormal. Evaluated in long double, whose exponents hold
// every square here.
#pragma once

#include <complex>
#include <cstdint>
#include <vector>

namespace factord::testing {

struct Ratios {
  double residual = 0;
  double orthogonality = 0;
  bool triangular = true;  // R is exactly zero below its diagonal
  bool Hold() const { return residual <= 1 && orthogonality <= 1 && triangular; }
};

// A (m x n), Q (m x q, q >= k), R (k x n), all column-major. For q = k also (A - Q R)_j against the
// same bound: what of A lies outside the span of Q.
template <class T>
Ratios QrRatios(const std::vector<T>& A, const std::vector<T>& Q, const std::vector<T>& R,
                std::int64_t m, std::int64_t n);

// The same of packed reflectors (m x n) and tau (k): H_k^H ... H_1^H A against R, and H_1 ... H_k.
template <class T>
Ratios ReflectorRatios(const std::vector<T>& A, const std::vector<T>& packed,
                       const std::vector<T>& tau, std::int64_t m, std::int64_t n);

// The first `cols` columns of H_1 ... H_k, rounded.
template <class T>
std::vector<T> QFromReflectors(const std::vector<T>& packed, const std::vector<T>& tau,
                               std::int64_t m, std::int64_t cols);

// Q: m x q.
template <class T>
double OrthogonalityRatio(const std::vector<T>& Q, std::int64_t m, std::int64_t q);

}  // namespace factord::testing
