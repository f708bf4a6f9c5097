// TSQR for up to 8 columns at memory speed: every thread streams rows through shared memory into an
// R of its own, which never leaves its registers until the end.
//
// A fold replaces [R; B], B a few rows, by its R: for column j Larfg of (R_jj, B_j), then for k > j
//   w = tau (R_jk + scale B_j . B_k),  R_jk -= w,  B_k -= scale w B_j
// without a word to any other thread. The next rows' copy runs while these are folded.
//
// The columns' scales come from a sample of the rows, so that the rows are read once. A sample is
// never larger than its column: no square underflows that matters, but one may overflow, and a
// column that is zero in the sample and tiny elsewhere may get lost. Both are seen in the end (in
// an R that is not finite, or too small for a column that is not zero), and say `redo`.
#pragma once

#include <cuda_runtime.h>

#include "kernels/simt/launch.h"
#include "kernels/simt/ptx.h"
#include "kernels/tsqr/block_qr.h"
#include "kernels/tsqr/member.h"

namespace factord::kernels::tsqr {

// The bits of |x|, or of them together so many that only a zero has none.
__device__ __forceinline__ std::uint32_t BitsOf(float x) { return __float_as_uint(x) << 1; }
__device__ __forceinline__ std::uint32_t BitsOf(double x) {
  return static_cast<std::uint32_t>(__double2hiint(x)) << 1 |
         static_cast<std::uint32_t>(__double2loint(x));
}

// kRows: of a fold.
template <class T, int N, int kWarps, int kRows, bool kColumnMajor>
struct Thread {
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kTile = 32 * kRows;  // rows that a warp copies at once
  static constexpr int kPiece = 16 / sizeof(T);
  static constexpr int kPitch = kRows * N + kPiece;  // of a thread's rows: no two start in a bank
  static constexpr int kStackPitch = N * N + 1;
  static constexpr int kSample = 64;

  using Qr = BlockQr<T, N, kThreads, N * N>;  // of all threads' Rs
  static constexpr int kLastRows = ((kMaxParts + 1) * N + kThreads / N - 1) / (kThreads / N);
  using LastQr = BlockQr<T, N, kThreads, kLastRows>;  // of all parts' Rs, and the first rows

  struct Shared {
    union {
      T tile[kWarps][32 * kPitch];
      T stack[kThreads * kStackPitch];
      typename Qr::Shared qr;
      typename LastQr::Shared last_qr;
    };
    T r[N * N];
    int fields[N];
    T scales[N];
  };

  // Whether rows can be copied 16 bytes at once.
  static __device__ __forceinline__ bool IsPacked(const Member<T, N>& member) {
    return !kColumnMajor && member.n == N && reinterpret_cast<std::uintptr_t>(member.a) % 16 == 0;
  }

  // Starts the copy of `rows` rows (at most kTile) from row i on.
  static __device__ __forceinline__ void Fetch(const Member<T, N>& member, int i, int rows,
                                               T* tile) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (IsPacked(member)) {
      constexpr int kPieces = kRows * N / kPiece;  // of a thread's rows
      const T* const from = member.a + static_cast<std::int64_t>(i) * N;
#pragma unroll
      for (int s = 0; s < kPieces; ++s) {
        const int p = s * 32 + lane;
        const bool valid = p * kPiece < rows * N;
        CopyAsync16(tile + p / kPieces * kPitch + p % kPieces * kPiece,
                    valid ? from + p * kPiece : member.a, valid);
      }
    } else if constexpr (!kColumnMajor) {
      const int n = member.n, each = kRows * n;
      const T* const from = member.a + static_cast<std::int64_t>(i) * n;
      for (int e = lane, thread = 0, at = lane; e < kTile * n; e += 32, at += 32) {
        for (; at >= each; at -= each) ++thread;
        const bool valid = e < rows * n;
        CopyAsyncElement(tile + thread * kPitch + at, valid ? from + e : member.a, valid);
      }
    } else {
      for (int k = 0; k < member.n; ++k) {
        const T* const from = member.a + k * member.strides.col + i;
#pragma unroll
        for (int s = 0; s < kRows; ++s) {
          const int r = s * 32 + lane;
          CopyAsyncElement(tile + k * kTile + r, r < rows ? from + r : member.a, r < rows);
        }
      }
    }
    CopyAsyncCommit();
  }

  // This thread's rows of a tile; columns from n on are zero.
  static __device__ __forceinline__ void Load(const Member<T, N>& member, const T* tile,
                                              T (&b)[kRows][N]) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (IsPacked(member)) {
      struct alignas(16) Piece {
        T x[kPiece];
      };
      const auto* const pieces = reinterpret_cast<const Piece*>(tile + lane * kPitch);
#pragma unroll
      for (int p = 0; p < kRows * N / kPiece; ++p) {
        const Piece piece = pieces[p];
#pragma unroll
        for (int q = 0; q < kPiece; ++q) b[(p * kPiece + q) / N][(p * kPiece + q) % N] = piece.x[q];
      }
    } else {
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int k = 0; k < N; ++k) {
          const int at =
              kColumnMajor ? k * kTile + i * 32 + lane : lane * kPitch + i * member.n + k;
          b[i][k] = k < member.n ? tile[at] : T(0);
        }
      }
    }
  }

  static __device__ __forceinline__ void Fold(T (&r)[N][N], T (&b)[kRows][N]) {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      T sigma[2] = {T(0), T(0)};
#pragma unroll
      for (int i = 0; i < kRows; ++i) sigma[i % 2] += b[i][j] * b[i][j];
      const Reflector<T> h = Larfg(r[j][j], sigma[0] + sigma[1]);
      r[j][j] = h.beta;
#pragma unroll
      for (int k = j + 1; k < N; ++k) {
        T d[2] = {T(0), T(0)};
#pragma unroll
        for (int i = 0; i < kRows; ++i) d[i % 2] += b[i][j] * b[i][k];
        const T w = h.tau * (r[j][k] + h.scale * (d[0] + d[1])), f = h.scale * w;
        r[j][k] -= w;
#pragma unroll
        for (int i = 0; i < kRows; ++i) b[i][k] -= b[i][j] * f;
      }
    }
  }

  // The columns' scales, from every so-manieth row. A column that is zero there is not scaled.
  static __device__ __forceinline__ void FindScales(const Member<T, N>& member, Shared& shared) {
    if (threadIdx.x < N) shared.fields[threadIdx.x] = 0;
    __syncthreads();
    for (int e = static_cast<int>(threadIdx.x); e < kSample * N; e += kThreads) {
      const int row = static_cast<int>(static_cast<std::int64_t>(member.m) * (e / N) / kSample);
      atomicMax(&shared.fields[e % N], ExponentField(member.At(row, e % N)));
    }
    __syncthreads();
    if (threadIdx.x < N) {
      int& field = shared.fields[threadIdx.x];
      if (field == 0) field = kBias<T>;
      shared.scales[threadIdx.x] = ScaleOf<T>(field);
    }
    __syncthreads();
  }
};

template <class T, int N, int kWarps, int kRows, bool kColumnMajor>
__global__ void __launch_bounds__(32 * kWarps, 1)
    ThreadKernel(const Problem problem, const Batch<T> batch, const Workspace<T> work) {
  using K = Thread<T, N, kWarps, kRows, kColumnMajor>;
  const Member<T, N> member(problem, batch, work);
  auto& shared = DynamicShared<typename K::Shared>();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  T* const tile = shared.tile[warp];

  int i = member.n + (member.part * kWarps + warp) * K::kTile;
  const int step = member.parts * kWarps * K::kTile;
  if (i < member.m) K::Fetch(member, i, min(K::kTile, member.m - i), tile);
  K::FindScales(member, shared);

  T r[N][N] = {};
  std::uint32_t bits[N] = {};
  for (; i < member.m; i += step) {
    T b[kRows][N];
    CopyAsyncWait<0>();
    __syncwarp();
    K::Load(member, tile, b);
    __syncwarp();
    if (i + step < member.m) K::Fetch(member, i + step, min(K::kTile, member.m - i - step), tile);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const T scale = shared.scales[k];
#pragma unroll
      for (int s = 0; s < kRows; ++s) {
        bits[k] |= BitsOf(b[s][k]);
        b[s][k] *= scale;
      }
    }
    K::Fold(r, b);
  }
  std::uint32_t nonzero = 0;
#pragma unroll
  for (int k = 0; k < N; ++k) nonzero |= (bits[k] != 0 ? 1u : 0u) << k;
  nonzero = __reduce_or_sync(kAllLanes, nonzero);
  if (threadIdx.x % 32 == 0) atomicOr(&member.state->nonzero, nonzero);

  // The threads' Rs.
  __syncthreads();
#pragma unroll
  for (int j = 0; j < N; ++j) {
#pragma unroll
    for (int k = 0; k < N; ++k)
      shared.stack[static_cast<int>(threadIdx.x) * K::kStackPitch + j * N + k] =
          k < j ? T(0) : r[j][k];
  }
  __syncthreads();
  {
    T x[N * N];
#pragma unroll
    for (int s = 0; s < N * N; ++s) {
      const int row = s * K::Qr::kGroups + K::Qr::Group();
      x[s] = shared.stack[row / N * K::kStackPitch + row % N * N + K::Qr::Col()];
    }
    __syncthreads();
    K::Qr::Run(x, shared.qr, member.r + member.part * (N * N));
  }
  if (!member.IsLast()) return;

  // The parts' Rs below A's first n rows.
  T x[K::kLastRows];
#pragma unroll
  for (int s = 0; s < K::kLastRows; ++s) {
    const int row = s * K::LastQr::kGroups + K::LastQr::Group(), col = K::LastQr::Col();
    x[s] = T(0);
    if (row < member.n) {
      x[s] = member.At(row, col) * shared.scales[col];
    } else if (row >= N && row < (member.parts + 1) * N) {
      x[s] = __ldcg(member.r + (row - N) * N + col);
    }
  }
  K::LastQr::Run(x, shared.last_qr, shared.r);
  __syncthreads();

  // Columns of at least unit size have lost nothing that matters.
  bool good = true;
  if (threadIdx.x < N) {
    const int k = static_cast<int>(threadIdx.x);
    T square = 0;
    for (int j = 0; j <= k; ++j) square += shared.r[j * N + k] * shared.r[j * N + k];
    const bool zero = (*static_cast<volatile std::uint32_t*>(&member.state->nonzero) >> k & 1) == 0;
    good = ExponentField(square) != Ieee<T>::kTopField && (zero || square >= T(0.5));
  }
  if (__syncthreads_and(good)) {
    WriteR<T, N, K::kThreads>(problem, batch, member, shared.r, shared.fields, false);
  } else if (threadIdx.x == 0) {
    member.state->redo = 1;
    member.state->arrived = 0;
  }
}

template <class T, int N, int kWarps, int kRows, bool kColumnMajor>
cudaError_t RunThread(const Problem& problem, const Batch<T>& batch, const Workspace<T>& work,
                      cudaStream_t stream) {
  return Launch(ThreadKernel<T, N, kWarps, kRows, kColumnMajor>,
                {.grid = dim3(static_cast<unsigned>(batch.count * work.parts)),
                 .threads = 32 * kWarps,
                 .shared_bytes = sizeof(typename Thread<T, N, kWarps, kRows, kColumnMajor>::Shared),
                 .stream = stream},
                problem, batch, work);
}

}  // namespace factord::kernels::tsqr
