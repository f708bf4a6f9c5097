// The accuracy that the API promises, as ratios: 1 is the bound, anything above (or NaN, shown as
// infinity) breaks it.
//   ||(R - Q^H A)_j||_2 <= 30 max(1, m) eps ||a_j||_2 + m eta   for each column j     ("residual")
//   ||Q^H Q - I||_1     <= 30 max(1, m) eps ("orthogonality")
// eps = 2^-24 or 2^-53, eta the smallest subnormal. Evaluated in long double, whose exponents hold
// every square here.
#pragma once

#include <cmath>
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

// X against op(Q) C, both m x p: ||(X - op(Q) C)_j||_2 over column j's bound above, with c_j in
// place of a_j; op(Q) is H_1 ... H_k, or its adjoint.
template <class T>
double ApplyRatio(const std::vector<T>& packed, const std::vector<T>& tau, std::int64_t m,
                  bool adjoint, const std::vector<T>& C, const std::vector<T>& X);

// Q: m x q.
template <class T>
double OrthogonalityRatio(const std::vector<T>& Q, std::int64_t m, std::int64_t q);

// Least squares, A (m x n), B (m x p), X (n x p), norms (p). What the exact minimizer for some
// A + E and b + f has, ||e_j|| <= d ||a_j||, ||f|| <= d ||b||, d = 30 max(1, m) eps; r = b - A x:
//   |a_j^H r|               <= d ||a_j|| (||r|| + s) for each column j     ("residual")
//   |norms - ||r|||         <= d s,   s = ||b|| + sum_j ||a_j|| |x_j|      ("norm")
struct SolveRatios {
  double residual = 0;
  double norm = 0;
  bool Hold() const { return residual <= 1 && norm <= 1; }
};
template <class T>
SolveRatios LeastSquaresRatios(const std::vector<T>& A, const std::vector<T>& B,
                               const std::vector<T>& X,
                               const std::vector<decltype(std::abs(T{}))>& norms, std::int64_t m,
                               std::int64_t n);

}  // namespace factord::testing
