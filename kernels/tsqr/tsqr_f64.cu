#include "kernels/tsqr/run.h"

namespace factord::kernels {

template cudaError_t RunTsqr(const Problem&, const Batch<double>&, void*, int, cudaStream_t);

}  // namespace factord::kernels
