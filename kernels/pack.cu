#include <algorithm>
#include <limits>

#include "kernels/householder.h"
#include "kernels/pack.h"
#include "kernels/simt/launch.h"
#include "kernels/simt/ptx.h"

namespace factord::kernels {
namespace {

// A block moves tiles of 64 x 32. A thread holds 8 entries of one column at a time: loads enough in
// flight to hide memory's latency. Where the caller's order is by columns a tile is turned in
// shared memory, so that both sides are read and written along their own lines.
constexpr int kRows = 64;
constexpr int kCols = 32;
constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kSteps = kRows / kWarps;

template <class T>
struct TileBuffer {
  T at[kRows][kCols + 1];
  int field[kWarps][kCols];
};

struct Lane {
  int lane, warp;
};
__device__ __forceinline__ Lane ThisLane() {
  return {static_cast<int>(threadIdx.x % 32), static_cast<int>(threadIdx.x / 32)};
}

// A matrix of the caller's: element (i, j) at data[i * row + j * col].
template <class T>
struct Operand {
  T* data;
  int rows, cols;
  Strides strides;
  __device__ __forceinline__ T& at(int i, int j) const {
    return data[static_cast<std::int64_t>(i) * strides.row +
                static_cast<std::int64_t>(j) * strides.col];
  }
};

// ---- in

template <class T>
__device__ __forceinline__ Operand<const T> OperandOf(const Problem& problem, const Run<T>& run,
                                                      std::int64_t local, Source source) {
  const std::int64_t rhs = static_cast<std::int64_t>(run.m) * run.p;
  switch (source) {
    case Source::kA:
      return {run.a + local * run.m * run.n, run.m, run.n,
              StridesOf(run.m, run.n, problem.column_major)};
    case Source::kReflectors:
      return {run.a + local * run.m * run.n, run.m, run.k(),
              StridesOf(run.m, run.n, problem.column_major)};
    case Source::kRhsLeft:
      return {run.rhs + local * rhs, run.m, run.p,
              StridesOf(run.m, run.p, problem.rhs_column_major)};
    case Source::kRhsRight:
      break;
  }
  const Strides c = StridesOf(run.p, run.m, problem.rhs_column_major);
  return {run.rhs + local * rhs, run.m, run.p, {c.col, c.row}};
}

// f(row, column, x) for this thread's entries of a tile, as they lie along the columns of memory: x
// is its entry number.
template <class F>
__device__ __forceinline__ void ForTurned(Lane me, F f) {
#pragma unroll
  for (int x = 0; x < kSteps; ++x) f(x % 2 * 32 + me.lane, x / 2 * kWarps + me.warp, x);
}

// x[s] := the entry at (i0 + s kWarps + warp, j0 + lane); zeros outside the operand, and on and
// above its diagonal for reflectors. By all threads of the block.
template <class T>
__device__ __forceinline__ void ReadTile(const Operand<const T>& from, bool reflectors, int i0,
                                         int j0, TileBuffer<T>& tile, Lane me, T (&x)[kSteps]) {
  const auto entry = [&](int i, int j) {
    const bool wanted = i < from.rows && j < from.cols && (!reflectors || i > j);
    return wanted ? from.at(i, j) : T(0);
  };
  if (from.strides.col == 1) {
#pragma unroll
    for (int s = 0; s < kSteps; ++s) x[s] = entry(i0 + s * kWarps + me.warp, j0 + me.lane);
    return;
  }
  ForTurned(me, [&](int i, int j, int e) { x[e] = entry(i0 + i, j0 + j); });
  __syncthreads();
  ForTurned(me, [&](int i, int j, int e) { tile.at[i][j] = x[e]; });
  __syncthreads();
#pragma unroll
  for (int s = 0; s < kSteps; ++s) x[s] = tile.at[s * kWarps + me.warp][me.lane];
}

// The way back.
template <class T>
__device__ __forceinline__ void WriteTile(const Operand<T>& to, int i0, int j0, TileBuffer<T>& tile,
                                          Lane me, const T (&x)[kSteps]) {
  if (to.strides.col == 1) {
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int i = i0 + s * kWarps + me.warp, j = j0 + me.lane;
      if (i < to.rows && j < to.cols) to.at(i, j) = x[s];
    }
    return;
  }
  __syncthreads();
#pragma unroll
  for (int s = 0; s < kSteps; ++s) tile.at[s * kWarps + me.warp][me.lane] = x[s];
  __syncthreads();
  ForTurned(me, [&](int i, int j, int) {
    if (i0 + i < to.rows && j0 + j < to.cols) to.at(i0 + i, j0 + j) = tile.at[i][j];
  });
}

// Block (x: matrix and tile column). Pass one finds the columns' exponent fields, pass two scales.
template <class T>
__global__ void __launch_bounds__(kThreads)
    PackKernel(const Problem problem, const Batch<T> batch, const Source source, const Work<T> to,
               const int c0, const int cols, const WorkVectors<int> fields) {
  auto& tile = DynamicShared<TileBuffer<T>>();
  const Lane me = ThisLane();
  const int tiles = (cols + kCols - 1) / kCols;
  const std::int64_t matrix = blockIdx.x / tiles;
  const int j0 = static_cast<int>(blockIdx.x % tiles) * kCols;
  const Run<T>& run = RunOf(batch, matrix);
  const Operand<const T> from = OperandOf(problem, run, matrix - run.first, source);
  const bool reflectors = source == Source::kReflectors;

  int field = 0;  // of column j0 + lane, over this warp's rows
  T x[kSteps];
  for (int i0 = 0; i0 < from.rows; i0 += kRows) {
    ReadTile(from, reflectors, i0, j0, tile, me, x);
#pragma unroll
    for (int s = 0; s < kSteps; ++s) field = max(field, ExponentField(x[s]));
  }
  tile.field[me.warp][me.lane] = field;
  __syncthreads();
  for (int w = 0; w < kWarps; ++w) field = max(field, tile.field[w][me.lane]);
  if (me.warp == 0) {
    if (field == Ieee<T>::kTopField) atomicOr(&batch.status[matrix], kNonfiniteInput);
    if (!reflectors && j0 + me.lane < cols) fields.vector(matrix)[c0 + j0 + me.lane] = field;
  }

  const T scale = reflectors ? T(1) : ScaleOf<T>(field);
  T* const out = to.matrix(matrix) + c0;
  for (int i0 = 0; i0 < to.rows; i0 += kRows) {
    ReadTile(from, reflectors, i0, j0, tile, me, x);
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int i = i0 + s * kWarps + me.warp;
      if (i < to.rows && j0 + me.lane < cols)
        out[static_cast<std::int64_t>(i) * to.ld + j0 + me.lane] = x[s] * scale;
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    PackTauKernel(const Batch<T> batch, const WorkVectors<T> tau, const int length) {
  const std::int64_t matrix = blockIdx.x;
  const Run<T>& run = RunOf(batch, matrix);
  const T* const from = run.tau_in + (matrix - run.first) * run.k();
  bool finite = true;
  for (int i = static_cast<int>(threadIdx.x); i < length; i += kThreads) {
    const T value = i < run.k() ? from[i] : T(0);
    finite &= ExponentField(value) != Ieee<T>::kTopField;
    tau.vector(matrix)[i] = value;
  }
  if (!finite) atomicOr(&batch.status[matrix], kNonfiniteInput);
}

template <class T>
__global__ void __launch_bounds__(kThreads) SetIdentityKernel(const Work<T> a) {
  const std::int64_t rows = a.rows * a.count;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    T* const out = a.matrix(row / a.rows) + row % a.rows * a.ld;
    for (int c = static_cast<int>(threadIdx.x); c < a.cols; c += kThreads)
      out[c] = c == row % a.rows ? T(1) : T(0);
  }
}

// ---- out

// One warp a matrix. det Q is the product of -1 for every H_i but the identity, and of the flips.
template <class T>
__global__ void ChooseFlipsKernel(const Problem problem, const Batch<T> batch,
                                  const Workspace<T> work, const int length) {
  const std::int64_t matrix = blockIdx.x;
  const Run<T>& run = RunOf(batch, matrix);
  const T* const a = work.a.matrix(matrix);
  const T* const tau = work.tau.vector(matrix);
  T* const flip = work.flip.vector(matrix);
  const int lane = static_cast<int>(threadIdx.x);
  bool negative_determinant = false;
  for (int i0 = 0; i0 < length; i0 += 32) {
    const int i = i0 + lane;
    const bool flips = i < run.k() && a[static_cast<std::int64_t>(i) * work.a.ld + i] < T(0);
    const bool reflects = i < run.k() && tau[i] != T(0);
    if (i < length) flip[i] = flips ? T(-1) : T(1);
    negative_determinant ^=
        (__popc(__ballot_sync(~0u, flips)) + __popc(__ballot_sync(~0u, reflects))) % 2 != 0;
  }
  __syncwarp();
  if (lane == 0 && problem.sign == Sign::kSpecialOrthogonal && negative_determinant)
    flip[run.m - 1] = -flip[run.m - 1];
}

enum class Output : std::uint8_t { kR, kReflectors, kQ, kC };

template <class T>
__device__ __forceinline__ Operand<T> OutputOf(const Problem& problem, const Run<T>& run,
                                               std::int64_t local, Output output) {
  const int k = run.k();
  switch (output) {
    case Output::kR:
      return {run.r + local * k * run.n, k, run.n, StridesOf(k, run.n, problem.column_major)};
    case Output::kReflectors:
      return {run.reflectors + local * run.m * run.n, run.m, run.n,
              StridesOf(run.m, run.n, problem.column_major)};
    case Output::kQ: {
      const int cols = problem.q == QMode::kComplete ? run.m : k;
      return {run.q + local * run.m * cols, run.m, cols,
              StridesOf(run.m, cols, problem.column_major)};
    }
    case Output::kC:
      break;
  }
  T* const data = run.result + local * run.m * run.p;
  if (!problem.right)
    return {data, run.m, run.p, StridesOf(run.m, run.p, problem.rhs_column_major)};
  const Strides c = StridesOf(run.p, run.m, problem.rhs_column_major);
  return {data, run.m, run.p, {c.col, c.row}};
}

// The finished value of entry (i, j), whose working value is w.
template <class T, Output kOutput>
__device__ __forceinline__ T Finish(const Problem& problem, const Workspace<T>& work,
                                    std::int64_t matrix, int i, int j, T w) {
  if constexpr (kOutput == Output::kR || kOutput == Output::kReflectors) {
    if (i > j) return kOutput == Output::kR ? T(0) : w;
    T value = w * UnscaleOf<T>(work.a_fields.vector(matrix)[j]);
    if (problem.sign != Sign::kLapack) {
      value *= work.flip.vector(matrix)[i];
      if (i == j && value == T(0)) value = T(0);  // -0 becomes +0
    }
    return value;
  } else if constexpr (kOutput == Output::kQ) {
    return problem.sign != Sign::kLapack ? w * work.flip.vector(matrix)[j] : w;
  } else {
    return w * UnscaleOf<T>(work.target_fields.vector(matrix)[j]);
  }
}

// Block (x: matrix and tile column, y: slice of tile rows).
template <class T, Output kOutput>
__global__ void __launch_bounds__(kThreads)
    UnpackKernel(const Problem problem, const Batch<T> batch, const Workspace<T> work,
                 const int tiles) {
  auto& tile = DynamicShared<TileBuffer<T>>();
  const Lane me = ThisLane();
  const std::int64_t matrix = blockIdx.x / tiles;
  const int j0 = static_cast<int>(blockIdx.x % tiles) * kCols;
  const Run<T>& run = RunOf(batch, matrix);
  const Operand<T> to = OutputOf(problem, run, matrix - run.first, kOutput);
  if (j0 >= to.cols) return;
  const Work<T>& from =
      kOutput == Output::kR || kOutput == Output::kReflectors ? work.a : work.target;
  const T* const data = from.matrix(matrix);
  const bool nonfinite = (batch.status[matrix] & kNonfiniteInput) != 0;
  bool finite = true;
  T x[kSteps];
  for (int i0 = static_cast<int>(blockIdx.y) * kRows; i0 < to.rows;
       i0 += kRows * static_cast<int>(gridDim.y)) {
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int i = i0 + s * kWarps + me.warp, j = j0 + me.lane;
      x[s] = i < to.rows && j < to.cols ? data[static_cast<std::int64_t>(i) * from.ld + j] : T(0);
    }
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      const int i = i0 + s * kWarps + me.warp, j = j0 + me.lane;
      if (i >= to.rows || j >= to.cols) continue;
      x[s] = nonfinite ? std::numeric_limits<T>::quiet_NaN()
                       : Finish<T, kOutput>(problem, work, matrix, i, j, x[s]);
      finite &= ExponentField(x[s]) != Ieee<T>::kTopField;
    }
    WriteTile(to, i0, j0, tile, me, x);
  }
  if (!finite && !nonfinite) atomicOr(&batch.status[matrix], kResultOutOfRange);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    UnpackTauKernel(const Batch<T> batch, const Workspace<T> work) {
  const std::int64_t matrix = blockIdx.x;
  const Run<T>& run = RunOf(batch, matrix);
  const bool nonfinite = (batch.status[matrix] & kNonfiniteInput) != 0;
  T* const to = run.tau + (matrix - run.first) * run.k();
  for (int i = static_cast<int>(threadIdx.x); i < run.k(); i += kThreads) {
    to[i] = nonfinite ? std::numeric_limits<T>::quiet_NaN() : work.tau.vector(matrix)[i];
  }
}

unsigned Blocks(std::int64_t count) { return static_cast<unsigned>(count); }

template <Output kOutput, class T>
cudaError_t Unpack(const Problem& problem, const Batch<T>& batch, const Workspace<T>& work,
                   int rows, int cols, cudaStream_t stream) {
  const int tiles = (cols + kCols - 1) / kCols;
  const int slices = std::clamp((rows + 4 * kRows - 1) / (4 * kRows), 1, 64);
  return Launch(UnpackKernel<T, kOutput>,
                {.grid = dim3(Blocks(batch.count * tiles), static_cast<unsigned>(slices)),
                 .threads = kThreads,
                 .shared_bytes = sizeof(TileBuffer<T>),
                 .stream = stream},
                problem, batch, work, tiles);
}

}  // namespace

template <class T>
cudaError_t Pack(const Problem& problem, const Batch<T>& batch, Source source, const Work<T>& to,
                 int c0, int cols, const WorkVectors<int>& fields, cudaStream_t stream) {
  const std::int64_t tiles = (cols + kCols - 1) / kCols;
  return Launch(PackKernel<T>,
                {.grid = dim3(Blocks(batch.count * tiles)),
                 .threads = kThreads,
                 .shared_bytes = sizeof(TileBuffer<T>),
                 .stream = stream},
                problem, batch, source, to, c0, cols, fields);
}

template <class T>
cudaError_t PackTau(const Batch<T>& batch, const WorkVectors<T>& tau, int length,
                    cudaStream_t stream) {
  return Launch(PackTauKernel<T>,
                {.grid = dim3(Blocks(batch.count)), .threads = kThreads, .stream = stream}, batch,
                tau, length);
}

template <class T>
cudaError_t SetIdentity(const Work<T>& a, cudaStream_t stream) {
  const std::int64_t rows = std::min<std::int64_t>(a.cols == 0 ? 0 : a.rows * a.count, 1 << 20);
  return Launch(SetIdentityKernel<T>,
                {.grid = dim3(Blocks(rows)), .threads = kThreads, .stream = stream}, a);
}

template <class T>
cudaError_t ChooseFlips(const Problem& problem, const Batch<T>& batch, const Workspace<T>& work,
                        cudaStream_t stream) {
  return Launch(ChooseFlipsKernel<T>,
                {.grid = dim3(Blocks(batch.count)), .threads = 32, .stream = stream}, problem,
                batch, work, std::max(batch.m, batch.n));
}

template <class T>
cudaError_t UnpackR(const Problem& problem, const Batch<T>& batch, const Workspace<T>& work,
                    cudaStream_t stream) {
  return Unpack<Output::kR>(problem, batch, work, std::min(batch.m, batch.n), batch.n, stream);
}

template <class T>
cudaError_t UnpackReflectors(const Problem& problem, const Batch<T>& batch,
                             const Workspace<T>& work, cudaStream_t stream) {
  FACTORD_RETURN_IF_CUDA_ERROR(
      Unpack<Output::kReflectors>(problem, batch, work, batch.m, batch.n, stream));
  return Launch(UnpackTauKernel<T>,
                {.grid = dim3(Blocks(batch.count)), .threads = kThreads, .stream = stream}, batch,
                work);
}

template <class T>
cudaError_t UnpackQ(const Problem& problem, const Batch<T>& batch, const Workspace<T>& work,
                    cudaStream_t stream) {
  return Unpack<Output::kQ>(problem, batch, work, batch.m, work.target.cols, stream);
}

template <class T>
cudaError_t UnpackC(const Problem& problem, const Batch<T>& batch, const Workspace<T>& work,
                    cudaStream_t stream) {
  return Unpack<Output::kC>(problem, batch, work, batch.m, batch.p, stream);
}

#define FACTORD_INSTANTIATE(T)                                                                 \
  template cudaError_t Pack(const Problem&, const Batch<T>&, Source, const Work<T>&, int, int, \
                            const WorkVectors<int>&, cudaStream_t);                            \
  template cudaError_t PackTau(const Batch<T>&, const WorkVectors<T>&, int, cudaStream_t);     \
  template cudaError_t SetIdentity(const Work<T>&, cudaStream_t);                              \
  template cudaError_t ChooseFlips(const Problem&, const Batch<T>&, const Workspace<T>&,       \
                                   cudaStream_t);                                              \
  template cudaError_t UnpackR(const Problem&, const Batch<T>&, const Workspace<T>&,           \
                               cudaStream_t);                                                  \
  template cudaError_t UnpackReflectors(const Problem&, const Batch<T>&, const Workspace<T>&,  \
                                        cudaStream_t);                                         \
  template cudaError_t UnpackQ(const Problem&, const Batch<T>&, const Workspace<T>&,           \
                               cudaStream_t);                                                  \
  template cudaError_t UnpackC(const Problem&, const Batch<T>&, const Workspace<T>&, cudaStream_t);
FACTORD_INSTANTIATE(float)
FACTORD_INSTANTIATE(double)
#undef FACTORD_INSTANTIATE

}  // namespace factord::kernels
