// Batched QR on one GPU: the entry points of kernels/.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/plan.h"
#include "kernels/problem.h"

namespace factord::kernels {

// Does what plan.problem says for every matrix of the batch: reads the inputs and writes each
// output and each matrix's status, all in device memory, in the stream's order; returns once
// everything is enqueued. Errors are CUDA's: whatever was enqueued before one may still run. The
// operations, by LAPACK's names:
//   kFactorize  geqrf, then orgqr where Q is wanted
//   kFormQ      orgqr
//   kApplyQ     ormqr
//   kSolve      gels with a proof of full rank, or kRankUnproven
// `workspace`: WorkspaceBytes(plan, batch.m, batch.n, batch.p, batch.count), 256-byte aligned; not
// to be touched until the work is done. batch.m <= plan.problem.m and so on; kSolve: batch.m >=
// batch.n in every run.
template <class T>
cudaError_t RunQr(const Plan& plan, const Batch<T>& batch, void* workspace, cudaStream_t stream);

}  // namespace factord::kernels
