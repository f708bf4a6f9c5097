// One block for each tile of 64 columns of C: P = V^T C, W = op(T) P, C -= V W. V and C come
// chunk by chunk, the next one while this one is multiplied. P is summed up in registers, and W is
// held there; in between they pass through shared memory.
//
// C is updated from the last chunk to the first: the last two are still there, and those before
// them are the likeliest to be in L2.
//
// A column's arithmetic does not depend on its place in the tile, and chunks begin at row j
// whatever follows, so neither the other columns nor zero rows below change a bit.
#include <limits>

#include "kernels/simt/launch.h"
#include "kernels/wy/chunk.h"
#include "kernels/wy/fragment.h"
#include "kernels/wy/wy.h"

namespace factord::kernels {
namespace {

constexpr int kTileCols = 64;

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

template <class T, int kNb>
class ColumnTile {
 public:
  static constexpr int kThreads = 4 * kNb;  // kNb / 32 x 4 warps share P, 32 x 16 each
  static constexpr int kRows = Chunk<T>::kRows;

  struct Shared {
    SharedTile<T, kRows, kNb, kThreads> v[2];  // chunk i in number i % 2
    SharedTile<T, kRows, kTileCols, kThreads> c[2];
    SharedTile<T, kNb, kTileCols, kThreads> p;  // then W
  };

  __device__ __forceinline__ ColumnTile(const LarfbArgs<T>& args, Shared& shared)
      : args_(args),
        shared_(shared),
        matrix_(blockIdx.x / args.tiles),
        col_(args.c0 + static_cast<int>(blockIdx.x) % args.tiles * kTileCols),
        rows_(args.a.rows - args.j),
        chunks_((rows_ + kRows - 1) / kRows),
        warp_row_(static_cast<int>(threadIdx.x) / 128),
        warp_col_(static_cast<int>(threadIdx.x) / 32 % 4 * kWarpCols),
        lane_(static_cast<int>(threadIdx.x) % 32),
        v_(args.a.matrix(matrix_) + static_cast<std::int64_t>(args.j) * args.a.ld + args.j),
        c_(args.c.matrix(matrix_) + static_cast<std::int64_t>(args.j) * args.c.ld + col_) {}

  __device__ __forceinline__ void Run() {
    Load(0);
    WarpSum<T> p;
    for (int step = 0; step < chunks_; ++step) {
      Arrive(step);
      const ByColumns<kLdV, T> v = {shared_.v[step % 2].data + warp_row_ * kWarpRows};
      p.template AddProduct<kRows, kLdC>(v, shared_.c[step % 2].data + warp_col_, lane_);
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
  static constexpr int kLdC = kTileCols + Chunk<T>::kPadding;
  static constexpr int kRowsOfWarp = kRows / (kNb / kWarpRows);  // in an update

  // Chunks 0 ... chunks_ - 1, and back.
  __device__ __forceinline__ int ChunkOf(int step) const {
    return step < chunks_ ? step : 2 * chunks_ - 1 - step;
  }
  // The last two chunks are still there on the way back.
  __device__ __forceinline__ bool Loads(int step) const {
    return step < chunks_ || (step < 2 * chunks_ && ChunkOf(step) < chunks_ - 2);
  }
  __device__ __forceinline__ void Load(int step) {
    if (Loads(step)) {
      const int chunk = ChunkOf(step), row = chunk * kRows;
      shared_.v[chunk % 2].CopyAsync(v_ + static_cast<std::int64_t>(row) * args_.a.ld, args_.a.ld,
                                     rows_ - row, args_.nb);
      shared_.c[chunk % 2].CopyAsync(c_ + static_cast<std::int64_t>(row) * args_.c.ld, args_.c.ld,
                                     rows_ - row, args_.c1 - col_);
    }
    CopyAsyncCommit();
  }
  // Waits for the chunk of this step, and starts to load the next one's.
  __device__ __forceinline__ void Arrive(int step) {
    CopyAsyncWait<0>();
    const int chunk = ChunkOf(step);
    if (Loads(step)) shared_.v[chunk % 2].MakeUnitLower(chunk * kRows, args_.nb);
    __syncthreads();
    Load(step + 1);
  }

  // P, or W in its place.
  __device__ __forceinline__ void Publish(const WarpSum<T>& sum) {
    __syncthreads();
    T* const to = shared_.p.data + warp_row_ * kWarpRows * kLdC + warp_col_;
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
    w.template AddProduct<kNb, kLdC>(a, shared_.p.data + warp_col_, lane_);
    return w;
  }

  // What the warp's columns of W are multiplied by stays in registers for all chunks.
  __device__ __forceinline__ void LoadW() {
#pragma unroll
    for (int k = 0; k < kNb / 8; ++k) {
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        LoadBForRows<kLdC>(w_[k][n], lane_, shared_.p.data + 8 * k * kLdC + warp_col_ + 8 * n);
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
        LoadRowsOfA<kLdV>(v, lane_, shared_.v[chunk % 2].data + row * kLdV + 8 * k);
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
      const Pair<T> old =
          *reinterpret_cast<const Pair<T>*>(shared_.c[chunk % 2].data + r * kLdC + c);
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

template <class T, int kNb>
__global__ void __launch_bounds__(4 * kNb, kNb == 64 ? 2 : 3) LarfbKernel(const LarfbArgs<T> args) {
  using Tile = ColumnTile<T, kNb>;
  Tile(args, DynamicShared<typename Tile::Shared>()).Run();
}

template <int kNb, class T>
cudaError_t Start(const LarfbArgs<T>& args, cudaStream_t stream) {
  using Tile = ColumnTile<T, kNb>;
  LaunchConfig config;
  config.grid = dim3(static_cast<unsigned>(args.c.count * args.tiles));
  config.threads = Tile::kThreads;
  config.shared_bytes = sizeof(typename Tile::Shared);
  config.stream = stream;
  return Launch(LarfbKernel<T, kNb>, config, args);
}

}  // namespace

template <class T>
cudaError_t Larfb(const Work<const T>& a, int j, int nb, const WorkVectors<const T>& t_block,
                  bool transpose, const Work<T>& c, int c0, int c1, cudaStream_t stream) {
  if (a.rows <= j || c1 <= c0 || nb <= 0) return cudaSuccess;
  const int tiles = (c1 - c0 + kTileCols - 1) / kTileCols;
  if (c.count > std::numeric_limits<int>::max() / tiles) return cudaErrorInvalidValue;
  const LarfbArgs<T> args = {a, j, nb, t_block, transpose, c, c0, c1, tiles};
  return nb <= 32 ? Start<32>(args, stream) : Start<64>(args, stream);
}

template cudaError_t Larfb(const Work<const float>&, int, int, const WorkVectors<const float>&,
                           bool, const Work<float>&, int, int, cudaStream_t);
template cudaError_t Larfb(const Work<const double>&, int, int, const WorkVectors<const double>&,
                           bool, const Work<double>&, int, int, cudaStream_t);

}  // namespace factord::kernels
