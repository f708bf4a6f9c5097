// Compact WY: H_1 ... H_nb = I - V T V^T, applied as matrix products (Schreiber and Van Loan 1989;
// LAPACK's larft, larfb).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/work.h"

namespace factord::kernels {

inline constexpr int kMaxBlock = 64;  // columns of one V

// A block's T is upper triangular, nb x nb, row-major and dense. V is below the diagonal of columns
// j ... j + nb - 1 of `a`, rows j to the last: unit diagonal implied, what is above ignored.
// nb <= kMaxBlock, j and nb multiples of kColumnUnit.

// T of columns j ... j + cols - 1, of each kMaxBlock of them by themselves (the last may be fewer):
// of block b from j, to t.vector(i) + b kMaxBlock^2 for each matrix i. Zeros below the diagonals.
template <class T>
cudaError_t Larft(const Work<const T>& a, int j, int cols, const WorkVectors<const T>& tau,
                  const WorkVectors<T>& t, cudaStream_t stream);

// C := (I - V op(T) V^T) C for rows j to the last and columns c0 ... c1 - 1 of every matrix of `c`,
// which has a's rows: Q of the block, or Q^T with `transpose`. c may be `a` itself if c0 >= j + nb.
// c0 and c1 are multiples of kColumnUnit. No bit depends on the number of multiprocessors, which
// decides how C is shared out.
template <class T>
cudaError_t Larfb(const Work<const T>& a, int j, int nb, const WorkVectors<const T>& t_block,
                  bool transpose, const Work<T>& c, int c0, int c1, int multiprocessors,
                  cudaStream_t stream);

}  // namespace factord::kernels
