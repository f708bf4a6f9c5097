// R alone of tall, skinny matrices (TSQR): the rows are read once and none is written.
//
// A matrix's rows are shared out to `parts` blocks, each of which makes a small summary of its own;
// the last block to finish makes R of the summaries. Three kernels: thread.h for up to 8 columns,
// cholesky.h for up to 64, simple.h for whatever these can't vouch for. R is that of LAPACK's
// geqrf, signs included: an orthogonal transformation of the rows below the first n changes neither
// alpha nor ||x|| of any column, which is all that larfg looks at. (Where columns are dependent,
// one of its Rs: there rounding chooses.)
//
// Demmel, Grigori, Hoemmen, Langou: Communication-optimal parallel and sequential QR and LU
// factorizations, SIAM J. Sci. Comput. 34 (2012).
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/problem.h"

namespace factord::kernels {

// R alone is wanted, of at most kMaxTsqrColumns columns and many times as many rows.
bool IsTsqr(const Problem& problem);
inline constexpr int kMaxTsqrColumns = 64;

// Device memory that RunTsqr needs for `count` matrices of the problem; 256-byte aligned.
std::size_t TsqrWorkspaceBytes(const Problem& problem, Dtype dtype, int multiprocessors,
                               std::int64_t count);

// Writes R and the status of every matrix, any m and n up to the problem's.
// `multiprocessors`: with the problem's shape it decides the parts, and so the bits.
template <class T>
cudaError_t RunTsqr(const Problem& problem, const Batch<T>& batch, void* workspace,
                    int multiprocessors, cudaStream_t stream);

}  // namespace factord::kernels
