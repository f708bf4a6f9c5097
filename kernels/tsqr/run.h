// RunTsqr: which kernel takes the problem.
#pragma once

#include "kernels/tsqr/cholesky.h"
#include "kernels/tsqr/simple.h"
#include "kernels/tsqr/thread.h"
#include "kernels/tsqr/tsqr.h"

namespace factord::kernels {
namespace tsqr {

template <class T, int N>
cudaError_t RunThread(const Problem& problem, const Batch<T>& batch, const Workspace<T>& work,
                      cudaStream_t stream) {
  constexpr int kWarps = N <= 4 ? 16 : 8, kRows = sizeof(T) == 4 ? 16 : 8;
  return problem.column_major ? RunThread<T, N, kWarps, kRows, true>(problem, batch, work, stream)
                              : RunThread<T, N, kWarps, kRows, false>(problem, batch, work, stream);
}

// The fast kernel, and the simple one for what that leaves.
template <class T, int N>
cudaError_t RunColumns(const Problem& problem, const Batch<T>& batch, const Workspace<T>& work,
                       cudaStream_t stream) {
  if constexpr (N <= 8) {
    FACTORD_RETURN_IF_CUDA_ERROR((RunThread<T, N>(problem, batch, work, stream)));
  } else {
    FACTORD_RETURN_IF_CUDA_ERROR((RunCholesky<T, N>(problem, batch, work, stream)));
  }
  return RunSimple<T, N>(problem, batch, work, stream);
}

}  // namespace tsqr

template <class T>
cudaError_t RunTsqr(const Problem& problem, const Batch<T>& batch, void* workspace,
                    int multiprocessors, cudaStream_t stream) {
  const int columns = tsqr::ColumnsOf(problem.n);
  const tsqr::Workspace<T> work = tsqr::CarveWorkspace<T>(tsqr::PartsOf(problem.m, multiprocessors),
                                                          columns, batch.count, workspace);
  FACTORD_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(
      work.states, 0, static_cast<std::size_t>(batch.count) * sizeof(tsqr::State), stream));
  switch (columns) {
    case 4:
      return tsqr::RunColumns<T, 4>(problem, batch, work, stream);
    case 8:
      return tsqr::RunColumns<T, 8>(problem, batch, work, stream);
    case 16:
      return tsqr::RunColumns<T, 16>(problem, batch, work, stream);
    case 32:
      return tsqr::RunColumns<T, 32>(problem, batch, work, stream);
    default:
      return tsqr::RunColumns<T, 64>(problem, batch, work, stream);
  }
}

}  // namespace factord::kernels
