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
#include "kernels/tsqr/member.h"
#include "kernels/tsqr/row_qr.h"

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
  static constexpr int kSample = 64;

  using Qr = RowQr<T, N, kThreads, N>;  // of all threads' Rs
  static constexpr int kLastRows = (kMaxParts * N + kThreads - 1) / kThreads;
  using LastQr = RowQr<T, N, kThreads, kLastRows>;  // of all parts' Rs, below A's first rows

  struct Shared {
    T tile[kWarps][32 * kPitch];
    typename Qr::Shared qr;
    typename LastQr::Shared last_qr;
    T r[N * N];
    int fields[N];
    T scales[N];
  };

  // Starts the copy of `rows` rows (at most kTile) from row i on.
  static __device__ __forceinline__ void Fetch(const Member<T, N>& member, int i, int rows,
                                               T* tile) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (!kColumnMajor && member.IsPacked()) {
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
    if (!kColumnMajor && member.IsPacked()) {
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

  // The reflector of column j.
  static __device__ __forceinline__ Reflector<T> ReflectorOf(const T (&r)[N][N],
                                                             const T (&b)[kRows][N], int j) {
    T sigma[2] = {T(0), T(0)};
#pragma unroll
    for (int i = 0; i < kRows; ++i) sigma[i % 2] += b[i][j] * b[i][j];
    return Larfg(r[j][j], sigma[0] + sigma[1]);
  }
  // Column k := H column k.
  static __device__ __forceinline__ void Apply(const Reflector<T>& h, T (&r)[N][N],
                                               T (&b)[kRows][N], int j, int k) {
    T d[2] = {T(0), T(0)};
#pragma unroll
    for (int i = 0; i < kRows; ++i) d[i % 2] += b[i][j] * b[i][k];
    const T w = h.tau * (r[j][k] + h.scale * (d[0] + d[1])), f = h.scale * w;
    r[j][k] -= w;
#pragma unroll
    for (int i = 0; i < kRows; ++i) b[i][k] -= b[i][j] * f;
  }
  // The next column comes first: its reflector is a long chain, beside which the others are done.
  static __device__ __forceinline__ void Fold(T (&r)[N][N], T (&b)[kRows][N]) {
    Reflector<T> h = ReflectorOf(r, b, 0);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      r[j][j] = h.beta;
      if (j + 1 == N) break;
      Apply(h, r, b, j, j + 1);
      const Reflector<T> next = ReflectorOf(r, b, j + 1);
#pragma unroll
      for (int k = j + 2; k < N; ++k) Apply(h, r, b, j, k);
      h = next;
    }
  }

  // A column whose largest entry has such a field needs no scale: neither its squares nor those of
  // what is small next to it leave the range.
  static __device__ __forceinline__ bool IsModerate(int field) {
    constexpr int kBelow = sizeof(T) == 4 ? 4 : 200, kAbove = sizeof(T) == 4 ? 40 : 400;
    return field >= kBias<T> - kBelow && field <= kBias<T> + kAbove;
  }
  // Of a column of R: what may have got lost below it does not matter.
  static constexpr T kLeastSquare = sizeof(T) == 4 ? T(0x1p-10) : T(0x1p-410);

  // What a sample says of the columns.
  struct Sample {
    bool scaled;  // some are
    bool gaps;    // some are zero in it, and are not scaled
  };
  // Sets the columns' fields and scales, from every so-manieth row.
  static __device__ __forceinline__ Sample TakeSample(const Member<T, N>& member, Shared& shared) {
    if (threadIdx.x < N) shared.fields[threadIdx.x] = 0;
    __syncthreads();
    for (int e = static_cast<int>(threadIdx.x); e < kSample * N; e += kThreads) {
      const int row = static_cast<int>(static_cast<std::int64_t>(member.m) * (e / N) / kSample);
      atomicMax(&shared.fields[e % N], ExponentField(member.At(row, e % N)));
    }
    __syncthreads();
    bool scaled = false, gap = false;
    if (threadIdx.x < N) {
      int& field = shared.fields[threadIdx.x];
      gap = field == 0 && static_cast<int>(threadIdx.x) < member.n;
      if (field == 0 || IsModerate(field)) field = kBias<T>;
      scaled = field != kBias<T>;
      shared.scales[threadIdx.x] = ScaleOf<T>(field);
    }
    return {__syncthreads_or(scaled) != 0, __syncthreads_or(gap) != 0};
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
  const typename K::Sample sample = K::TakeSample(member, shared);

  T r[N][N] = {};
  std::uint32_t nonzero = 0;  // bit k: some entry of column k
  for (; i < member.m; i += step) {
    T b[kRows][N];
    CopyAsyncWait<0>();
    __syncwarp();
    K::Load(member, tile, b);
    __syncwarp();
    if (i + step < member.m) K::Fetch(member, i + step, min(K::kTile, member.m - i - step), tile);
    if (sample.gaps) {
#pragma unroll
      for (int k = 0; k < N; ++k) {
        std::uint32_t bits = 0;
#pragma unroll
        for (int s = 0; s < kRows; ++s) bits |= BitsOf(b[s][k]);
        nonzero |= (bits != 0 ? 1u : 0u) << k;
      }
    }
    if (sample.scaled) {
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const T scale = shared.scales[k];
#pragma unroll
        for (int s = 0; s < kRows; ++s) b[s][k] *= scale;
      }
    }
    K::Fold(r, b);
  }
  nonzero = __reduce_or_sync(kAllLanes, nonzero);
  if (sample.gaps && threadIdx.x % 32 == 0) atomicOr(&member.state->nonzero, nonzero);
#pragma unroll
  for (int j = 0; j < N; ++j) {
#pragma unroll
    for (int k = 0; k < j; ++k) r[j][k] = T(0);
  }
  T top[N] = {};
  K::Qr::Run(top, r, shared.qr, member.r + member.part * (N * N));
  if (!member.IsLast()) return;

  // The parts' Rs below A's first n rows.
  T rows[K::kLastRows][N];
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int k = 0; k < N; ++k) {
    top[k] = thread < member.n ? member.At(thread, k) * shared.scales[k] : T(0);
#pragma unroll
    for (int s = 0; s < K::kLastRows; ++s) {
      const int row = s * K::kThreads + thread;
      rows[s][k] = row < member.parts * N ? __ldcg(member.r + row * N + k) : T(0);
    }
  }
  K::LastQr::Run(top, rows, shared.last_qr, shared.r);
  __syncthreads();

  bool good = true;
  if (thread < N) {
    T square = 0;
    for (int j = 0; j <= thread; ++j) square += shared.r[j * N + thread] * shared.r[j * N + thread];
    const std::uint32_t nonzeros = *static_cast<volatile std::uint32_t*>(&member.state->nonzero);
    const bool zero = sample.gaps && (nonzeros >> thread & 1) == 0;
    good = ExponentField(square) != Ieee<T>::kTopField &&
           (zero || thread >= member.n || square >= K::kLeastSquare);
  }
  if (__syncthreads_and(good)) {
    WriteR<T, N, K::kThreads>(
        problem, batch, member, [&](int i, int j) { return shared.r[i * N + j]; },
        [&](int j) { return UnscaleOf<T>(shared.fields[j]); }, false);
  } else if (threadIdx.x == 0) {
    member.state->redo = kAgain;
    atomicExch(&member.state->arrived, 0u);
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
