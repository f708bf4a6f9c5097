// RunTsqr: which kernel takes the problem.
#pragma once

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
      FACTORD_RETURN_IF_CUDA_ERROR((tsqr::RunThread<T, 4>(problem, batch, work, stream)));
      return tsqr::RunSimple<T, 4>(problem, batch, work, true, stream);
    case 8:
      FACTORD_RETURN_IF_CUDA_ERROR((tsqr::RunThread<T, 8>(problem, batch, work, stream)));
      return tsqr::RunSimple<T, 8>(problem, batch, work, true, stream);
    case 16:
      return tsqr::RunSimple<T, 16>(problem, batch, work, false, stream);
    case 32:
      return tsqr::RunSimple<T, 32>(problem, batch, work, false, stream);
    default:
      return tsqr::RunSimple<T, 64>(problem, batch, work, false, stream);
  }
}

}  // namespace factord::kernels
