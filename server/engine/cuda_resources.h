// Owners of what the CUDA runtime hands out. All belong to the device that was current at creation.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"
#include "server/engine/cuda_status.h"

namespace factord {

// Movable. Destroyed whatever kDestroy says: a lost device answers with its error.
template <class Handle, cudaError_t (*kDestroy)(Handle)>
class CudaOwner {
 public:
  CudaOwner() = default;
  explicit CudaOwner(Handle handle) : handle_(handle) {}
  CudaOwner(CudaOwner&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  CudaOwner& operator=(CudaOwner&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~CudaOwner() {
    if (handle_ != nullptr) static_cast<void>(kDestroy(handle_));
  }

  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};

using CudaStream = CudaOwner<cudaStream_t, cudaStreamDestroy>;
using CudaEvent = CudaOwner<cudaEvent_t, cudaEventDestroy>;
using DeviceMemory = CudaOwner<void*, cudaFree>;      // 256-byte aligned
using PinnedMemory = CudaOwner<void*, cudaFreeHost>;  // of the host, page-locked

// Runs beside all other streams, the default one too.
inline absl::StatusOr<CudaStream> CreateStream() {
  cudaStream_t stream = nullptr;
  RETURN_IF_CUDA_ERROR(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return CudaStream(stream);
}

inline absl::StatusOr<CudaEvent> CreateEvent() {
  cudaEvent_t event = nullptr;
  RETURN_IF_CUDA_ERROR(cudaEventCreateWithFlags(&event, cudaEventDefault));
  return CudaEvent(event);
}

inline absl::StatusOr<DeviceMemory> AllocateDevice(std::size_t bytes) {
  void* memory = nullptr;
  RETURN_IF_CUDA_ERROR(cudaMalloc(&memory, bytes));
  return DeviceMemory(memory);
}

inline absl::StatusOr<PinnedMemory> AllocatePinned(std::size_t bytes) {
  void* memory = nullptr;
  RETURN_IF_CUDA_ERROR(cudaHostAlloc(&memory, bytes, cudaHostAllocDefault));
  return PinnedMemory(memory);
}

}  // namespace factord
