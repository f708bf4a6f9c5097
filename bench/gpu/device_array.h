// Device memory, and the end of the benchmark where a call fails.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace factord::bench {

inline void Check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
  std::exit(EXIT_FAILURE);
}

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t size = 0) : size_(size) {
    if (size == 0) return;
    void* data = nullptr;
    Check(cudaMalloc(&data, size * sizeof(T)));
    data_ = static_cast<T*>(data);
  }
  ~DeviceArray() { Check(cudaFree(data_)); }
  DeviceArray(DeviceArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  T* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return size_ * sizeof(T); }
  void Fill(unsigned char byte) {
    if (size_ != 0) Check(cudaMemset(data_, byte, bytes()));
  }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace factord::bench
