#include "server/engine/least_squares.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <complex>

#include "server/engine/column_scaling.h"
#include "server/engine/minimum_norm.h"

namespace factord {
namespace {

using lapack::Trans;

// Columns read or written at a time by one thread.
constexpr std::int64_t kCopyTile = 64;

template <class T>
MatrixView<const T> Const(MatrixView<T> A) {
  return {A.data, A.m, A.n, A.ld};
}

template <class R>
R Scale(R x, std::int32_t e) {
  return std::ldexp(x, e);
}
template <class R>
std::complex<R> Scale(std::complex<R> x, std::int32_t e) {
  return {std::ldexp(x.real(), e), std::ldexp(x.imag(), e)};
}

// x 2^e, from double to T's precision: rounded to T once unless the result is subnormal.
template <class T, class W>
T Narrow(W x, std::int32_t e) {
  return static_cast<T>(Scale(x, e));
}

// S^-1 U^H B for the leading `rank` singular triplets (rank x p).
template <class W>
MatrixView<W> Project(MatrixView<const W> U, const double* s, std::int64_t rank,
                      MatrixView<const W> B, Workspace& workspace) {
  const MatrixView<W> d = workspace.TakeMatrix<W>(rank, B.n);
  if (rank > 0 && B.n > 0) {
    lapack::gemm(Trans::kAdjoint, Trans::kNone, rank, B.n, U.m, W(1), U.data, U.ld, B.data, B.ld,
                 W(0), d.data, d.ld);
  }
  for (std::int64_t c = 0; c < B.n; ++c) {
    for (std::int64_t i = 0; i < rank; ++i) d(i, c) /= s[i];
  }
  return d;
}

// A in double precision.
template <class W, class T>
MatrixView<W> Widen(MatrixView<T> A, Workspace& workspace) {
  const MatrixView<W> wide = workspace.TakeMatrix<W>(A.m, A.n);
  for (std::int64_t j = 0; j < A.n; ++j) {
    for (std::int64_t i = 0; i < A.m; ++i) wide(i, j) = W(A(i, j));
  }
  return wide;
}

template <class W>
MatrixView<W> ConjugateTranspose(MatrixView<W> A, Workspace& workspace) {
  const MatrixView<W> adjoint = workspace.TakeMatrix<W>(A.n, A.m);
  for (std::int64_t j = 0; j < A.n; ++j) {
    for (std::int64_t i = 0; i < A.m; ++i) adjoint(j, i) = Conj(A(i, j));
  }
  return adjoint;
}

}  // namespace

template <class T>
LeastSquares<T>::LeastSquares(std::int64_t m, std::int64_t n, std::int64_t p, double rcond,
                              Workspace& workspace)
    : m_(m),
      n_(n),
      p_(p),
      rcond_(EffectiveRcond<T>(rcond, m, n)),
      qr_(std::max(m, n), std::min(m, n), workspace),
      B_(workspace.TakeMatrix<T>(m, p)),
      X_(workspace.TakeMatrix<T>(n, p)),
      e_(workspace.Take<std::int32_t>(n)),
      f_(workspace.Take<std::int32_t>(p)),
      residual_norm_(workspace.Take<Real<T>>(p)) {
  if (m < n) A_hat_ = workspace.TakeMatrix<T>(m, n);
}

template <class T>
bool LeastSquares<T>::Load(Strided<const T> A, Strided<const T> B, const Team& team) {
  const MatrixView<T> target = m_ < n_ ? A_hat_ : qr_.A();
  std::atomic<bool> finite{true};
  team.ForTiles(0, n_, kCopyTile, [&](std::int64_t j, std::int64_t cols, Workspace&) {
    if (!LoadScaled(A.columns(j, cols), false, target.columns(j, cols), e_ + j)) finite = false;
    if (m_ >= n_) return;
    for (std::int64_t c = j; c < j + cols; ++c) {
      for (std::int64_t i = 0; i < m_; ++i) qr_.A()(c, i) = Conj(A_hat_(i, c));
    }
  });
  team.ForTiles(0, p_, kCopyTile, [&](std::int64_t j, std::int64_t cols, Workspace&) {
    if (!LoadScaled(B.columns(j, cols), false, B_.columns(j, cols), f_ + j)) finite = false;
  });
  return finite;
}

template <class T>
void LeastSquares<T>::Solve(const Team& team) {
  qr_.Factor(team);
  if (m_ >= n_) {
    SolveTall(team);
  } else {
    SolveWide(team);
  }
}

template <class T>
MatrixView<const T> LeastSquares<T>::Triangle() const {
  return Const(qr_.A().block(0, 0, k(), k()));
}

template <class T>
void LeastSquares<T>::SolveTall(const Team& team) {
  Workspace& workspace = team.workspace();
  const Workspace::Scope scope(workspace);
  qr_.Apply(Trans::kAdjoint, B_, team);
  qr_.Restore();
  const MatrixView<const T> R = Triangle();
  rank_ = n_;
  if (!IsFullRank(R, rcond_, workspace)) {
    const RankedSvd<W> svd = DecomposeTriangle(R, rcond_, workspace);
    rank_ = svd.rank;
    if (rank_ < n_) return SolveTallDeficient(svd, team);
  }
  for (std::int64_t c = 0; c < p_; ++c) {
    residual_norm_[c] = Scale(lapack::nrm2(m_ - n_, B_.col(c) + n_), f_[c]);
    std::copy(B_.col(c), B_.col(c) + n_, X_.col(c));
  }
  if (n_ > 0 && p_ > 0) lapack::trsm(Trans::kNone, n_, p_, R.data, R.ld, X_.data, X_.ld);
  for (std::int64_t c = 0; c < p_; ++c) {
    for (std::int64_t i = 0; i < n_; ++i) X_(i, c) = Scale(X_(i, c), f_[c] - e_[i]);
  }
}

template <class T>
void LeastSquares<T>::SolveTallDeficient(const RankedSvd<W>& svd, const Team& team) {
  Workspace& workspace = team.workspace();
  const MatrixView<W> C = Widen<W>(B_.block(0, 0, n_, p_), workspace);
  const MatrixView<W> d = Project(Const(svd.U), svd.s, rank_, Const(C), workspace);
  const MatrixView<W> V = ConjugateTranspose(svd.Vt, workspace);
  FinishMinimumNorm(Const(V.columns(0, rank_)), Const(V.columns(rank_, n_ - rank_)), Const(d),
                    Triangle(),
                    /*upper=*/true, workspace);
}

template <class T>
void LeastSquares<T>::SolveWide(const Team& team) {
  Workspace& workspace = team.workspace();
  const Workspace::Scope scope(workspace);
  rank_ = m_;
  const MatrixView<T> R = workspace.TakeMatrix<T>(m_, m_);
  qr_.CopyTriangle(R);
  if (!IsFullRank(Const(R), rcond_, workspace)) {
    const RankedSvd<W> svd = DecomposeTriangle(Const(R), rcond_, workspace);
    rank_ = svd.rank;
    if (rank_ < m_) return SolveWideDeficient(svd, team);
  }
  SolveWideFullRank(R, team);
}

template <class T>
void LeastSquares<T>::SolveWideFullRank(MatrixView<T> R, const Team& team) {
  Workspace& workspace = team.workspace();
  const MatrixView<T> d = workspace.TakeMatrix<T>(m_, p_);
  for (std::int64_t c = 0; c < p_; ++c) std::copy(B_.col(c), B_.col(c) + m_, d.col(c));
  if (m_ > 0 && p_ > 0) lapack::trsm(Trans::kAdjoint, m_, p_, R.data, R.ld, d.data, d.ld);
  const bool uniform = std::all_of(e_, e_ + n_, [this](std::int32_t e) { return e == e_[0]; });
  if (!uniform) {
    const MatrixView<W> Q = FormQ(UsesRangeForm(n_, m_) ? m_ : n_, team);
    return FinishMinimumNorm(Const(Q.columns(0, m_)), Const(Q.columns(m_, Q.n - m_)),
                             Const(Widen<W>(d, workspace)), Const(A_hat_), /*upper=*/false,
                             workspace);
  }
  // x_hat = Q d is the shortest in the caller's units too.
  for (std::int64_t c = 0; c < p_; ++c) {
    std::copy(d.col(c), d.col(c) + m_, X_.col(c));
    std::fill(X_.col(c) + m_, X_.col(c) + n_, T(0));
  }
  qr_.Apply(Trans::kNone, X_, team);
  W* x_hat = workspace.Take<W>(n_);
  for (std::int64_t c = 0; c < p_; ++c) {
    for (std::int64_t i = 0; i < n_; ++i) {
      x_hat[i] = W(X_(i, c));
      X_(i, c) = Scale(X_(i, c), f_[c] - e_[i]);
    }
    PutResidual(c, Const(A_hat_), /*upper=*/false, x_hat, workspace);
  }
}

template <class T>
void LeastSquares<T>::SolveWideDeficient(const RankedSvd<W>& svd, const Team& team) {
  // R^H = V S U^H, so A_hat = V S (Q_1 U)^H: d = S_r^-1 V_r^H B, V_r = Q_1 U_r, V_0 = (Q_1 U_0,
  // Q_2).
  Workspace& workspace = team.workspace();
  const MatrixView<W> V = ConjugateTranspose(svd.Vt, workspace);
  const MatrixView<W> d =
      Project(Const(V), svd.s, rank_, Const(Widen<W>(B_, workspace)), workspace);
  const MatrixView<W> Q = FormQ(UsesRangeForm(n_, rank_) ? m_ : n_, team);
  const MatrixView<W> basis = workspace.TakeMatrix<W>(n_, Q.n);
  lapack::gemm(Trans::kNone, Trans::kNone, n_, m_, m_, W(1), Q.data, Q.ld, svd.U.data, svd.U.ld,
               W(0), basis.data, basis.ld);
  for (std::int64_t j = m_; j < Q.n; ++j) std::copy(Q.col(j), Q.col(j) + n_, basis.col(j));
  FinishMinimumNorm(Const(basis.columns(0, rank_)), Const(basis.columns(rank_, Q.n - rank_)),
                    Const(d), Const(A_hat_),
                    /*upper=*/false, workspace);
}

template <class T>
MatrixView<Wide<T>> LeastSquares<T>::FormQ(std::int64_t cols, const Team& team) {
  Workspace& workspace = team.workspace();
  const MatrixView<T> Q = workspace.TakeMatrix<T>(qr_.m(), cols);
  qr_.Form(Q, team);
  return Widen<W>(Q, workspace);
}

template <class T>
void LeastSquares<T>::FinishMinimumNorm(MatrixView<const W> V_r, MatrixView<const W> V_0,
                                        MatrixView<const W> d, MatrixView<const T> system,
                                        bool upper, Workspace& workspace) {
  const MatrixView<W> x = workspace.TakeMatrix<W>(n_, p_);
  const std::int32_t scale = MinimumNorm(V_r, V_0, d, e_, x, workspace);
  W* x_hat = workspace.Take<W>(n_);
  for (std::int64_t c = 0; c < p_; ++c) {
    for (std::int64_t i = 0; i < n_; ++i) {
      X_(i, c) = Narrow<T>(x(i, c), scale + f_[c]);
      x_hat[i] = Scale(x(i, c), scale + e_[i]);
    }
    PutResidual(c, system, upper, x_hat, workspace);
  }
}

template <class T>
void LeastSquares<T>::PutResidual(std::int64_t c, MatrixView<const T> system, bool upper,
                                  const W* x_hat, Workspace& workspace) {
  const Workspace::Scope scope(workspace);
  W* r = workspace.Take<W>(m_);
  std::transform(B_.col(c), B_.col(c) + m_, r, [](T b) { return W(b); });
  for (std::int64_t j = 0; j < system.n; ++j) {
    const std::int64_t rows = upper ? j + 1 : system.m;
    for (std::int64_t i = 0; i < rows; ++i) r[i] -= W(system(i, j)) * x_hat[j];
  }
  residual_norm_[c] = static_cast<Real<T>>(Scale(lapack::nrm2(m_, r), f_[c]));
}

template <class T>
std::optional<MatrixCode> LeastSquares<T>::Store(Strided<T> X, Real<T>* residual_norm,
                                                 std::int32_t* rank) const {
  bool finite = IsFinite(residual_norm_, p_);
  for (std::int64_t c = 0; c < p_; ++c) finite &= IsFinite(X_.col(c), n_);
  StorePlain(Const(X_), X);
  std::copy(residual_norm_, residual_norm_ + p_, residual_norm);
  *rank = static_cast<std::int32_t>(rank_);
  if (!finite) return MatrixCode::kResultOutOfRange;
  if (rank_ < k()) return MatrixCode::kRankDeficient;
  return std::nullopt;
}

template class LeastSquares<float>;
template class LeastSquares<double>;
template class LeastSquares<std::complex<float>>;
template class LeastSquares<std::complex<double>>;

}  // namespace factord
