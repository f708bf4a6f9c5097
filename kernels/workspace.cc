#include "kernels/workspace.h"

#include <algorithm>

#include "kernels/tsqr/tsqr.h"

namespace factord::kernels {
namespace {

constexpr std::size_t kAlignment = 256;

// Hands out the arrays one after the other.
class Carver {
 public:
  explicit Carver(void* base) : base_(static_cast<std::byte*>(base)) {}

  template <class U>
  U* Take(std::int64_t elements) {
    std::byte* const here = base_ == nullptr ? nullptr : base_ + used_;
    const std::size_t bytes = static_cast<std::size_t>(elements) * sizeof(U);
    used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return reinterpret_cast<U*>(here);
  }
  template <class U>
  WorkVectors<U> TakeVectors(std::int64_t length, std::int64_t count) {
    return {Take<U>(length * count), length};
  }
  template <class U>
  Work<U> TakeMatrices(int rows, int cols, std::int64_t count) {
    const std::int64_t stride = static_cast<std::int64_t>(rows) * cols;
    return {Take<U>(stride * count), stride, rows, cols, cols, count};
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

int QColumns(const Problem& problem, int m, int n) {
  if (problem.q == QMode::kNone) return 0;
  return problem.q == QMode::kComplete ? m : std::min(m, n);
}

}  // namespace

template <class T>
Workspace<T> CarveWorkspace(const Plan& plan, int m, int n, int p, std::int64_t count, void* base) {
  const Problem& problem = plan.problem;
  Carver carver(base);
  Workspace<T> work;
  if (plan.tiny) return work;
  const int k = RoundUp(std::min(m, n), kColumnUnit);
  const int blocks = (k + kMaxBlock - 1) / kMaxBlock;
  const bool factors = problem.op == Op::kFactorize || problem.op == Op::kSolve;
  const int columns = problem.op == Op::kFactorize ? RoundUp(n, kColumnUnit)
                      : problem.op == Op::kSolve   ? k + RoundUp(p, kColumnUnit)
                                                   : k;
  const int target = RoundUp(problem.op == Op::kApplyQ ? p : QColumns(problem, m, n), kColumnUnit);
  work.keeps_t = target > 0;
  work.a = carver.TakeMatrices<T>(m, columns, count);
  work.tau = carver.TakeVectors<T>(k, count);
  work.t = carver.TakeVectors<T>(kMaxBlock * kMaxBlock * (work.keeps_t ? blocks : 1), count);
  if (factors) {
    work.a_fields = carver.TakeVectors<int>(columns, count);
    work.t_panel = carver.TakeVectors<T>(kMaxBlock * kMaxBlock, count);
    std::size_t scratch = 0;
    for (const Panel& panel : plan.panels) {
      if (panel.kind != PanelKind::kGrid || panel.j >= std::min(m, n)) continue;
      scratch = std::max(scratch, GridPanelScratchBytes(plan.dtype, m - panel.j, panel.nb, count));
    }
    work.panel_scratch = carver.Take<std::byte>(static_cast<std::int64_t>(scratch));
  }
  if (target > 0) work.target = carver.TakeMatrices<T>(m, target, count);
  if (problem.op == Op::kApplyQ) work.target_fields = carver.TakeVectors<int>(target, count);
  if (problem.sign != Sign::kLapack) work.flip = carver.TakeVectors<T>(std::max(m, n), count);
  if (problem.op == Op::kSolve)
    work.solutions = carver.TakeVectors<T>(static_cast<std::int64_t>(kSolveWarps) * k, count);
  work.bytes = carver.used();
  return work;
}

template Workspace<float> CarveWorkspace(const Plan&, int, int, int, std::int64_t, void*);
template Workspace<double> CarveWorkspace(const Plan&, int, int, int, std::int64_t, void*);

std::size_t WorkspaceBytes(const Plan& plan, int m, int n, int p, std::int64_t count) {
  if (plan.tsqr)
    return TsqrWorkspaceBytes(plan.problem, plan.dtype, plan.limits.multiprocessors, count);
  return plan.dtype == Dtype::kF32 ? CarveWorkspace<float>(plan, m, n, p, count, nullptr).bytes
                                   : CarveWorkspace<double>(plan, m, n, p, count, nullptr).bytes;
}

}  // namespace factord::kernels
