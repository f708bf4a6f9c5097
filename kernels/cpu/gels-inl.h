// The end of a least-squares problem (LAPACK's gels, m >= n): from R and Q^H B, held by rows and
// both scaled by their columns' powers of two, to X, with a proof of full rank.
#if defined(FACTORD_KERNELS_CPU_GELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FACTORD_KERNELS_CPU_GELS_INL_H_
#undef FACTORD_KERNELS_CPU_GELS_INL_H_
#else
#define FACTORD_KERNELS_CPU_GELS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cpu/operands.h"
#include "kernels/cpu/rows_io-inl.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace factord::kernels::cpu::HWY_NAMESPACE {

// Sums of squares over rows are taken in runs of this many.
inline constexpr int kSquaresRun = 64;

template <class T>
class Gels {
 public:
  Gels(const Run<T>& run, Scratch& scratch)
      : n_(run.n),
        p_(run.p),
        rcond_(run.rcond >= 0 ? run.rcond : 2.0 * run.m * kEps),
        inverse_(Rows<T>::Take(scratch, run.n, run.n)),
        pivots_(scratch.Take<R>(run.n)) {}

  // r: R above its diagonal, whatever below it; x: the first n rows of Q^H B, which become the
  // scaled X. False: full rank could not be proven.
  bool Solve(Rows<T> r, Rows<T> x) {
    for (int i = 0; i < n_; ++i) pivots_[i] = R(1) / *r.at(i, i);
    if (!IsFullRank(r)) return false;
    SolveUpper(r, x, /*upper=*/false);
    return true;
  }

  // X and ||b_j - A x_j||, whose squares were summed up from the other rows of Q^H B. A's and B's
  // columns were multiplied by the powers of two. False: a value is out of range.
  bool Store(Rows<T> solution, const Real<T>* squares, const Real<T>* a_power,
             const Real<T>* b_power, const Dense<T>& x, const Dense<Real<T>>& residual_norm) const {
    bool finite = true;
    for (int j = 0; j < p_; ++j) {
      const int up = -ExponentOf(b_power[j]);
      for (int i = 0; i < n_; ++i) {
        const int e = ExponentOf(a_power[i]) + up;
        T& entry = x.data[x.IndexOf(i, j)];
        auto* const parts = reinterpret_cast<R*>(&entry);
        for (int part = 0; part < Rows<T>::kParts; ++part) {
          parts[part] = TimesPowerOfTwo(*(solution.at(i, j) + part * solution.plane), e);
          finite &= std::isfinite(parts[part]);
        }
      }
    }
    for (int j = 0; j < p_; ++j) {
      R& norm = residual_norm.data[j];
      norm = TimesPowerOfTwo(std::sqrt(squares[j]), -ExponentOf(b_power[j]));
      finite &= std::isfinite(norm);
    }
    return finite;
  }

 private:
  using R = Real<T>;
  using D = Full<R>;
  using A = Numbers<T, D>;
  using N = typename A::N;
  using V = typename A::V;
  static constexpr int kL = kLanes<R>;
  static constexpr double kEps = sizeof(R) == 4 ? 0x1p-24 : 0x1p-53;
  // Below 1, to cover rounding errors: a computed inverse at rcond's edge has half its digits.
  static constexpr double kMargin = 0.25;

  // Full rank: the smallest singular value exceeds rcond times the largest, shown by
  //   sigma_1 <= ||R||_F  and  1 / sigma_n = ||R^-1||_2 <= ||R^-1||_F.
  // Written so that a NaN, from a zero on the diagonal, proves nothing.
  bool IsFullRank(Rows<T> r) {
    for (int i = 0; i < n_; ++i) {
      std::fill_n(inverse_.at(i, 0), std::int64_t{inverse_.cols} * Rows<T>::kParts, R(0));
      *inverse_.at(i, i) = R(1);
    }
    SolveUpper(r, inverse_, /*upper=*/true);
    const double norm = std::sqrt(UpperSquares(r)),
                 inverse_norm = std::sqrt(UpperSquares(inverse_));
    return n_ == 0 || rcond_ * norm * inverse_norm < kMargin;
  }

  double UpperSquares(Rows<T> a) const {
    double sum = 0;
    for (int j = 0; j < n_; j += kL) {
      N squares = A::Zero();
      for (int i = 0; i < std::min(n_, j + kL); ++i) {
        N x = A::Load(a.at(i, j), a.plane);
        if (i > j) x = A::Select(RowsIo<T>::FromColumn(i - j), x, A::Zero());
        squares = A::ConjMultiplyAdd(x, x, squares);
      }
      HWY_ALIGN R lanes[kL];
      hn::Store(squares.re, D(), lanes);
      for (int l = 0; l < kL; ++l) sum += static_cast<double>(lanes[l]);
    }
    return sum;
  }

  // x := R^-1 x, column by column of R. `upper`: x is upper triangular before and after.
  void SolveUpper(Rows<T> r, Rows<T> x, bool upper) const {
    for (int i = n_ - 1; i >= 0; --i) {
      const V pivot = hn::Set(D(), pivots_[i]);
      for (int c = upper ? i / kL * kL : 0; c < x.cols; c += kL) {
        const N xi = A::Times(A::Load(x.at(i, c), x.plane), pivot);
        A::Store(xi, x.at(i, c), x.plane);
        for (int k = 0; k < i; ++k) {
          const N rki = A::Set(r.at(k, i), r.plane);
          A::Store(A::NegMultiplyAdd(rki, xi, A::Load(x.at(k, c), x.plane)), x.at(k, c), x.plane);
        }
      }
    }
  }

  static int ExponentOf(R power) { return ExponentField(power) - kBias<R>; }
  // Rounded once.
  static float TimesPowerOfTwo(float x, int e) {
    return static_cast<float>(static_cast<double>(x) *
                              kernels::PowerOfTwo<double>(e + kBias<double>));
  }
  static double TimesPowerOfTwo(double x, int e) { return std::ldexp(x, e); }

  const int n_, p_;
  const double rcond_;
  const Rows<T> inverse_;
  R* const pivots_;  // n: 1 / R's diagonal
};

}  // namespace factord::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FACTORD_KERNELS_CPU_GELS_INL_H_
