// One least-squares problem: X minimizes ||b_j - A x_j||_2 for each column of B, and ||x_j||_2
// among the minimizers.
//
// With A_hat = A E^-1, E = diag(2^e_j) (column_scaling.h), and likewise b_j scaled by 2^-f_j:
//   m >= n   A_hat = Q R,    C = Q^H B;       full rank: x_hat = R^-1 C(1:n)
//   m < n    A_hat^H = Q R,  d = R^-H B;      full rank: V_r = Q(:, 1:m)
// Deficient: from R = U S V^H, cut after the rank, d = S_r^-1 U_r^H C and V_r (likewise for m < n).
// Wherever x_hat is not unique it is chosen so that x = E^-1 x_hat, in the caller's units, is the
// shortest (minimum_norm.h).
#pragma once

#include <cstdint>
#include <optional>

#include "server/core/job.h"
#include "server/engine/numerical_rank.h"
#include "server/engine/reflectors.h"
#include "server/engine/strided.h"
#include "server/engine/team.h"

namespace factord {

// A place in a workspace for problems of one size, solved one after the other.
template <class T>
class LeastSquares {
 public:
  LeastSquares(std::int64_t m, std::int64_t n, std::int64_t p, double rcond, Workspace& workspace);

  // False if A or B holds a NaN or an Inf.
  bool Load(Strided<const T> A, Strided<const T> B, const Team& team);
  void Solve(const Team& team);
  // X (n x p), ||b_j - A x_j|| (p), the rank; kRankDeficient where it is less than min(m, n).
  std::optional<MatrixCode> Store(Strided<T> X, Real<T>* residual_norm, std::int32_t* rank) const;

 private:
  using W = Wide<T>;

  std::int64_t k() const { return m_ < n_ ? m_ : n_; }
  void SolveTall(const Team& team);
  void SolveWide(const Team& team);
  void SolveTallDeficient(const RankedSvd<W>& svd, const Team& team);
  void SolveWideFullRank(MatrixView<T> R, const Team& team);
  void SolveWideDeficient(const RankedSvd<W>& svd, const Team& team);
  MatrixView<const T> Triangle() const;  // R, k x k
  // The first `cols` columns of Q in double precision.
  MatrixView<W> FormQ(std::int64_t cols, const Team& team);
  // X and the residuals from a basis of the row space, its complement, and coordinates. `system`:
  // A_hat, or (upper) R where B_ is already Q^H B.
  void FinishMinimumNorm(MatrixView<const W> V_r, MatrixView<const W> V_0, MatrixView<const W> d,
                         MatrixView<const T> system, bool upper, Workspace& workspace);
  // ||B_(:, c) - (system ; 0) x_hat||, scaled back.
  void PutResidual(std::int64_t c, MatrixView<const T> system, bool upper, const W* x_hat,
                   Workspace& workspace);

  const std::int64_t m_, n_, p_;
  const double rcond_;
  Reflectors<T> qr_;        // of A_hat, or of A_hat^H where m < n
  MatrixView<T> A_hat_;     // m x n, only where m < n
  MatrixView<T> B_;         // m x p: B, then Q^H B where m >= n
  MatrixView<T> X_;         // n x p
  std::int32_t* e_;         // n
  std::int32_t* f_;         // p
  Real<T>* residual_norm_;  // p
  std::int64_t rank_ = 0;
};

}  // namespace factord
