// TSQR for any number of columns and any input, two passes: the columns' scales, then the rows, a
// block's registers full at a time, below the R of those before. The thread kernel's way out, and
// what the other kernels are held against.
#pragma once

#include <cuda_runtime.h>

#include "kernels/simt/launch.h"
#include "kernels/simt/ptx.h"
#include "kernels/tsqr/block_qr.h"
#include "kernels/tsqr/member.h"

namespace factord::kernels::tsqr {

inline constexpr int kSimpleThreads = 256;

template <class T, int N>
struct Simple {
  static constexpr int kAllRows = N <= 16 ? 256 : 128;
  using Qr = BlockQr<T, N, kSimpleThreads, kAllRows * N / kSimpleThreads>;
  static_assert(Qr::kAllRows == kAllRows);
  static constexpr int kRows = kAllRows * N / kSimpleThreads;
  static constexpr int kNewRows = kAllRows - N;

  struct Shared {
    typename Qr::Shared qr;
    T r[N * N];
    int fields[N];
  };

  // shared.r := R of itself above `rows` more, entry(i, col) of which is given.
  template <class Entry>
  static __device__ __forceinline__ void Fold(Shared& shared, int rows, Entry entry) {
    for (int i0 = 0; i0 < rows; i0 += kNewRows) {
      T x[kRows];
#pragma unroll
      for (int s = 0; s < kRows; ++s) {
        const int r = s * Qr::kGroups + Qr::Group(), i = i0 + r - N;
        x[s] = r < N ? shared.r[r * N + Qr::Col()] : i < rows ? entry(i, Qr::Col()) : T(0);
      }
      __syncthreads();
      Qr::Run(x, shared.qr, shared.r);
      __syncthreads();
    }
  }

  static __device__ __forceinline__ void Clear(Shared& shared) {
    for (int e = static_cast<int>(threadIdx.x); e < N * N; e += kSimpleThreads) shared.r[e] = T(0);
    __syncthreads();
  }

  // shared.fields := the largest exponent field of each column of `rows` entries.
  template <class Field>
  static __device__ __forceinline__ void FindFields(Shared& shared, int rows, Field field_of) {
    __syncthreads();
    if (threadIdx.x < N) shared.fields[threadIdx.x] = 0;
    __syncthreads();
    int field = 0;
    for (int i = Qr::Group(); i < rows; i += Qr::kGroups)
      field = max(field, field_of(i, Qr::Col()));
    atomicMax(&shared.fields[Qr::Col()], field);
    __syncthreads();
  }
};

// The matrices whose state says `redo`. Block: part of a matrix.
template <class T, int N>
__global__ void __launch_bounds__(kSimpleThreads)
    SimpleKernel(const Problem problem, const Batch<T> batch, const Workspace<T> work) {
  using S = Simple<T, N>;
  const Member<T, N> member(problem, batch, work);
  if (member.state->redo == kDone) return;
  auto& shared = DynamicShared<typename S::Shared>();

  // This part's rows, in its own scale.
  const int each = (member.Rows() + member.parts - 1) / member.parts;
  const int first = member.n + min(member.part * each, member.Rows());
  const int rows = min(each, member.m - first);
  S::FindFields(shared, rows, [&](int i, int j) { return ExponentField(member.At(first + i, j)); });
  S::Clear(shared);
  S::Fold(shared, rows,
          [&](int i, int j) { return member.At(first + i, j) * ScaleOf<T>(shared.fields[j]); });
  for (int e = static_cast<int>(threadIdx.x); e < N * N; e += kSimpleThreads)
    member.r[member.part * (N * N) + e] = shared.r[e];
  if (threadIdx.x < N) member.fields[member.part * N + threadIdx.x] = shared.fields[threadIdx.x];
  if (!member.IsLast()) return;

  // Their Rs, in the scale of all, below A's first n rows.
  const auto part_field = [&](int part, int j) { return __ldcg(member.fields + part * N + j); };
  S::FindFields(shared, member.parts + N, [&](int i, int j) {
    return i < N ? ExponentField(i < member.n ? member.At(i, j) : T(0)) : part_field(i - N, j);
  });
  const bool nonfinite = __syncthreads_or(shared.fields[S::Qr::Col()] == Ieee<T>::kTopField) != 0;
  S::Clear(shared);
  S::Fold(shared, member.parts * N, [&](int i, int j) {
    const T rescale = UnscaleOf<T>(part_field(i / N, j)) * ScaleOf<T>(shared.fields[j]);
    return __ldcg(member.r + i * N + j) * rescale;
  });
  T x[S::kRows];
#pragma unroll
  for (int s = 0; s < S::kRows; ++s) {
    const int r = s * S::Qr::kGroups + S::Qr::Group(), j = S::Qr::Col();
    x[s] = r < N       ? (r < member.n ? member.At(r, j) * ScaleOf<T>(shared.fields[j]) : T(0))
           : r < 2 * N ? shared.r[(r - N) * N + j]
                       : T(0);
  }
  __syncthreads();
  S::Qr::Run(x, shared.qr, shared.r);
  __syncthreads();
  WriteR<T, N, kSimpleThreads>(
      problem, batch, member, [&](int i, int j) { return shared.r[i * N + j]; },
      [&](int j) { return UnscaleOf<T>(shared.fields[j]); }, nonfinite);
}

template <class T, int N>
cudaError_t RunSimple(const Problem& problem, const Batch<T>& batch, const Workspace<T>& work,
                      cudaStream_t stream) {
  return Launch(SimpleKernel<T, N>,
                {.grid = dim3(static_cast<unsigned>(batch.count * work.parts)),
                 .threads = kSimpleThreads,
                 .shared_bytes = sizeof(typename Simple<T, N>::Shared),
                 .stream = stream},
                problem, batch, work);
}

}  // namespace factord::kernels::tsqr
