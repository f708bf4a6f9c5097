#include "kernels/tiny/run.h"

namespace factord::kernels {

template cudaError_t RunTiny(const Problem&, const Batch<float>&, cudaStream_t);

}  // namespace factord::kernels
