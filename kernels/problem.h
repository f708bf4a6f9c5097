// What the kernels are asked to do: a problem, stated once for a batch, and runs of matrices in the
// memory of whoever computes: the device's, or for kernels/cpu the host's.
#pragma once

#include <complex>
#include <cstdint>
#include <type_traits>

#include "kernels/simt/qualifiers.h"

namespace factord::kernels {

enum class Dtype : std::uint8_t { kF32, kF64 };
enum class Op : std::uint8_t { kFactorize, kFormQ, kApplyQ, kSolve };
enum class QMode : std::uint8_t { kNone, kReduced, kComplete };
enum class Sign : std::uint8_t { kLapack, kNonnegative, kSpecialOrthogonal };

template <class T>
struct RealType {
  using type = T;
};
template <class R>
struct RealType<std::complex<R>> {
  using type = R;
};
template <class T>
using Real = typename RealType<T>::type;
template <class T>
inline constexpr bool kIsComplex = !std::is_same_v<T, Real<T>>;

template <class T>
inline constexpr Dtype kDtypeOf = sizeof(T) == 4 ? Dtype::kF32 : Dtype::kF64;

// For every matrix of a batch. m, n and p are the shape class: no matrix is larger, and everything
// that decides a result's bits (path, panel widths) follows from them and not from the batch.
//   kFactorize  A (m x n) = Q R; any of: R (k x n), Q (m x k or m x m), packed reflectors and tau;
//   k = min(m, n) kFormQ      Q from packed reflectors (m x n) and tau (k) kApplyQ     op(Q) C, C m
//   x p; right: C op(Q), C p x m kSolve      X (n x p) minimizing ||b_j - A x_j||, B m x p; m >= n
//   only
struct Problem {
  Op op = Op::kFactorize;
  int m = 0, n = 0, p = 0;
  QMode q = QMode::kNone;
  bool r = false;
  bool reflectors = false;
  Sign sign = Sign::kLapack;
  bool right = false;
  bool adjoint = false;
  bool column_major = false;      // A, reflectors, Q, R
  bool rhs_column_major = false;  // C or B, and the result

  FACTORD_HOST_DEVICE constexpr int k() const { return m < n ? m : n; }
};

// Consecutive matrices of one shape, each operand dense and one matrix after the other. Pointers of
// operands that the problem does not have are null; what an empty operand points to is never
// touched. Alignment: T's.
template <class T>
struct Run {
  std::int64_t first =
      0;  // the batch index of its first matrix: runs are in ascending order and leave no gap
  int m = 0, n = 0, p = 0;
  const T* a = nullptr;       // kFactorize, kSolve: A; kFormQ, kApplyQ: the packed reflectors
  const T* tau_in = nullptr;  // kFormQ, kApplyQ
  const T* rhs = nullptr;     // kApplyQ: C; kSolve: B
  T* q = nullptr;
  T* r = nullptr;
  T* reflectors = nullptr;
  T* tau = nullptr;
  T* result = nullptr;               // kApplyQ: like C; kSolve: X (n x p)
  Real<T>* residual_norm = nullptr;  // kSolve: p, ||b_j - A x_j||
  double rcond = -1;                 // kSolve; < 0: 2 max(m, n) eps

  FACTORD_HOST_DEVICE constexpr int k() const { return m < n ? m : n; }
};

// Of one matrix; bits.
enum MatrixStatus : std::uint32_t {
  kNonfiniteInput = 1,    // its outputs are NaN
  kResultOutOfRange = 2,  // an output entry overflowed
  kRankUnproven = 4,  // kSolve: full rank could not be proven: X is not valid, solve it elsewhere
};

template <class T>
struct Batch {
  const Run<T>* runs = nullptr;  // device memory
  int run_count = 0;
  std::int64_t count = 0;           // matrices
  int m = 0, n = 0, p = 0;          // the largest of the runs: at most the problem's
  std::uint32_t* status = nullptr;  // device memory, one per matrix; written, not read
};

// The run that holds matrix `i`.
template <class T>
FACTORD_HOST_DEVICE inline const Run<T>& RunOf(const Batch<T>& batch, std::int64_t i) {
  int low = 0, high = batch.run_count;  // runs[low].first <= i < runs[high].first
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (batch.runs[middle].first <= i ? low : high) = middle;
  }
  return batch.runs[low];
}

// Element (i, j) of a dense rows x cols matrix lies at i * row_stride + j * col_stride.
struct Strides {
  std::int64_t row, col;
};
FACTORD_HOST_DEVICE inline Strides StridesOf(int rows, int cols, bool column_major) {
  return column_major ? Strides{1, rows} : Strides{cols, 1};
}

}  // namespace factord::kernels
