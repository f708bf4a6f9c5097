// How good an R is that came without its Q.
//
// R is that of A + E with ||e_j|| <= d ||a_j||, d = 30 max(1, m) eps, only if
//   |R^T R - A^T A|_jk <= 2 d ||a_j|| ||a_k||                                       ("gram")
//   ||R_jj| - |S_jj||  <= d (||a_j|| + sum_i |c_i| ||a_i||), a_j's distance from
//       the columns before it, of which c are the coefficients nearest to it        ("distance")
// S being the R of A. To first order in d; S in long double, by Householder reflections, columns
// scaled. The second is what a Gram matrix alone, formed in the type of A, can not give.
#pragma once

#include <cstdint>
#include <vector>

namespace factord::testing {

struct RRatios {
  double gram = 0;
  double distance = 0;
  bool triangular = true;  // exactly zero below the diagonal
  bool signs = true;       // LAPACK's, wherever alpha is clear of rounding errors
  bool Hold() const { return gram <= 1 && distance <= 1 && triangular && signs; }
};

// A (m x n) and R (n x n), m >= n, column-major; float or double.
template <class T>
RRatios RAloneRatios(const std::vector<T>& A, const std::vector<T>& R, std::int64_t m,
                     std::int64_t n);

}  // namespace factord::testing
