#ifndef FACTORD_CLIENT_FACTORCTL_QR_RESIDUALS_H_
#define FACTORD_CLIENT_FACTORCTL_QR_RESIDUALS_H_

#include <cstdint>
#include <vector>

#include "client/tensor.h"

namespace factord::client {

// How well Q and R factorize one matrix A (m x n), as LAPACK's own tests measure it (dqrt01): about
// 1 or below, and below 30, where all is well. NaN where a result is not finite.
struct QrResiduals {
  double residual = 0;       // ||A - Q R||_1 / (||A||_1 m eps)
  double orthogonality = 0;  // ||I - Q^H Q||_1 / (m eps)
};

// One for each matrix, computed in double. The three must belong together: a (..., m, n), q (...,
// m, k or m) and r (..., k, n).
std::vector<QrResiduals> ComputeQrResiduals(const TensorView& a, const TensorView& q,
                                            const TensorView& r);

// What ComputeQrResiduals costs, in floating-point operations.
double QrResidualsFlops(const TensorView& a, const TensorView& q);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_FACTORCTL_QR_RESIDUALS_H_
