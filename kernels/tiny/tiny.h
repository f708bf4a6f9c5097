// Tiny matrices: whole operations in one launch, each matrix in the registers of a thread or of a
// few lanes.
#pragma once

#include <cuda_runtime.h>

#include "kernels/problem.h"

namespace factord::kernels {

// Whether the tiny kernels take the problem: kFactorize, kFormQ and kApplyQ with m and n up to 32.
// Depends on the problem alone. Pure.
bool IsTiny(const Problem& problem);

// Everything: reads the operands in place, scales, factors or applies, writes every output and each
// matrix's status. REQUIRES: IsTiny(problem).
template <class T>
cudaError_t RunTiny(const Problem& problem, const Batch<T>& batch, cudaStream_t stream);

}  // namespace factord::kernels
