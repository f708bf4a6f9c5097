// The numerical rank of a triangular factor: #{ sigma_i > rcond sigma_1 }.
#pragma once

#include <complex>
#include <cstdint>

#include "server/engine/lapack.h"
#include "server/engine/matrix_view.h"
#include "server/engine/workspace.h"

namespace factord {

// The double-precision type of the same kind. What follows a doubtful rank is done in it: the
// caller's units may span more than float's exponents.
template <class T>
using Wide = std::conditional_t<kIsComplex<T>, std::complex<double>, double>;

// rcond < 0 means 2 max(m, n) eps.
template <class T>
double EffectiveRcond(double rcond, std::int64_t m, std::int64_t n) {
  return rcond >= 0 ? rcond : 2.0 * static_cast<double>(std::max(m, n)) * kEps<T>;
}

// True only if the smallest singular value of the upper triangular R (n x n) exceeds rcond times
// the largest, shown by
//   sigma_1 <= ||R||_F  and  1 / sigma_n = ||R^-1||_2 <= sqrt(||M^-1||_1 ||M^-1||_inf)  or  <=
//   ||R^-1||_F
// where M, |diag R| with -|R| right of it, is the comparison matrix: |R^-1| <= M^-1 entry by entry.
// O(n^2), then O(n^3 / 3).
template <class T>
bool IsFullRank(MatrixView<const T> R, double rcond, Workspace& workspace);

// R = U diag(s) Vt in double precision, and the rank.
template <class W>
struct RankedSvd {
  MatrixView<W> U;
  double* s = nullptr;
  MatrixView<W> Vt;
  std::int64_t rank = 0;
};

// Takes the factors' memory from `workspace`.
template <class T>
RankedSvd<Wide<T>> DecomposeTriangle(MatrixView<const T> R, double rcond, Workspace& workspace);

}  // namespace factord
