#include <algorithm>

#include "kernels/gels/gels.h"
#include "kernels/pack.h"
#include "kernels/qr.h"
#include "kernels/simt/launch.h"
#include "kernels/tiny/tiny.h"
#include "kernels/tsqr/tsqr.h"
#include "kernels/workspace.h"
#include "kernels/wy/wy.h"

namespace factord::kernels {
namespace {

// One batch's way through the blocked algorithms, on work matrices.
template <class T>
class Pipeline {
 public:
  Pipeline(const Plan& plan, const Batch<T>& batch, void* workspace, cudaStream_t stream)
      : plan_(plan),
        batch_(batch),
        work_(CarveWorkspace<T>(plan, batch.m, batch.n, batch.p, batch.count, workspace)),
        k_(RoundUp(std::min(batch.m, batch.n), kColumnUnit)),
        stream_(stream) {}

  // Panels, and after each block the update of what is right of it. LAPACK's geqrf.
  cudaError_t Geqrf() {
    int without_t = 0;  // columns of the first blocks, whose panels have made the updates
    for (const Block& block : plan_.blocks) {
      if (block.j >= k_) break;
      FACTORD_RETURN_IF_CUDA_ERROR(FactorBlock(block));
      if (block.panel_by_panel) {
        without_t = std::min(block.j + block.nb, k_);
      } else {
        FACTORD_RETURN_IF_CUDA_ERROR(UpdateRightOf(block));
      }
    }
    return work_.keeps_t ? LarftBefore(without_t) : cudaSuccess;
  }

  // T of every block of given reflectors.
  cudaError_t LarftAll() { return LarftBefore(k_); }

  // target := Q(:, the target's columns): backward, so that a block finds only its own columns and
  // those after it. LAPACK's orgqr.
  cudaError_t Orgqr() {
    FACTORD_RETURN_IF_CUDA_ERROR(SetIdentity(work_.target, stream_));
    for (int j = LastBlock(); j >= 0; j -= kMaxBlock) {
      FACTORD_RETURN_IF_CUDA_ERROR(Apply(j, false, work_.target, j, work_.target.cols));
    }
    return cudaSuccess;
  }

  // target := Q target, or Q^T target. LAPACK's ormqr.
  cudaError_t Ormqr(bool transpose) {
    for (int b = 0; b <= LastBlock() / kMaxBlock && k_ > 0; ++b) {
      const int j = transpose ? b * kMaxBlock : LastBlock() - b * kMaxBlock;
      FACTORD_RETURN_IF_CUDA_ERROR(Apply(j, transpose, work_.target, 0, work_.target.cols));
    }
    return cudaSuccess;
  }

  const Workspace<T>& work() const { return work_; }
  int k() const { return k_; }

 private:
  int BlockWidth(int j) const { return std::min(kMaxBlock, k_ - j); }
  int LastBlock() const { return k_ == 0 ? -1 : (k_ - 1) / kMaxBlock * kMaxBlock; }

  // T of all blocks of the first columns, in one launch: few matrices alone would not fill the
  // device.
  cudaError_t LarftBefore(int cols) {
    if (cols == 0) return cudaSuccess;
    return Larft<T>(work_.a, 0, cols, work_.tau, work_.t, stream_);
  }

  cudaError_t Apply(int j, bool transpose, const Work<T>& c, int c0, int c1) {
    return Larfb<T>(work_.a, j, BlockWidth(j), work_.BlockT(j), transpose, c, c0, c1,
                    plan_.limits.multiprocessors, stream_);
  }

  // A panel of this batch may be narrower than the plan's, and one block a matrix may become two
  // where that fills the device better: neither changes bits.
  cudaError_t FactorPanel(const Panel& panel, int nb) {
    const bool two_blocks = 2 * batch_.count <= plan_.limits.multiprocessors &&
                            ClusterPanelFits(plan_.dtype, batch_.m - panel.j, nb, panel.vec);
    switch (panel.kind) {
      case PanelKind::kBlock:
        return two_blocks ? FactorPanelCluster(work_.a, panel.j, nb, panel.vec, work_.tau, stream_)
                          : FactorPanelBlock(work_.a, panel.j, nb, panel.vec, work_.tau, stream_);
      case PanelKind::kCluster:
        return FactorPanelCluster(work_.a, panel.j, nb, panel.vec, work_.tau, stream_);
      case PanelKind::kGrid:
        return FactorPanelGrid(work_.a, panel.j, nb, work_.tau, work_.panel_scratch,
                               plan_.limits.multiprocessors, stream_);
      case PanelKind::kSimple:
        break;
    }
    return FactorPanelSimple(work_.a, panel.j, nb, work_.tau, stream_);
  }

  cudaError_t FactorBlock(const Block& block) {
    const int end = std::min(block.j + block.nb, k_);
    const int reach = block.panel_by_panel ? work_.a.cols : end;
    for (int p = block.first_panel; p < block.first_panel + block.panels; ++p) {
      const Panel& panel = plan_.panels[static_cast<std::size_t>(p)];
      if (panel.j >= end) break;
      const int nb = std::min(panel.nb, end - panel.j), right = panel.j + nb;
      FACTORD_RETURN_IF_CUDA_ERROR(FactorPanel(panel, nb));
      if (right >= reach) break;
      FACTORD_RETURN_IF_CUDA_ERROR(
          Larft<T>(work_.a, panel.j, nb, work_.tau, work_.t_panel, stream_));
      FACTORD_RETURN_IF_CUDA_ERROR(Larfb<T>(work_.a, panel.j, nb, work_.t_panel, true, work_.a,
                                            right, reach, plan_.limits.multiprocessors, stream_));
    }
    return cudaSuccess;
  }

  cudaError_t UpdateRightOf(const Block& block) {
    const int end = std::min(block.j + block.nb, k_);
    const bool updates = end < work_.a.cols;
    if (!updates && !work_.keeps_t) return cudaSuccess;
    for (int j = block.j; j < end; j += kMaxBlock) {
      FACTORD_RETURN_IF_CUDA_ERROR(
          Larft<T>(work_.a, j, BlockWidth(j), work_.tau, work_.BlockT(j), stream_));
      if (updates) FACTORD_RETURN_IF_CUDA_ERROR(Apply(j, true, work_.a, end, work_.a.cols));
    }
    return cudaSuccess;
  }

  const Plan& plan_;
  const Batch<T>& batch_;
  const Workspace<T> work_;
  const int k_;  // columns with reflectors, rounded up
  const cudaStream_t stream_;
};

template <class T>
cudaError_t Factorize(const Problem& problem, const Batch<T>& batch, Pipeline<T>& pipeline,
                      cudaStream_t stream) {
  const Workspace<T>& work = pipeline.work();
  FACTORD_RETURN_IF_CUDA_ERROR(
      Pack(problem, batch, Source::kA, work.a, 0, work.a.cols, work.a_fields, stream));
  FACTORD_RETURN_IF_CUDA_ERROR(pipeline.Geqrf());
  if (problem.sign != Sign::kLapack)
    FACTORD_RETURN_IF_CUDA_ERROR(ChooseFlips(problem, batch, work, stream));
  if (problem.r) FACTORD_RETURN_IF_CUDA_ERROR(UnpackR(problem, batch, work, stream));
  if (problem.reflectors)
    FACTORD_RETURN_IF_CUDA_ERROR(UnpackReflectors(problem, batch, work, stream));
  if (problem.q == QMode::kNone) return cudaSuccess;
  FACTORD_RETURN_IF_CUDA_ERROR(pipeline.Orgqr());
  return UnpackQ(problem, batch, work, stream);
}

template <class T>
cudaError_t PackFactors(const Problem& problem, const Batch<T>& batch, Pipeline<T>& pipeline,
                        cudaStream_t stream) {
  const Workspace<T>& work = pipeline.work();
  FACTORD_RETURN_IF_CUDA_ERROR(
      Pack(problem, batch, Source::kReflectors, work.a, 0, work.a.cols, {}, stream));
  FACTORD_RETURN_IF_CUDA_ERROR(PackTau(batch, work.tau, pipeline.k(), stream));
  return pipeline.LarftAll();
}

template <class T>
cudaError_t FormQ(const Problem& problem, const Batch<T>& batch, Pipeline<T>& pipeline,
                  cudaStream_t stream) {
  FACTORD_RETURN_IF_CUDA_ERROR(PackFactors(problem, batch, pipeline, stream));
  FACTORD_RETURN_IF_CUDA_ERROR(pipeline.Orgqr());
  return UnpackQ(problem, batch, pipeline.work(), stream);
}

// On the right C op(Q) = (op(Q)^T C^T)^T: the same work on C^T.
template <class T>
cudaError_t ApplyQ(const Problem& problem, const Batch<T>& batch, Pipeline<T>& pipeline,
                   cudaStream_t stream) {
  const Workspace<T>& work = pipeline.work();
  FACTORD_RETURN_IF_CUDA_ERROR(PackFactors(problem, batch, pipeline, stream));
  const Source source = problem.right ? Source::kRhsRight : Source::kRhsLeft;
  FACTORD_RETURN_IF_CUDA_ERROR(
      Pack(problem, batch, source, work.target, 0, work.target.cols, work.target_fields, stream));
  FACTORD_RETURN_IF_CUDA_ERROR(pipeline.Ormqr(problem.adjoint != problem.right));
  return UnpackC(problem, batch, work, stream);
}

// B stands right of A: the updates make Q^T B of it.
template <class T>
cudaError_t Solve(const Problem& problem, const Batch<T>& batch, Pipeline<T>& pipeline,
                  cudaStream_t stream) {
  const Workspace<T>& work = pipeline.work();
  const int k = pipeline.k();
  FACTORD_RETURN_IF_CUDA_ERROR(
      Pack(problem, batch, Source::kA, work.a, 0, k, work.a_fields, stream));
  FACTORD_RETURN_IF_CUDA_ERROR(
      Pack(problem, batch, Source::kRhsLeft, work.a, k, work.a.cols - k, work.a_fields, stream));
  FACTORD_RETURN_IF_CUDA_ERROR(pipeline.Geqrf());
  return SolveTriangular(problem, batch, work, k, stream);
}

}  // namespace

template <class T>
cudaError_t RunQr(const Plan& plan, const Batch<T>& batch, void* workspace, cudaStream_t stream) {
  if (batch.count == 0) return cudaSuccess;
  if (plan.tiny) return RunTiny(plan.problem, batch, stream);
  if (plan.tsqr)
    return RunTsqr(plan.problem, batch, workspace, plan.limits.multiprocessors, stream);
  FACTORD_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(
      batch.status, 0, static_cast<std::size_t>(batch.count) * sizeof(*batch.status), stream));
  Pipeline<T> pipeline(plan, batch, workspace, stream);
  switch (plan.problem.op) {
    case Op::kFactorize:
      return Factorize(plan.problem, batch, pipeline, stream);
    case Op::kFormQ:
      return FormQ(plan.problem, batch, pipeline, stream);
    case Op::kApplyQ:
      return ApplyQ(plan.problem, batch, pipeline, stream);
    case Op::kSolve:
      break;
  }
  return Solve(plan.problem, batch, pipeline, stream);
}

template cudaError_t RunQr(const Plan&, const Batch<float>&, void*, cudaStream_t);
template cudaError_t RunQr(const Plan&, const Batch<double>&, void*, cudaStream_t);

}  // namespace factord::kernels
