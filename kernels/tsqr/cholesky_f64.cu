#include "kernels/tsqr/cholesky_kernel.h"

namespace factord::kernels::tsqr {

template cudaError_t RunCholesky<double, 16>(const Problem&, const Batch<double>&,
                                             const Workspace<double>&, cudaStream_t);
template cudaError_t RunCholesky<double, 32>(const Problem&, const Batch<double>&,
                                             const Workspace<double>&, cudaStream_t);
template cudaError_t RunCholesky<double, 64>(const Problem&, const Batch<double>&,
                                             const Workspace<double>&, cudaStream_t);

}  // namespace factord::kernels::tsqr
