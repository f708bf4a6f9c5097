// QR of matrices up to 4 x 4: a thread for each, all of it in registers.
//
// Memory is the bound: what a block reads and writes of an operand is one dense piece (where it
// lies in one run), copied by neighbouring threads to and from slots in shared memory, one slot a
// matrix.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/householder.h"
#include "kernels/simt/launch.h"
#include "kernels/simt/ptx.h"
#include "kernels/tiny/member.h"

namespace factord::kernels::tiny {

template <class T, int kSize>
class Slots {
 public:
  static constexpr int kThreads = 128;
  // Blocks of a multiprocessor: as many as registers allow.
  static constexpr int kBlocks = sizeof(T) == 4 ? (kSize == 3 ? 8 : 6) : (kSize == 3 ? 5 : 4);
  static constexpr int kStride = (kSize * kSize) | 1;  // odd: neighbours' slots use other banks
  static constexpr std::size_t kBytes = sizeof(T) * kThreads * kStride;

  __device__ __forceinline__ Slots(const Batch<T>& batch, std::int64_t first)
      : shared_(&DynamicShared<T>()), thread_(static_cast<int>(threadIdx.x)) {
    const std::int64_t rest = batch.count - first;
    matrices_ = rest < kThreads ? static_cast<int>(rest) : kThreads;
    dense_ = &RunOf(batch, first) == &RunOf(batch, first + matrices_ - 1);
  }

  __device__ __forceinline__ T* mine() const { return shared_ + thread_ * kStride; }

  // `matrix`: where this thread's matrix lies, of `elements` entries. All threads of the block.
  __device__ __forceinline__ void Load(const T* matrix, int elements) const {
    for (Share share = ShareOf(elements); share.first < share.end;
         share.first += kBatch * share.step) {
      T entries[kBatch];
      const T* const from = matrix + share.origin;
      ForBatch(share, [&](int b, int at) { entries[b] = from[at]; });
      ForBatch(share, [&](int b, int) { shared_[share.Next()] = entries[b]; });
    }
    __syncthreads();
  }
  __device__ __forceinline__ void Store(T* matrix, int elements) const {
    __syncthreads();
    for (Share share = ShareOf(elements); share.first < share.end;
         share.first += kBatch * share.step) {
      T entries[kBatch];
      T* const to = matrix + share.origin;
      ForBatch(share, [&](int b, int) { entries[b] = shared_[share.Next()]; });
      ForBatch(share, [&](int b, int at) { to[at] = entries[b]; });
    }
    __syncthreads();
  }

 private:
  // Entries under way at once.
  static constexpr int kBatch = 9;

  // What one thread copies: every kThreads-th entry of the block's dense piece, else its own
  // matrix.
  struct Share {
    int origin;                 // of the piece, counted from the thread's matrix
    int first, step, end;       // its entries, in the piece
    int slot, e;                // the next one's slot, and its place there
    int elements, whole, part;  // of a matrix; step = whole * elements + part

    __device__ __forceinline__ int Next() {
      const int place = slot * kStride + e;
      slot += whole;
      e += part;
      if (e >= elements) {
        e -= elements;
        ++slot;
      }
      return place;
    }
  };
  __device__ __forceinline__ Share ShareOf(int elements) const {
    if (elements == 0) return {};
    if (!dense_) return {0, 0, 1, thread_ < matrices_ ? elements : 0, thread_, 0, elements, 0, 1};
    return {-thread_ * elements,
            thread_,
            kThreads,
            matrices_ * elements,
            thread_ / elements,
            thread_ % elements,
            elements,
            kThreads / elements,
            kThreads % elements};
  }

  template <class Visit>
  __device__ __forceinline__ static void ForBatch(const Share& share, Visit visit) {
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int at = share.first + b * share.step;
      if (at < share.end) visit(b, at);
    }
  }

  T* const shared_;
  const int thread_;
  int matrices_;  // of this block
  bool dense_;    // they lie in one run
};

// Packed reflectors and R of one matrix, padded with zeros: those rows, columns and reflectors are
// exact no-ops.
template <class T, int kSize>
struct ThreadFactors {
  T a[kSize][kSize];
  T tau[kSize];
  unsigned negative = 0;  // bit i: R's i-th diagonal entry is
  unsigned reflects = 0;  // bit i: H_i is not the identity
  bool nonfinite = false;
  bool out_of_range = false;

  __device__ __forceinline__ void Factor() {
    T unscale[kSize];
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      int field = 0;
#pragma unroll
      for (int i = 0; i < kSize; ++i) field = max(field, ExponentField(a[i][j]));
      nonfinite |= field == Ieee<T>::kTopField;
      const T scale = ScaleOf<T>(field);
      unscale[j] = UnscaleOf<T>(field);
#pragma unroll
      for (int i = 0; i < kSize; ++i) a[i][j] *= scale;
    }
#pragma unroll
    for (int k = 0; k < kSize; ++k) Eliminate(k);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
#pragma unroll
      for (int i = 0; i <= j; ++i) {
        a[i][j] *= unscale[j];
        out_of_range |= ExponentField(a[i][j]) == Ieee<T>::kTopField;
      }
    }
  }

  // y := H_1 ... H_k y.
  __device__ __forceinline__ void ApplyQ(T (&y)[kSize]) const {
#pragma unroll
    for (int k = kSize - 1; k >= 0; --k) {
      T dot = y[k];
#pragma unroll
      for (int i = k + 1; i < kSize; ++i) dot = fma(a[i][k], y[i], dot);
      y[k] = fma(-tau[k], dot, y[k]);
      dot *= tau[k];
#pragma unroll
      for (int i = k + 1; i < kSize; ++i) y[i] = fma(-dot, a[i][k], y[i]);
    }
  }

 private:
  __device__ __forceinline__ void Eliminate(int k) {
    T sigma = T(0);
#pragma unroll
    for (int i = k + 1; i < kSize; ++i) sigma = fma(a[i][k], a[i][k], sigma);
    const Reflector<T> h = Larfg(a[k][k], sigma);
    a[k][k] = h.beta + T(0);  // -0 becomes +0
    tau[k] = h.tau;
    negative |= static_cast<unsigned>(h.beta < T(0)) << k;
    reflects |= static_cast<unsigned>(h.tau != T(0)) << k;
#pragma unroll
    for (int i = k + 1; i < kSize; ++i) a[i][k] *= h.scale;
#pragma unroll
    for (int j = k + 1; j < kSize; ++j) {
      T dot = a[k][j];
#pragma unroll
      for (int i = k + 1; i < kSize; ++i) dot = fma(a[i][k], a[i][j], dot);
      a[k][j] = fma(-h.tau, dot, a[k][j]);
      dot *= h.tau;
#pragma unroll
      for (int i = k + 1; i < kSize; ++i) a[i][j] = fma(-dot, a[i][k], a[i][j]);
    }
  }
};

template <class T, int kSize>
__global__ void __launch_bounds__(Slots<T, kSize>::kThreads, Slots<T, kSize>::kBlocks)
    FactorizeByThread(const Problem problem, const Batch<T> batch) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * Slots<T, kSize>::kThreads;
  const Slots<T, kSize> slots(batch, first);
  const Member<T> member(batch, first + threadIdx.x);
  const Run<T>& run = member.run;
  const int m = run.m, n = run.n, k = run.k();
  const std::int64_t local = member.local;
  T* const mine = slots.mine();

  ThreadFactors<T, kSize> factors;
  const auto for_entries = [&](int rows, int cols, auto visit) {
    const int row = problem.column_major ? 1 : cols, col = problem.column_major ? rows : 1;
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
#pragma unroll
      for (int j = 0; j < kSize; ++j) visit(i, j, i < rows && j < cols, i * row + j * col);
    }
  };

  slots.Load(run.a + local * m * n, m * n);
  for_entries(m, n, [&](int i, int j, bool inside, int at) {
    factors.a[i][j] = inside && member.live ? mine[at] : T(0);
  });
  factors.Factor();
  const unsigned flips =
      ChooseFlips(problem.sign, factors.negative, factors.reflects, member.live ? m : 0);
  if (flips != 0) {
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
#pragma unroll
      for (int j = i; j < kSize; ++j)
        if ((flips >> i & 1) != 0) factors.a[i][j] = -factors.a[i][j];
    }
  }

  if (problem.r) {
    for_entries(k, n, [&](int i, int j, bool inside, int at) {
      if (inside) mine[at] = i > j ? T(0) : factors.a[i][j];
    });
    slots.Store(run.r + local * k * n, k * n);
  }
  if (problem.reflectors) {
    for_entries(m, n, [&](int i, int j, bool inside, int at) {
      if (inside) mine[at] = factors.a[i][j];
    });
    slots.Store(run.reflectors + local * m * n, m * n);
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      if (i < k) mine[i] = factors.tau[i];
    }
    slots.Store(run.tau + local * k, k);
  }
  if (problem.q != QMode::kNone) {
    const int cols = problem.q == QMode::kComplete ? m : k;
#pragma unroll 1
    for (int j = 0; j < cols; ++j) {
      T y[kSize];
#pragma unroll
      for (int i = 0; i < kSize; ++i) y[i] = i == j ? T(1) : T(0);
      factors.ApplyQ(y);
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        if (i < m)
          mine[problem.column_major ? i + j * m : i * cols + j] =
              (flips >> j & 1) != 0 ? -y[i] : y[i];
      }
    }
    slots.Store(run.q + local * m * cols, m * cols);
  }
  Finish(problem, batch, member, factors.nonfinite,
         factors.out_of_range && (problem.r || problem.reflectors), 0, 1);
}

template <class T, int kSize>
cudaError_t RunByThread(const Problem& problem, const Batch<T>& batch, cudaStream_t stream) {
  using S = Slots<T, kSize>;
  return Launch(FactorizeByThread<T, kSize>,
                {.grid = dim3(static_cast<unsigned>((batch.count + S::kThreads - 1) / S::kThreads)),
                 .threads = S::kThreads,
                 .shared_bytes = S::kBytes,
                 .stream = stream},
                problem, batch);
}

}  // namespace factord::kernels::tiny
