// An array in device memory for tests, emulated or real: between two guard zones, and filled with
// NaNs until it is written.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace factord::testing {

// Throws, which fails a test, where a call of the CUDA runtime fails.
inline void CheckCuda(cudaError_t error) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(error));
}

// Its calls wait for all earlier work of the device.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count = 0) : size_(count) {
    void* base = nullptr;
    CheckCuda(cudaMalloc(&base, kGuard + bytes() + kGuard));
    base_ = static_cast<std::byte*>(base);
    CheckCuda(cudaMemset(base_, kGuardByte, kGuard + bytes() + kGuard));
    Fill(0xFF);
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    Upload(values);
  }
  ~DeviceArray() { static_cast<void>(cudaFree(base_)); }
  DeviceArray(DeviceArray&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(size_, other.size_);
    return *this;
  }

  T* data() const { return reinterpret_cast<T*>(base_ + kGuard); }  // 256-byte aligned
  std::size_t size() const { return size_; }

  // `values` are as many as the array has.
  void Upload(const std::vector<T>& values) {
    if (values.size() != size_) throw std::invalid_argument("DeviceArray: another size");
    CheckCuda(cudaDeviceSynchronize());
    CheckCuda(cudaMemcpy(data(), values.data(), bytes(), cudaMemcpyHostToDevice));
  }
  std::vector<T> Download() const {
    std::vector<T> values(size_);
    CheckCuda(cudaDeviceSynchronize());
    CheckCuda(cudaMemcpy(values.data(), data(), bytes(), cudaMemcpyDeviceToHost));
    return values;
  }
  // Every byte.
  void Fill(unsigned char byte) {
    CheckCuda(cudaDeviceSynchronize());
    CheckCuda(cudaMemset(data(), byte, bytes()));
    CheckCuda(cudaDeviceSynchronize());
  }

  // Nothing was written just before or behind the array.
  bool GuardsIntact() const {
    CheckCuda(cudaDeviceSynchronize());
    std::vector<unsigned char> zone(kGuard);
    for (const std::byte* at : {base_, base_ + kGuard + bytes()}) {
      CheckCuda(cudaMemcpy(zone.data(), at, kGuard, cudaMemcpyDeviceToHost));
      if (!std::all_of(zone.begin(), zone.end(), [](unsigned char b) { return b == kGuardByte; }))
        return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t kGuard = 1024;  // bytes
  static constexpr unsigned char kGuardByte = 0x5A;

  std::size_t bytes() const { return size_ * sizeof(T); }

  std::byte* base_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace factord::testing
