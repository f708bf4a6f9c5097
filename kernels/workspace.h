// How RunQr carves its workspace. Private to kernels/.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/plan.h"
#include "kernels/work.h"
#include "kernels/wy/wy.h"

namespace factord::kernels {

// Every array is one for all matrices of the batch, 256-byte aligned.
template <class T>
struct Workspace {
  // kFactorize: A, then R and V. kFormQ, kApplyQ: V. kSolve: (A B), then R, V and Q^T B.
  Work<T> a;
  WorkVectors<int> a_fields;  // the exponent field of each column of `a` (householder.h)
  WorkVectors<T> tau;
  WorkVectors<T> t;        // T of columns b kMaxBlock ... at + b kMaxBlock^2, where it is kept
  WorkVectors<T> t_panel;  // T of a panel inside a block
  Work<T> target;          // Q, or C as left-hand view
  WorkVectors<int> target_fields;
  WorkVectors<T> flip;       // +1 or -1 for each column of Q and row of R
  WorkVectors<T> solutions;  // kSolve: kSolveWarps vectors of n
  void* panel_scratch = nullptr;
  std::size_t bytes = 0;  // of all of it

  // The T of block columns j ...: all blocks' where Q is formed or applied later, else one place
  // for each in turn.
  bool keeps_t = false;
  WorkVectors<T> BlockT(int j) const {
    return {
        t.data + (keeps_t ? static_cast<std::int64_t>(j / kMaxBlock) * kMaxBlock * kMaxBlock : 0),
        t.stride};
  }
};

inline constexpr int kSolveWarps = 8;

// Pure: with base null only `bytes` is of use.
template <class T>
Workspace<T> CarveWorkspace(const Plan& plan, int m, int n, int p, std::int64_t count, void* base);

}  // namespace factord::kernels
