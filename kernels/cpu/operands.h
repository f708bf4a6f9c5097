// Where the operands of one matrix of a run lie.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/problem.h"

namespace factord::kernels::cpu {

// A dense matrix in the order of its owner. Matrix i of a run begins i * rows * cols elements
// further.
template <class T>
struct Dense {
  T* data = nullptr;
  int rows = 0, cols = 0;
  bool column_major = false;
  bool conjugate = false;  // it stands for its complex conjugate

  std::int64_t size() const { return std::int64_t{rows} * cols; }
  std::int64_t IndexOf(std::int64_t i, std::int64_t j) const {
    return column_major ? i + j * rows : i * cols + j;
  }
  Dense<T> at(std::int64_t matrix) const {
    return {data + matrix * size(), rows, cols, column_major, conjugate};
  }
  Dense<T> adjoint() const { return {data, cols, rows, !column_major, !conjugate}; }
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
      : a{run.a, run.m, run.n, problem.column_major},
        tau{run.tau_in, run.k(), 1, true},
        q{run.q, run.m, QColumns(problem, run), problem.column_major},
        r{run.r, run.k(), run.n, problem.column_major},
        reflectors{run.reflectors, run.m, run.n, problem.column_major},
        tau_out{run.tau, run.k(), 1, true},
        residual_norm{run.residual_norm, run.p, 1, true} {
    if (problem.op == Op::kApplyQ && problem.right) {
      rhs = Dense<const T>{run.rhs, run.p, run.m, problem.rhs_column_major}.adjoint();
      result = Dense<T>{run.result, run.p, run.m, problem.rhs_column_major}.adjoint();
    } else {
      rhs = {run.rhs, run.m, run.p, problem.rhs_column_major};
      result = {run.result, problem.op == Op::kSolve ? run.n : run.m, run.p,
                problem.rhs_column_major};
    }
  }

  static int QColumns(const Problem& problem, const Run<T>& run) {
    const bool complete = problem.q == QMode::kComplete;
    return problem.q == QMode::kNone ? 0 : complete ? run.m : run.k();
  }
};

}  // namespace factord::kernels::cpu
