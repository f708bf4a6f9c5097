// RunTiny: which kernel takes the problem.
#pragma once

#include "kernels/tiny/group.h"
#include "kernels/tiny/thread.h"
#include "kernels/tiny/tiny.h"

namespace factord::kernels {

// A group needs a lane for each column of A, or for each reflector where those are given.
template <class T>
cudaError_t RunTiny(const Problem& problem, const Batch<T>& batch, cudaStream_t stream) {
  using namespace tiny;
  const int m = problem.m, n = problem.n;
  if (problem.op == Op::kFactorize && m <= 3 && n <= 3)
    return RunByThread<T, 3>(problem, batch, stream);
  if (problem.op == Op::kFactorize && m <= 4 && n <= 4)
    return RunByThread<T, 4>(problem, batch, stream);
  const int lanes = problem.op == Op::kFactorize ? n : problem.k();
  if (lanes <= 8) {
    if (m <= 8) return RunByGroups<T, 8, 8>(problem, batch, stream);
    if (m <= 16) return RunByGroups<T, 16, 8>(problem, batch, stream);
    return RunByGroups<T, 32, 8>(problem, batch, stream);
  }
  if (lanes <= 16) {
    if (m <= 16) return RunByGroups<T, 16, 16>(problem, batch, stream);
    return RunByGroups<T, 32, 16>(problem, batch, stream);
  }
  return RunByGroups<T, 32, 32>(problem, batch, stream);
}

}  // namespace factord::kernels
