// A Spec in the kernels' words, those of the GPU and those of the CPU, and what their statuses say
// in ours.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/problem.h"
#include "server/core/job.h"
#include "server/core/spec.h"

namespace factord {

// m, n and p are the spec's. REQUIRES: dimensions that an int holds.
kernels::Problem ProblemOf(const Spec& spec);

// A run of matrices that starts at `first` in its batch; at(operand), a T*, is where the first
// one's lies, null where the spec has no such operand. REQUIRES: as above.
template <class T, class At>
kernels::Run<T> RunOf(const Spec& spec, std::int64_t first, At at) {
  const bool factored = spec.op == Op::kFormQ || spec.op == Op::kApplyQ;
  return {.first = first,
          .m = static_cast<int>(spec.m),
          .n = static_cast<int>(spec.n),
          .p = static_cast<int>(spec.p),
          .a = at(factored ? Operand::kReflectors : Operand::kA),
          .tau_in = factored ? at(Operand::kTau) : nullptr,
          .rhs = at(Operand::kRhs),
          .q = at(Operand::kQ),
          .r = at(Operand::kR),
          .reflectors = factored ? nullptr : at(Operand::kReflectors),
          .tau = factored ? nullptr : at(Operand::kTau),
          .result = at(Operand::kResult),
          .residual_norm = reinterpret_cast<kernels::Real<T>*>(at(Operand::kResidualNorm)),
          .rcond = spec.rcond};
}

// Of a kernels::MatrixStatus. Nothing: the matrix is fine, or its rank is unproven.
std::optional<MatrixCode> CodeOf(std::uint32_t status);
// The matrix is to be solved elsewhere: nothing was computed that may be used.
bool IsUnproven(std::uint32_t status);
// Of matrix i of a kSolve that is not unproven; the kernels themselves know no such output.
void WriteRank(const Job& job, std::int64_t i, std::uint32_t status);

}  // namespace factord
