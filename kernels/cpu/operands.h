// Where the operands of one matrix of a run lie.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/problem.h"

namespace factord::kernels::cpu {

// A matrix in the order of its owner: lines of neighbours, columns or rows, ld elements apart.
template <class T>
struct Dense {
  T* data = nullptr;
  int rows = 0, cols = 0;
  bool column_major = false;
  std::int64_t ld = 0;
  bool conjugate = false;  // it stands for its complex conjugate

  // Its lines without gaps; matrix i of a run begins i * rows * cols elements further.
  static Dense Of(T* data, int rows, int cols, bool column_major) {
    return {data, rows, cols, column_major, column_major ? rows : cols};
  }
  std::int64_t size() const { return std::int64_t{rows} * cols; }
  std::int64_t IndexOf(std::int64_t i, std::int64_t j) const {
    return column_major ? i + j * ld : i * ld + j;
  }
  Dense at(std::int64_t matrix) const {
    return {data + matrix * size(), rows, cols, column_major, ld, conjugate};
  }
  Dense columns(int first, int count) const {
    return {data + IndexOf(0, first), rows, count, column_major, ld, conjugate};
  }
  Dense transposed() const { return {data, cols, rows, !column_major, ld, conjugate}; }
  Dense adjoint() const { return {data, cols, rows, !column_major, ld, !conjugate}; }
};

template <class T>
void FillNan(const Dense<T>& dst) {
  using R = Real<T>;
  auto* const parts = reinterpret_cast<R*>(dst.data);
  std::fill_n(parts, dst.size() * static_cast<std::int64_t>(sizeof(T) / sizeof(R)),
              std::numeric_limits<R>::quiet_NaN());
}

inline std::uint32_t StatusOf(bool finite_input, bool proven_rank, bool fits) {
  if (!finite_input) return kNonfiniteInput;
  if (!proven_rank) return kRankUnproven;
  return fits ? 0 : std::uint32_t{kResultOutOfRange};
}

// All of them, of the run's first matrix; data is null where the problem has no such operand.
template <class T>
struct Operands {
  Dense<const T> a;    // kFactorize, kSolve: A; kFormQ, kApplyQ: the packed reflectors
  Dense<const T> tau;  // k x 1, kFormQ, kApplyQ
  Dense<const T> rhs;  // m x p; a right-hand C is seen as its adjoint
  Dense<T> q, r, reflectors, tau_out, result;
  Dense<Real<T>> residual_norm;

  Operands(const Problem& problem, const Run<T>& run)
      : a(Dense<const T>::Of(run.a, run.m, run.n, problem.column_major)),
        tau(Dense<const T>::Of(run.tau_in, run.k(), 1, true)),
        q(Dense<T>::Of(run.q, run.m, QColumns(problem, run), problem.column_major)),
        r(Dense<T>::Of(run.r, run.k(), run.n, problem.column_major)),
        reflectors(Dense<T>::Of(run.reflectors, run.m, run.n, problem.column_major)),
        tau_out(Dense<T>::Of(run.tau, run.k(), 1, true)),
        residual_norm(Dense<Real<T>>::Of(run.residual_norm, run.p, 1, true)) {
    const bool order = problem.rhs_column_major;
    if (problem.op == Op::kApplyQ && problem.right) {
      rhs = Dense<const T>::Of(run.rhs, run.p, run.m, order).adjoint();
      result = Dense<T>::Of(run.result, run.p, run.m, order).adjoint();
    } else {
      rhs = Dense<const T>::Of(run.rhs, run.m, run.p, order);
      result = Dense<T>::Of(run.result, problem.op == Op::kSolve ? run.n : run.m, run.p, order);
    }
  }

  static int QColumns(const Problem& problem, const Run<T>& run) {
    const bool complete = problem.q == QMode::kComplete;
    return problem.q == QMode::kNone ? 0 : complete ? run.m : run.k();
  }
};

}  // namespace factord::kernels::cpu
