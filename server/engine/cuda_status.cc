#include "server/engine/cuda_status.h"

#include "absl/strings/str_cat.h"

namespace factord {

absl::Status CudaError(cudaError_t error, absl::string_view call) {
  const absl::string_view function = call.substr(0, call.find('('));
  return absl::UnavailableError(
      absl::StrCat(function, ": ", cudaGetErrorName(error), " (", cudaGetErrorString(error), ")"));
}

}  // namespace factord
