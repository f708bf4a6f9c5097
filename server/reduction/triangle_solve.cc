#include "server/reduction/triangle_solve.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>

#include "server/core/slab.h"

namespace factord {
namespace {

template <class T>
using Real = decltype(std::abs(T{}));

// A 2-norm, whatever the numbers' size. Every number is first measured, then added.
class ScaledNorm {
 public:
  template <class T>
  void Measure(const T& x) {
    EachPart(x, [this](double part) { scale_ = std::max(scale_, std::abs(part)); });
  }
  template <class T>
  void Add(const T& x) {
    EachPart(x, [this](double part) {
      const double scaled = scale_ > 0 ? part / scale_ : part;
      sum_ += scaled * scaled;
    });
  }
  double norm() const {
    if (std::isinf(scale_)) return scale_;
    return (scale_ > 0 ? scale_ : 1) * std::sqrt(sum_);
  }

 private:
  template <class R, class Visit>
  static void EachPart(const std::complex<R>& x, Visit visit) {
    visit(x.real());
    visit(x.imag());
  }
  template <class R, class Visit>
  static void EachPart(const R& x, Visit visit) {
    visit(x);
  }

  double scale_ = 0;
  double sum_ = 0;
};

template <class T>
double NormOf(const T* x, std::int64_t count, std::int64_t stride, double other = 0) {
  ScaledNorm norm;
  norm.Measure(other);
  for (std::int64_t i = 0; i < count; ++i) norm.Measure(x[i * stride]);
  norm.Add(other);
  for (std::int64_t i = 0; i < count; ++i) norm.Add(x[i * stride]);
  return norm.norm();
}

double EpsOf(DType dtype) { return RealOf(dtype) == DType::kF32 ? 0x1p-24 : 0x1p-53; }

double DefaultRcond(const ReductionOptions& options, std::int64_t rows) {
  const std::int64_t m = std::min(rows, options.rows_of_block());
  return 2 * static_cast<double>(std::max(m, options.n)) * EpsOf(options.dtype);
}

template <class T>
void CopyBlock(const T* from, std::int64_t from_ld, std::int64_t rows, std::int64_t cols, T* to,
               std::int64_t to_ld) {
  for (std::int64_t i = 0; i < rows; ++i) {
    std::copy(from + i * from_ld, from + i * from_ld + cols, to + i * to_ld);
  }
}

}  // namespace

TriangleSolve::TriangleSolve(const ReductionOptions& options, std::int64_t rows)
    : options_(options), rows_(rows) {
  spec_.op = Op::kSolve;
  spec_.dtype = options.dtype;
  spec_.m = std::min(rows, options.n);
  spec_.n = options.n;
  spec_.p = options.nrhs + (options.standard_errors && rows > options.n ? options.n : 0);
  spec_.rcond = options.rcond >= 0 ? options.rcond : DefaultRcond(options, rows);
  spec_.fast = options.fast;
}

std::int64_t TriangleSolve::scratch_bytes() const {
  std::int64_t bytes = 0;
  for (Operand operand : InputsOf(spec_)) bytes += AlignedBytes(MatrixBytes(spec_, operand));
  for (Operand operand : OutputsOf(spec_)) bytes += AlignedBytes(MatrixBytes(spec_, operand));
  return bytes;
}

std::int64_t TriangleSolve::MaxScratchBytes(const ReductionOptions& options) {
  return TriangleSolve(options, options.n + 1).scratch_bytes();
}

void TriangleSolve::LoadJob(const std::byte* triangle, std::byte* scratch, Job& job) const {
  job.spec = spec_;
  job.count = 1;
  const auto carve = [&](Operand operand) {
    job.operands[static_cast<std::size_t>(operand)] = scratch;
    scratch += AlignedBytes(MatrixBytes(spec_, operand));
  };
  for (Operand operand : InputsOf(spec_)) carve(operand);
  for (Operand operand : OutputsOf(spec_)) carve(operand);
  Visit(spec_.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto* R = reinterpret_cast<const T*>(triangle);
    T* const A = job.matrix<T>(Operand::kA, 0);
    T* const B = job.matrix<T>(Operand::kRhs, 0);
    CopyBlock(R, options_.columns(), spec_.m, spec_.n, A, spec_.n);
    CopyBlock(R + options_.n, options_.columns(), spec_.m, options_.nrhs, B, spec_.p);
    if (!with_identity()) return;
    for (std::int64_t i = 0; i < spec_.m; ++i) {
      T* const row = B + i * spec_.p + options_.nrhs;
      std::fill(row, row + options_.n, zero);
      row[i] = T(1);
    }
  });
}

bool TriangleSolve::Store(const std::byte* triangle, const Job& job,
                          const SolutionMemory& out) const {
  bool finite = true;
  Visit(spec_.dtype, [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t n = options_.n, nrhs = options_.nrhs, columns = options_.columns();
    const std::int64_t rest = std::max<std::int64_t>(std::min(rows_, columns) - n, 0);
    const auto* S = reinterpret_cast<const T*>(triangle) + n * columns + n;
    const T* const X = job.matrix<T>(Operand::kResult, 0);
    auto* const norms = reinterpret_cast<Real<T>*>(out.residual_norm);
    CopyBlock(X, spec_.p, n, nrhs, reinterpret_cast<T*>(out.x), nrhs);
    for (std::int64_t j = 0; j < nrhs; ++j) {
      const double solved = job.matrix<Real<T>>(Operand::kResidualNorm, 0)[j];
      norms[j] = static_cast<Real<T>>(NormOf(rest > 0 ? S + j : nullptr, rest, columns, solved));
      finite &= std::isfinite(norms[j]);
    }
    if (!options_.standard_errors) return;
    const bool known = with_identity() && *job.matrix<std::int32_t>(Operand::kRank, 0) == n;
    auto* const errors = reinterpret_cast<Real<T>*>(out.standard_errors);
    for (std::int64_t i = 0; i < n; ++i) {
      const double row =
          known ? NormOf(X + i * spec_.p + nrhs, n, 1) : std::numeric_limits<double>::quiet_NaN();
      for (std::int64_t j = 0; j < nrhs; ++j) {
        const double sigma = norms[j] / std::sqrt(static_cast<double>(rows_ - n));
        errors[i * nrhs + j] = static_cast<Real<T>>(sigma * row);
        finite &= !known || std::isfinite(errors[i * nrhs + j]);
      }
    }
  });
  return finite;
}

}  // namespace factord
