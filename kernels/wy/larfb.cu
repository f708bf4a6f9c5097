// One block for each tile of C's columns: P = V^T C, W = op(T) P, C -= V W. V and C come chunk by
// chunk, the next ones while this one is multiplied. P is summed up in registers, and W is held
// there; in between they pass through shared memory.
//
// C is updated from the last chunk to the first: the last ones are still there, and those before
// them are the likeliest to be in L2.
//
// A column's arithmetic does not depend on its place in the tile, on the tile's width or on how
// many chunks are on their way, and chunks begin at row j whatever follows. So neither the other
// columns nor zero rows below change a bit, and the batch may choose the tiles.
#include <limits>

#include "kernels/simt/launch.h"
#include "kernels/wy/chunk.h"
#include "kernels/wy/fragment.h"
#include "kernels/wy/wy.h"

namespace factord::kernels {
namespace {

// How a launch cuts C into tiles and walks them: kStages chunks are in shared memory or on their
// way there, and kBlocks blocks are meant to share a multiprocessor.
template <int kCols_, int kStages_, int kBlocks_>
struct Tiling {
  static constexpr int kCols = kCols_, kStages = kStages_, kBlocks = kBlocks_;
};
// Where blocks are plenty one computes while another waits for its chunks. Shared memory is full.
template <int kNb>
struct Plenty : Tiling<64, 2, 3> {};
template <>
struct Plenty<64> : Tiling<64, 3, 2> {};
// A block that is alone has to ask for its chunks earlier. With 32 columns of a V of 64 each of a
// multiprocessor's four tensor cores still has a warp; narrower tiles would not.
template <int kCols>
using Alone = Tiling<kCols, 4, 1>;

template <class T>
struct LarfbArgs {
  Work<const T> a;
  int j, nb;
  WorkVectors<const T> t_block;
  bool transpose;
  Work<T> c;
  int c0, c1;
  int tiles;  // of one matrix
};

// Two adjacent entries.
template <class T>
struct alignas(2 * sizeof(T)) Pair {
  T x, y;
};

template <class T, int kNb, class Tiles>
class ColumnTile {
 public:
  static constexpr int kWarpsAcross = Tiles::kCols / kWarpCols;
  static constexpr int kThreads = kNb * kWarpsAcross;  // the warps share P, 32 x 16 each
  static constexpr int kRows = Chunk<T>::kRows;

  // Chunk i in number i % kStages. P, then W, takes the place of the first chunk that is not kept.
  union Stage {
    struct {
      SharedTile<T, kRows, kNb, kThreads> v;
      SharedTile<T, kRows, Tiles::kCols, kThreads> c;
    } chunk;
    SharedTile<T, kNb, Tiles::kCols, kThreads> p;
  };
  struct Shared {
    Stage stages[Tiles::kStages];
  };

  __device__ __forceinline__ ColumnTile(const LarfbArgs<T>& args, Shared& shared)
      : args_(args),
        shared_(shared),
        matrix_(blockIdx.x / args.tiles),
        col_(args.c0 + static_cast<int>(blockIdx.x) % args.tiles * Tiles::kCols),
        rows_(args.a.rows - args.j),
        chunks_((rows_ + kRows - 1) / kRows),
        warp_row_(static_cast<int>(threadIdx.x) / (32 * kWarpsAcross)),
        warp_col_(static_cast<int>(threadIdx.x) / 32 % kWarpsAcross * kWarpCols),
        lane_(static_cast<int>(threadIdx.x) % 32),
        v_(args.a.matrix(matrix_) + static_cast<std::int64_t>(args.j) * args.a.ld + args.j),
        c_(args.c.matrix(matrix_) + static_cast<std::int64_t>(args.j) * args.c.ld + col_) {}

  __device__ __forceinline__ void Run() {
    for (int step = 0; step < kKept; ++step) Load(step);
    WarpSum<T> p;
    for (int step = 0; step < chunks_; ++step) {
      Arrive(step);
      const ByColumns<kLdV, T> v = {V(step) + warp_row_ * kWarpRows};
      p.template AddProduct<kRows, kLdC>(v, C(step) + warp_col_, lane_);
    }
    Publish(p);
    Publish(TimesT());
    LoadW();
    for (int step = chunks_; step < 2 * chunks_; ++step) {
      Arrive(step);
      Update(ChunkOf(step));
    }
  }

 private:
  static constexpr int kLdV = kNb + Chunk<T>::kPadding;
  static constexpr int kLdC = Tiles::kCols + Chunk<T>::kPadding;
  static constexpr int kRowsOfWarp = kRows / (kNb / kWarpRows);  // in an update
  static constexpr int kKept = Tiles::kStages - 1;  // chunks, from the way there to the way back

  __device__ __forceinline__ Stage& StageOf(int chunk) const {
    return shared_.stages[chunk % Tiles::kStages];
  }
  __device__ __forceinline__ T* V(int chunk) const { return StageOf(chunk).chunk.v.data; }
  __device__ __forceinline__ T* C(int chunk) const { return StageOf(chunk).chunk.c.data; }
  __device__ __forceinline__ T* P() const { return StageOf(chunks_).p.data; }

  // Chunks 0 ... chunks_ - 1, and back.
  __device__ __forceinline__ int ChunkOf(int step) const {
    return step < chunks_ ? step : 2 * chunks_ - 1 - step;
  }
  __device__ __forceinline__ bool Loads(int step) const {
    return step < chunks_ || (step < 2 * chunks_ && ChunkOf(step) < chunks_ - kKept);
  }
  __device__ __forceinline__ void Load(int step) {
    if (Loads(step)) {
      const int chunk = ChunkOf(step), row = chunk * kRows;
      auto& to = StageOf(chunk).chunk;
      to.v.CopyAsync(v_ + static_cast<std::int64_t>(row) * args_.a.ld, args_.a.ld, rows_ - row,
                     args_.nb);
      to.c.CopyAsync(c_ + static_cast<std::int64_t>(row) * args_.c.ld, args_.c.ld, rows_ - row,
                     args_.c1 - col_);
    }
    CopyAsyncCommit();
  }
  // Waits for the chunk of this step, and starts to load one in place of the last step's.
  __device__ __forceinline__ void Arrive(int step) {
    CopyAsyncWait<kKept - 1>();
    const int chunk = ChunkOf(step);
    if (Loads(step)) StageOf(chunk).chunk.v.MakeUnitLower(chunk * kRows, args_.nb);
    __syncthreads();
    Load(step + kKept);
  }

  // P, or W in its place.
  __device__ __forceinline__ void Publish(const WarpSum<T>& sum) {
    __syncthreads();
    T* const to = P() + warp_row_ * kWarpRows * kLdC + warp_col_;
    sum.ForEach(lane_, [&](int r, int c, T value) { to[r * kLdC + c] = value; });
    __syncthreads();
  }

  // T is read once, so it comes straight from global memory.
  __device__ __forceinline__ WarpSum<T> TimesT() const {
    const T* const t = args_.t_block.vector(matrix_);
    const int nb = args_.nb, stride_i = args_.transpose ? 1 : nb, stride_k = nb + 1 - stride_i;
    const ByEntries a{[&](int i, int k) {
      const int r = warp_row_ * kWarpRows + i;
      return r < nb && k < nb ? t[r * stride_i + k * stride_k] : T(0);
    }};
    WarpSum<T> w;
    w.template AddProduct<kNb, kLdC>(a, P() + warp_col_, lane_);
    return w;
  }

  // What the warp's columns of W are multiplied by stays in registers for all chunks.
  __device__ __forceinline__ void LoadW() {
#pragma unroll
    for (int k = 0; k < kNb / 8; ++k) {
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        LoadBForRows<kLdC>(w_[k][n], lane_, P() + 8 * k * kLdC + warp_col_ + 8 * n);
      }
    }
  }

  // C -= V W in one chunk, 16 rows at a time.
  __device__ __forceinline__ void Update(int chunk) {
#pragma unroll
    for (int i = 0; i < kRowsOfWarp; i += 16) {
      const int row = warp_row_ * kRowsOfWarp + i;
      T product[2][4] = {};
      Accumulator<T> sum[2] = {Accumulator<T>(product[0]), Accumulator<T>(product[1])};
#pragma unroll
      for (int k = 0; k < kNb / 8; ++k) {
        Fragment<T, 4> v;
        LoadRowsOfA<kLdV>(v, lane_, V(chunk) + row * kLdV + 8 * k);
#pragma unroll
        for (int n = 0; n < 2; ++n) sum[n].Add(v, w_[k][n]);
      }
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        sum[n].Finish(product[n]);
        Subtract(product[n], chunk, row, warp_col_ + 8 * n);
      }
    }
  }

  // From 16 x 8 of C, at `row` of the chunk and `col` of the tile.
  __device__ __forceinline__ void Subtract(const T (&product)[4], int chunk, int row, int col) {
    if (col_ + col >= args_.c1) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = row + 8 * half + lane_.g, c = col + 2 * lane_.t;
      if (chunk * kRows + r >= rows_) continue;
      const Pair<T> old = *reinterpret_cast<const Pair<T>*>(C(chunk) + r * kLdC + c);
      *reinterpret_cast<Pair<T>*>(c_ + static_cast<std::int64_t>(chunk * kRows + r) * args_.c.ld +
                                  c) = {old.x - product[2 * half], old.y - product[2 * half + 1]};
    }
  }

  const LarfbArgs<T>& args_;
  Shared& shared_;
  const std::int64_t matrix_;
  const int col_;
  const int rows_, chunks_;
  const int warp_row_, warp_col_;
  const LanePlace lane_;
  const T* const v_;
  T* const c_;
  Fragment<T, 2> w_[kNb / 8][2];
};

template <class T, int kNb, class Tiles>
__global__ void __launch_bounds__(ColumnTile<T, kNb, Tiles>::kThreads, Tiles::kBlocks)
    LarfbKernel(const LarfbArgs<T> args) {
  using Tile = ColumnTile<T, kNb, Tiles>;
  Tile(args, DynamicShared<typename Tile::Shared>()).Run();
}

template <class T, int kNb, class Tiles>
cudaError_t Start(const LarfbArgs<T>& args, cudaStream_t stream) {
  using Tile = ColumnTile<T, kNb, Tiles>;
  LaunchConfig config;
  config.grid = dim3(static_cast<unsigned>(args.c.count * args.tiles));
  config.threads = Tile::kThreads;
  config.shared_bytes = sizeof(typename Tile::Shared);
  config.stream = stream;
  return Launch(LarfbKernel<T, kNb, Tiles>, config, args);
}

// The narrowest tiles of which each has a multiprocessor to itself, if there are such.
template <int kNb, class T>
cudaError_t Start(LarfbArgs<T> args, int multiprocessors, cudaStream_t stream) {
  const auto cut = [&args](int width) {
    args.tiles = (args.c1 - args.c0 + width - 1) / width;
    return args.c.count * args.tiles;
  };
  if (cut(32) <= multiprocessors) return Start<T, kNb, Alone<32>>(args, stream);
  const std::int64_t blocks = cut(64);
  if (blocks <= multiprocessors) return Start<T, kNb, Alone<64>>(args, stream);
  if (blocks > std::numeric_limits<int>::max()) return cudaErrorInvalidValue;
  return Start<T, kNb, Plenty<kNb>>(args, stream);
}

}  // namespace

template <class T>
cudaError_t Larfb(const Work<const T>& a, int j, int nb, const WorkVectors<const T>& t_block,
                  bool transpose, const Work<T>& c, int c0, int c1, int multiprocessors,
                  cudaStream_t stream) {
  if (a.rows <= j || c1 <= c0 || nb <= 0) return cudaSuccess;
  const LarfbArgs<T> args = {a, j, nb, t_block, transpose, c, c0, c1, 0};
  return nb <= 32 ? Start<32>(args, multiprocessors, stream)
                  : Start<64>(args, multiprocessors, stream);
}

template cudaError_t Larfb(const Work<const float>&, int, int, const WorkVectors<const float>&,
                           bool, const Work<float>&, int, int, int, cudaStream_t);
template cudaError_t Larfb(const Work<const double>&, int, int, const WorkVectors<const double>&,
                           bool, const Work<double>&, int, int, int, cudaStream_t);

}  // namespace factord::kernels
