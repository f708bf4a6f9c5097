// How kernels are started: one call, all errors returned.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

namespace factord::kernels {

struct LaunchConfig {
  dim3 grid;
  unsigned threads = 0;          // of a block
  std::size_t shared_bytes = 0;  // dynamic
  unsigned cluster = 1;          // blocks of a cluster, along x
  bool cooperative = false;  // all blocks must be resident at once; an error where they can't be
  cudaStream_t stream = nullptr;
};

// Nothing is started where the grid is empty.
template <class... Params, class... Args>
cudaError_t Launch(void (*kernel)(Params...), const LaunchConfig& config, Args&&... args) {
  if (config.grid.x == 0 || config.grid.y == 0 || config.grid.z == 0) return cudaSuccess;
  if (config.shared_bytes > (48u << 10)) {
    const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                   cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   static_cast<int>(config.shared_bytes));
    if (error != cudaSuccess) return error;
  }
  cudaLaunchAttribute attributes[2];
  unsigned count = 0;
  if (config.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim.x = config.cluster;
    attributes[count].val.clusterDim.y = 1;
    attributes[count].val.clusterDim.z = 1;
    ++count;
  }
  if (config.cooperative) {
    attributes[count].id = cudaLaunchAttributeCooperative;
    attributes[count].val.cooperative = 1;
    ++count;
  }
  cudaLaunchConfig_t launch = {};
  launch.gridDim = config.grid;
  launch.blockDim = dim3(config.threads);
  launch.dynamicSmemBytes = config.shared_bytes;
  launch.stream = config.stream;
  launch.attrs = attributes;
  launch.numAttrs = count;
  return cudaLaunchKernelEx(&launch, kernel, std::forward<Args>(args)...);
}

// Returns the first error of a sequence of calls from the enclosing function.
#define FACTORD_RETURN_IF_CUDA_ERROR(expression)                                    \
  if (const cudaError_t factord_error = (expression); factord_error != cudaSuccess) \
  return factord_error

}  // namespace factord::kernels
