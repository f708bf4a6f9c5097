#include "kernels/tsqr/cholesky_kernel.h"

namespace factord::kernels::tsqr {

template cudaError_t RunCholesky<float, 16>(const Problem&, const Batch<float>&,
                                            const Workspace<float>&, cudaStream_t);
template cudaError_t RunCholesky<float, 32>(const Problem&, const Batch<float>&,
                                            const Workspace<float>&, cudaStream_t);
template cudaError_t RunCholesky<float, 64>(const Problem&, const Batch<float>&,
                                            const Workspace<float>&, cudaStream_t);

}  // namespace factord::kernels::tsqr
