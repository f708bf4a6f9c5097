// How good an R is that came without its Q.
//
// With A = Q0 R0, in long double, R is the R of some A + E if an orthogonal W takes R0 to nearly R.
// Such a W, nearly the best, comes from the QR of both, their columns scaled to unit length and in
// the order in which R0's are pivoted: R0 P = U0 S0, R P = U S, W = U U0^T, R - W R0 = U (S - S0)
// P^T, however close to dependent columns are. E's columns are held to the contract's bound, 30
// max(1, m) eps ||a_j|| + m eta. (A^T A = R^T R would not see what is lost of R's small entries.)
#pragma once

#include <cstdint>
#include <vector>

namespace factord::testing {

// Matrices are column-major; T: float or double; m >= n.
template <class T>
class RAlone {
 public:
  RAlone(const std::vector<T>& A, std::int64_t m, std::int64_t n);

  // Of an R (n x n); 1 is the bound.
  double ResidualRatio(const std::vector<T>& R) const;

  // R's diagonal has the signs of LAPACK's geqrf, beta's being the opposite of alpha's, wherever
  // rounding can't decide them: alpha is clear of it and has a tail, and the columns before are
  // clearly independent.
  bool HasSigns(const std::vector<T>& R) const;

 private:
  using Wide = std::vector<long double>;

  Wide Scaled(Wide r) const;

  const std::int64_t m_, n_;
  Wide norms_;           // of A's columns
  Wide r_;               // R0, as LAPACK's geqrf would make it
  Wide alphas_, tails_;  // of its columns; a tail's norm
};

}  // namespace factord::testing
