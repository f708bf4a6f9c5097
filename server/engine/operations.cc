#include "server/engine/operations.h"

#include <algorithm>
#include <atomic>
#include <complex>
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
  return Strided<T>::Of(job.matrix<T>(operand, i), extent.rows, extent.cols, LayoutOf(job.spec, operand));
}

// Copies what lies below the diagonal of the first k columns, and tau. False: a NaN or an Inf is there.
template <class T>
bool LoadReflectors(const Job& job, std::int64_t i, const Reflectors<T>& reflectors, const Team& team) {
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

// ---------------------------------------------------------------------------------------------------- factorize

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
    if (!LoadScaled(A.columns(j, cols), false, reflectors_.A().columns(j, cols), e_ + j)) finite = false;
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
std::optional<MatrixCode> FactorizeOperation<T>::Unpack(const Job& job, std::int64_t i, const Team& team) {
  std::atomic<bool> finite{true};
  const auto store = [&](Operand operand) {
    const auto dst = At<T>(job, operand, i);
    team.ForTiles(0, dst.n, kCopyTile, [&](std::int64_t j, std::int64_t cols, Workspace&) {
      if (operand == kQ) {
        StoreQ(dst, j, cols);
      } else if (!StoreTriangle(dst, j, cols, operand == kReflectors)) {
        finite = false;
      }
    });
  };
  if (spec_.q != QMode::kNone) store(kQ);
  if (spec_.r) store(kR);
  if (spec_.reflectors) {
    store(kReflectors);
    std::copy(reflectors_.tau(), reflectors_.tau() + reflectors_.k(), job.matrix<T>(kTau, i));
  }
  if (!finite) return MatrixCode::kResultOutOfRange;
  return std::nullopt;
}

template <class T>
bool FactorizeOperation<T>::StoreTriangle(Strided<T> dst, std::int64_t j0, std::int64_t cols,
                                          bool reflectors) const {
  Real<T> scale[kCopyTile];
  for (std::int64_t j = 0; j < cols; ++j) scale[j] = PowerOfTwo<T>(e_[j0 + j]);
  const MatrixView<T> A = reflectors_.A().columns(j0, cols);
  const Strided<T> to = dst.columns(j0, cols);
  bool finite = true;
  ForEntries(dst.m, cols, dst.by_columns(), [&](std::int64_t i, std::int64_t j) {
    if (i > j0 + j) {
      to(i, j) = reflectors ? A(i, j) : T(0);
    } else {
      const T r = A(i, j) * flip_[i] * scale[j];
      finite &= IsFinite(&r, 1);
      to(i, j) = r;
    }
  });
  return finite;
}

template <class T>
void FactorizeOperation<T>::StoreQ(Strided<T> dst, std::int64_t j0, std::int64_t cols) const {
  const Strided<T> to = dst.columns(j0, cols);
  const MatrixView<T> Q = Q_.columns(j0, cols);
  ForEntries(dst.m, cols, dst.by_columns(),
             [&](std::int64_t i, std::int64_t j) { to(i, j) = Q(i, j) * flip_[j0 + j]; });
}

// ---------------------------------------------------------------------------------------------------- form Q

template <class T>
FormQOperation<T>::FormQOperation(const Spec& spec, Workspace& workspace)
    : reflectors_(spec.m, spec.n, workspace), Q_(workspace.TakeMatrix<T>(spec.m, ExtentOf(spec, kQ).cols)) {}

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
std::optional<MatrixCode> FormQOperation<T>::Unpack(const Job& job, std::int64_t i, const Team& team) {
  const auto dst = At<T>(job, kQ, i);
  std::atomic<bool> finite{true};
  team.ForTiles(0, dst.n, kCopyTile, [&](std::int64_t j, std::int64_t cols, Workspace&) {
    const auto to = dst.columns(j, cols);
    const MatrixView<T> Q = Q_.columns(j, cols);
    for (std::int64_t c = 0; c < cols; ++c) {
      if (!IsFinite(Q.col(c), Q.m)) finite = false;
    }
    ForEntries(to.m, cols, to.by_columns(), [&](std::int64_t r, std::int64_t c) { to(r, c) = Q(r, c); });
  });
  if (!finite) return MatrixCode::kResultOutOfRange;
  return std::nullopt;
}

// ---------------------------------------------------------------------------------------------------- apply Q

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
    if (!LoadScaled(src.columns(j, cols), spec_.side == Side::kRight, C_.columns(j, cols), e_ + j)) finite = false;
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
std::optional<MatrixCode> ApplyQOperation<T>::Unpack(const Job& job, std::int64_t i, const Team& team) {
  const auto dst = LeftHandView(job.matrix<T>(kResult, i));
  std::atomic<bool> finite{true};
  team.ForTiles(0, spec_.p, kCopyTile, [&](std::int64_t j, std::int64_t cols, Workspace&) {
    if (!StoreScaled(Const(C_.columns(j, cols)), e_ + j, spec_.side == Side::kRight, dst.columns(j, cols))) finite = false;
  });
  if (!finite) return MatrixCode::kResultOutOfRange;
  return std::nullopt;
}

// ---------------------------------------------------------------------------------------------------- solve

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

#define FACTORD_INSTANTIATE(T)           \
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
