#include "kernels/tsqr/tsqr.h"

#include "kernels/tsqr/workspace.h"

namespace factord::kernels {

// Fewer rows do not fill the device: there a panel in registers is as fast.
bool IsTsqr(const Problem& problem) {
  return problem.op == Op::kFactorize && problem.q == QMode::kNone && !problem.reflectors &&
         problem.n >= 1 && problem.n <= kMaxTsqrColumns && problem.m >= 8192 &&
         problem.m / 64 >= problem.n;
}

std::size_t TsqrWorkspaceBytes(const Problem& problem, Dtype dtype, int multiprocessors,
                               std::int64_t count) {
  const int parts = tsqr::PartsOf(problem.m, multiprocessors);
  const int columns = tsqr::ColumnsOf(problem.n);
  return dtype == Dtype::kF32 ? tsqr::CarveWorkspace<float>(parts, columns, count, nullptr).bytes
                              : tsqr::CarveWorkspace<double>(parts, columns, count, nullptr).bytes;
}

}  // namespace factord::kernels
