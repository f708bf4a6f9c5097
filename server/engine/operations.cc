#include "server/engine/operations.h"

#include <algorithm>
#include <atomic>
#include <complex>
#include <functional>
#include <limits>

namespace factord {
namespace {

using enum Operand;

// Columns read or written at a time by one thread.
constexpr std::int64_t kCopyTile = 64;

template <class T>
MatrixView<const T> Const(MatrixView<T> A) {
  return {A.data, A.m, A.n, A.ld};
}

template <class T>
Strided<T> At(const Job& job, Operand operand, std::int64_t i) {
  const Extent extent = ExtentOf(job.spec, operand);
  return Strided<T>::Of(job.matrix<T>(operand, i), extent.rows, extent.cols,
                        LayoutOf(job.spec, operand));
}

// Copies what lies below the diagonal of the first k columns, and tau. False: a NaN or an Inf is
// there.
template <class T>
bool LoadReflectors(const Job& job, std::int64_t i, const Reflectors<T>& reflectors,
                    const Team& team) {
  const auto src = At<const T>(job, kReflectors, i);
  const MatrixView<T>& A = reflectors.A();
  const T* tau = job.matrix<const T>(kTau, i);
  std::copy(tau, tau + reflectors.k(), reflectors.tau());
  std::atomic<bool> finite{IsFinite(tau, reflectors.k())};
  team.ForTiles(0, reflectors.k(), kCopyTile, [&](std::int64_t j, std::int64_t cols, Workspace&) {
    LoadPlain(src.columns(j, cols), A.columns(j, cols));
    for (std::int64_t c = j; c < j + cols; ++c) {
      if (!IsFinite(A.col(c) + c + 1, A.m - c - 1)) finite = false;
    }
  });
  return finite;
}

}  // namespace

void WriteNonfinite(const Job& job, std::int64_t i) {
  for (Operand operand : OutputsOf(job.spec)) {
    if (operand == kRank) {
      *job.matrix<std::int32_t>(kRank, i) = -1;
      continue;
    }
    const DType dtype = TypeOf(job.spec, operand);
    const std::int64_t parts = ExtentOf(job.spec, operand).elements() * (IsComplex(dtype) ? 2 : 1);
    if (RealOf(dtype) == DType::kF32) {
      std::fill_n(reinterpret_cast<float*>(job.matrix<std::byte>(operand, i)), parts,
                  std::numeric_limits<float>::quiet_NaN());
    } else {
      std::fill_n(reinterpret_cast<double*>(job.matrix<std::byte>(operand, i)), parts,
                  std::numeric_limits<double>::quiet_NaN());
    }
  }
}

// ----------------------------------------------------------------------------------------------------
// factorize

template <class T>
FactorizeOperation<T>::FactorizeOperation(const Spec& spec, Workspace& workspace)
    : spec_(spec),
      reflectors_(spec.m, spec.n, workspace),
      e_(workspace.Take<std::int32_t>(spec.n)),
      flip_(workspace.Take<Real<T>>(spec.m)) {
  if (spec.q != QMode::kNone) Q_ = workspace.TakeMatrix<T>(spec.m, ExtentOf(spec, kQ).cols);
}

template <class T>
bool FactorizeOperation<T>::Pack(const Job& job, std::int64_t i, const Team& team) {
  const auto A = At<const T>(job, kA, i);
  std::atomic<bool> finite{true};
  team.ForTiles(0, A.n, kCopyTile, [&](std::int64_t j, std::int64_t cols, Workspace&) {
    if (!LoadScaled(A.columns(j, cols), false, reflectors_.A().columns(j, cols), e_ + j))
      finite = false;
  });
  return finite;
}

template <class T>
void FactorizeOperation<T>::Compute(const Team& team) {
  reflectors_.Factor(team);
  if (spec_.q != QMode::kNone) reflectors_.Form(Q_, team);
  reflectors_.Restore();
  ChooseSigns();
}

template <class T>
void FactorizeOperation<T>::ChooseSigns() {
  std::fill(flip_, flip_ + spec_.m, Real<T>(1));
  if (spec_.sign == Sign::kLapack) return;
  bool negative_determinant = false;
  for (std::int64_t i = 0; i < reflectors_.k(); ++i) {
    T& r = reflectors_.A()(i, i);
    if (r == T(0)) r = T(0);  // -0 becomes +0
    const bool flips = std::real(r) < 0;
    if (flips) flip_[i] = -1;
    // Each H_i but the identity is a reflection, of determinant -1.
    negative_determinant ^= flips ^ (reflectors_.tau()[i] != T(0));
  }
  if (spec_.sign == Sign::kSpecialOrthogonal && negative_determinant) flip_[spec_.m - 1] *= -1;
}

template <class T>
bool FactorizeOperation<T>::FinishR(std::int64_t j0, std::int64_t cols) {
  const MatrixView<T>& A = reflectors_.A();
  bool finite = true;
  for (std::int64_t j = j0; j < j0 + cols; ++j) {
    const std::int64_t rows = std::min(j + 1, reflectors_.k());
    finite &= ScaleColumn(A.col(j), rows, e_[j]);
    if (spec_.sign == Sign::kLapack) continue;
    for (std::int64_t i = 0; i < rows; ++i) A(i, j) *= flip_[i];
  }
  return finite;
}

template <class T>
std::optional<MatrixCode> FactorizeOperation<T>::Unpack(const Job& job, std::int64_t i,
                                                        const Team& team) {
  const MatrixView<T>& A = reflectors_.A();
  std::atomic<bool> finite{true};
  if (spec_.r || spec_.reflectors) {
    team.ForTiles(0, A.n, kCopyTile, [&](std::int64_t j, std::int64_t cols, Workspace&) {
      if (!FinishR(j, cols)) finite = false;
      if (spec_.reflectors)
        StorePlain(Const(A.columns(j, cols)), At<T>(job, kReflectors, i).columns(j, cols));
      if (!spec_.r) return;
      const auto R = At<T>(job, kR, i).columns(j, cols);
      ForEntries(R.m, cols, R.by_columns(),
                 [&](std::int64_t r, std::int64_t c) { R(r, c) = r > j + c ? T(0) : A(r, j + c); });
    });
  }
  if (spec_.reflectors) {
    std::copy(reflectors_.tau(), reflectors_.tau() + reflectors_.k(), job.matrix<T>(kTau, i));
  }
  if (spec_.q != QMode::kNone) {
    team.ForTiles(0, Q_.n, kCopyTile, [&](std::int64_t j, std::int64_t cols, Workspace&) {
      for (std::int64_t c = j; c < j + cols; ++c) {
        if (flip_[c] < 0) std::transform(Q_.col(c), Q_.col(c) + Q_.m, Q_.col(c), std::negate<T>());
      }
      StorePlain(Const(Q_.columns(j, cols)), At<T>(job, kQ, i).columns(j, cols));
    });
  }
  if (!finite) return MatrixCode::kResultOutOfRange;
  return std::nullopt;
}

// ----------------------------------------------------------------------------------------------------
// form Q

template <class T>
FormQOperation<T>::FormQOperation(const Spec& spec, Workspace& workspace)
    : reflectors_(spec.m, spec.n, workspace),
      Q_(workspace.TakeMatrix<T>(spec.m, ExtentOf(spec, kQ).cols)) {}

template <class T>
bool FormQOperation<T>::Pack(const Job& job, std::int64_t i, const Team& team) {
  return LoadReflectors(job, i, reflectors_, team);
}

template <class T>
void FormQOperation<T>::Compute(const Team& team) {
  reflectors_.Prepare(team);
  reflectors_.Form(Q_, team);
}

template <class T>
std::optional<MatrixCode> FormQOperation<T>::Unpack(const Job& job, std::int64_t i,
                                                    const Team& team) {
  const auto dst = At<T>(job, kQ, i);
  std::atomic<bool> finite{true};
  team.ForTiles(0, dst.n, kCopyTile, [&](std::int64_t j, std::int64_t cols, Workspace&) {
    const auto to = dst.columns(j, cols);
    const MatrixView<T> Q = Q_.columns(j, cols);
    for (std::int64_t c = 0; c < cols; ++c) {
      if (!IsFinite(Q.col(c), Q.m)) finite = false;
    }
    StorePlain(Const(Q), to);
  });
  if (!finite) return MatrixCode::kResultOutOfRange;
  return std::nullopt;
}

// ----------------------------------------------------------------------------------------------------
// apply Q

template <class T>
ApplyQOperation<T>::ApplyQOperation(const Spec& spec, Workspace& workspace)
    : spec_(spec),
      reflectors_(spec.m, spec.n, workspace),
      C_(workspace.TakeMatrix<T>(spec.m, spec.p)),
      e_(workspace.Take<std::int32_t>(spec.p)) {}

template <class T>
template <class U>
Strided<U> ApplyQOperation<T>::LeftHandView(U* c) const {
  if (spec_.side == Side::kLeft) return Strided<U>::Of(c, spec_.m, spec_.p, spec_.rhs_layout);
  return Strided<U>::Of(c, spec_.p, spec_.m, spec_.rhs_layout).transposed();
}

template <class T>
bool ApplyQOperation<T>::Pack(const Job& job, std::int64_t i, const Team& team) {
  if (!LoadReflectors(job, i, reflectors_, team)) return false;
  const auto src = LeftHandView(job.matrix<const T>(kRhs, i));
  std::atomic<bool> finite{true};
  team.ForTiles(0, spec_.p, kCopyTile, [&](std::int64_t j, std::int64_t cols, Workspace&) {
    if (!LoadScaled(src.columns(j, cols), spec_.side == Side::kRight, C_.columns(j, cols), e_ + j))
      finite = false;
  });
  return finite;
}

template <class T>
void ApplyQOperation<T>::Compute(const Team& team) {
  reflectors_.Prepare(team);
  const bool adjoint = (spec_.q_op == QOp::kAdjoint) != (spec_.side == Side::kRight);
  reflectors_.Apply(adjoint ? lapack::Trans::kAdjoint : lapack::Trans::kNone, C_, team);
}

template <class T>
std::optional<MatrixCode> ApplyQOperation<T>::Unpack(const Job& job, std::int64_t i,
                                                     const Team& team) {
  const auto dst = LeftHandView(job.matrix<T>(kResult, i));
  std::atomic<bool> finite{true};
  team.ForTiles(0, spec_.p, kCopyTile, [&](std::int64_t j, std::int64_t cols, Workspace&) {
    const MatrixView<T> C = C_.columns(j, cols);
    for (std::int64_t c = 0; c < cols; ++c) {
      if (!ScaleColumn(C.col(c), C.m, e_[j + c])) finite = false;
      if (spec_.side == Side::kRight) std::transform(C.col(c), C.col(c) + C.m, C.col(c), Conj<T>);
    }
    StorePlain(Const(C), dst.columns(j, cols));
  });
  if (!finite) return MatrixCode::kResultOutOfRange;
  return std::nullopt;
}

// ----------------------------------------------------------------------------------------------------
// solve

template <class T>
SolveOperation<T>::SolveOperation(const Spec& spec, Workspace& workspace)
    : problem_(spec.m, spec.n, spec.p, spec.rcond, workspace) {}

template <class T>
bool SolveOperation<T>::Pack(const Job& job, std::int64_t i, const Team& team) {
  return problem_.Load(At<const T>(job, kA, i), At<const T>(job, kRhs, i), team);
}

template <class T>
void SolveOperation<T>::Compute(const Team& team) {
  problem_.Solve(team);
}

template <class T>
std::optional<MatrixCode> SolveOperation<T>::Unpack(const Job& job, std::int64_t i, const Team&) {
  return problem_.Store(At<T>(job, kResult, i), job.matrix<Real<T>>(kResidualNorm, i),
                        job.matrix<std::int32_t>(kRank, i));
}

#define FACTORD_INSTANTIATE(T)          \
  template class FactorizeOperation<T>; \
  template class FormQOperation<T>;     \
  template class ApplyQOperation<T>;    \
  template class SolveOperation<T>;
FACTORD_INSTANTIATE(float)
FACTORD_INSTANTIATE(double)
FACTORD_INSTANTIATE(std::complex<float>)
FACTORD_INSTANTIATE(std::complex<double>)
#undef FACTORD_INSTANTIATE

}  // namespace factord
