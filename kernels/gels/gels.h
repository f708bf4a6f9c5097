// The end of a least-squares problem: from R and Q^T B to X, with a proof of full rank.
#pragma once

#include <cuda_runtime.h>

#include "kernels/problem.h"
#include "kernels/workspace.h"

namespace factord::kernels {

// work.a holds R (n x n) and, from column b0 on, Q^T B (m x p), both scaled by their columns'
// powers of two. Writes X and the residual norms. Full rank means: the smallest singular value of R
// exceeds rcond times the largest, shown by
//   sigma_1 <= ||R||_F  and  1 / sigma_n = ||R^-1||_2 <= sqrt(||M^-1||_1 ||M^-1||_inf)  or  <=
//   ||R^-1||_F,
// M the comparison matrix, |diag R| and -|R| right of it. Where neither bound shows it:
// kRankUnproven, and X is NaN. kResultOutOfRange where X or a norm is not finite. One block a
// matrix; a warp takes one triangular system at a time.
template <class T>
cudaError_t SolveTriangular(const Problem& problem, const Batch<T>& batch, const Workspace<T>& work,
                            int b0, cudaStream_t stream);

}  // namespace factord::kernels
