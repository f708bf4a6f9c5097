// CUDA's errors as absl::Status. Every CUDA call of the server goes through here.
#pragma once

#include <cuda_runtime.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace factord {

// UNAVAILABLE with the call and the error's name. REQUIRES: error != cudaSuccess.
absl::Status CudaError(cudaError_t error, absl::string_view call);

}  // namespace factord

#define RETURN_IF_CUDA_ERROR(call)                                                          \
  do {                                                                                      \
    if (const cudaError_t factord_cuda_error_ = (call); factord_cuda_error_ != cudaSuccess) \
      return ::factord::CudaError(factord_cuda_error_, #call);                              \
  } while (false)
