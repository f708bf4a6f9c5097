// The benchmark's data. All matrices are column-major and dense, one after the other.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "bench/gpu/case.h"
#include "bench/gpu/device_array.h"

namespace factord::bench {

// One batch's operands.
template <class T>
struct Operands {
  explicit Operands(const Case& c);

  // A; kOrgqr: the packed reflectors, and tau_in (n).
  DeviceArray<T> in, tau_in;
  // Packed reflectors and tau; kOrgqr: Q; kQr: Q and R (n x n).
  DeviceArray<T> out, tau, r;

  void PoisonOutputs();  // NaNs
};

// Several batches of different matrices, used in turn, so that none is found in the cache: at least
// four, and twice the L2 cache's size if 16 are enough. Entries are standard normal.
template <class T>
std::vector<Operands<T>> RandomBatches(const Case& c);

// r := the upper triangle of each m x n matrix of `packed`, zeros below.
template <class T>
void CopyUpper(const T* packed, int m, int n, std::int64_t batch, T* r, cudaStream_t stream);

// Keeps the device busy for about 0.1 ms, so that what is enqueued meanwhile runs without waiting
// for its launches.
void Delay();

}  // namespace factord::bench
