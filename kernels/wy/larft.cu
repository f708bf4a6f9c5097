// One block a matrix: G = V^T V, chunk by chunk, then T from G and tau.
//
// T(0:c, c) = -tau_c T(0:c, 0:c) G(0:c, c), so row i of T needs of T only itself: in blocks of 32
// one lane makes each row. Two blocks of 32 are joined by T12 = -T11 G12 T22 (recursive larft;
// Elmroth and Gustavson 2000).
#include <limits>

#include "kernels/simt/launch.h"
#include "kernels/wy/chunk.h"
#include "kernels/wy/fragment.h"
#include "kernels/wy/wy.h"

namespace factord::kernels {
namespace {

constexpr int kBlock = 32;

template <class T>
struct LarftArgs {
  Work<const T> a;
  int j, nb;
  WorkVectors<const T> tau;
  WorkVectors<T> t_block;
};

template <class T, int kNb>
class TriangularFactor {
 public:
  static constexpr int kThreads = 4 * kNb;  // kNb / 32 x 4 warps share G, 32 x 16 each
  static constexpr int kRows = Chunk<T>::kRows;

  struct Shared {
    union {
      SharedTile<T, kRows, kNb, kThreads> v[2];  // chunk i in number i % 2
      SharedTile<T, kNb, kNb, kThreads> g;
    };
    SharedTile<T, kNb, kNb, kThreads> t;
    SharedTile<T, kBlock, kBlock, kThreads> x;  // -G12 T22
    T tau[kNb];
  };

  __device__ __forceinline__ TriangularFactor(const LarftArgs<T>& args, Shared& shared)
      : args_(args),
        shared_(shared),
        rows_(args.a.rows - args.j),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_index_(static_cast<int>(threadIdx.x) % 32),
        lane_(lane_index_),
        v_(args.a.matrix(blockIdx.x) + static_cast<std::int64_t>(args.j) * args.a.ld + args.j) {}

  __device__ __forceinline__ void Run() {
    LoadTau();
    Gram();
    if (warp_ < kNb / kBlock) DiagonalBlock(warp_ * kBlock);
    __syncthreads();
    if (kNb > kBlock) Join();
    Write();
  }

 private:
  static constexpr int kLd = kNb + Chunk<T>::kPadding;
  static constexpr int kLdX = kBlock + Chunk<T>::kPadding;

  __device__ __forceinline__ void LoadTau() {
    const int i = static_cast<int>(threadIdx.x);
    if (i < kNb) {
      shared_.tau[i] = i < args_.nb ? args_.tau.vector(blockIdx.x)[args_.j + i] : T(0);
    }
  }

  __device__ __forceinline__ void Load(int chunk) {
    const int row = chunk * kRows;
    if (row < rows_) {
      shared_.v[chunk % 2].CopyAsync(v_ + static_cast<std::int64_t>(row) * args_.a.ld, args_.a.ld,
                                     rows_ - row, args_.nb);
    }
    CopyAsyncCommit();
  }

  __device__ __forceinline__ void Gram() {
    const int row = warp_ / 4 * kWarpRows, col = warp_ % 4 * kWarpCols;
    const bool works = col < kNb;  // of 32 columns two warps share
    WarpSum<T> g;
    Load(0);
    for (int chunk = 0; chunk * kRows < rows_; ++chunk) {
      CopyAsyncWait<0>();
      shared_.v[chunk % 2].MakeUnitLower(chunk * kRows, args_.nb);
      __syncthreads();
      Load(chunk + 1);
      const T* const v = shared_.v[chunk % 2].data;
      if (works) {
        g.template AddProduct<kRows, kLd>([&](int i, int k) { return v[k * kLd + row + i]; },
                                          v + col, lane_);
      }
    }
    __syncthreads();
    if (works) g.template Store<kLd>(shared_.g.data + row * kLd + col, lane_);
    __syncthreads();
  }

  // A warp's; `first` is the block's first row and column. Row by row of G: entry c of each lane's
  // row of T is final once the rows of G before c are done.
  __device__ __forceinline__ void DiagonalBlock(int first) {
    T row[kBlock] = {};
#pragma unroll
    for (int c = 0; c < kBlock; ++c) {
      const T tau = shared_.tau[first + c];
      row[c] = c < lane_index_ || tau == T(0) ? T(0) : c == lane_index_ ? tau : -tau * row[c];
      const T* const g = shared_.g.data + (first + c) * kLd + first;
#pragma unroll
      for (int k = c + 1; k < kBlock; ++k) row[k] = fma(row[c], g[k], row[k]);
    }
#pragma unroll
    for (int c = 0; c < kBlock; ++c) {
      shared_.t.data[(first + lane_index_) * kLd + first + c] = row[c];
    }
  }

  // Two warps' work, 16 columns each. G12 = G21^T.
  __device__ __forceinline__ void Join() {
    const int col = warp_ * kWarpCols;
    const bool works = col < kBlock;
    const T* const g21 = shared_.g.data + kBlock * kLd;
    T* const t = shared_.t.data;
    if (works) {
      WarpSum<T> x;
      x.template AddProduct<kBlock, kLd>([&](int i, int k) { return -g21[k * kLd + i]; },
                                         t + kBlock * kLd + kBlock + col, lane_);
      x.template Store<kLdX>(shared_.x.data + col, lane_);
      __syncwarp();
      WarpSum<T> t12;
      t12.template AddProduct<kBlock, kLdX>([&](int i, int k) { return t[i * kLd + k]; },
                                            shared_.x.data + col, lane_);
      t12.template Store<kLd>(t + kBlock + col, lane_);
    }
    __syncthreads();
  }

  __device__ __forceinline__ void Write() {
    T* const to = args_.t_block.vector(blockIdx.x);
    for (int i = static_cast<int>(threadIdx.x); i < args_.nb * args_.nb; i += kThreads) {
      const int r = i / args_.nb, c = i % args_.nb;
      to[i] = r <= c ? shared_.t.data[r * kLd + c] : T(0);
    }
  }

  const LarftArgs<T>& args_;
  Shared& shared_;
  const int rows_;
  const int warp_, lane_index_;
  const LanePlace lane_;
  const T* const v_;
};

template <class T, int kNb>
__global__ void __launch_bounds__(4 * kNb, 2) LarftKernel(const LarftArgs<T> args) {
  using Factor = TriangularFactor<T, kNb>;
  Factor(args, DynamicShared<typename Factor::Shared>()).Run();
}

template <int kNb, class T>
cudaError_t Start(const LarftArgs<T>& args, cudaStream_t stream) {
  using Factor = TriangularFactor<T, kNb>;
  LaunchConfig config;
  config.grid = dim3(static_cast<unsigned>(args.a.count));
  config.threads = Factor::kThreads;
  config.shared_bytes = sizeof(typename Factor::Shared);
  config.stream = stream;
  return Launch(LarftKernel<T, kNb>, config, args);
}

}  // namespace

template <class T>
cudaError_t Larft(const Work<const T>& a, int j, int nb, const WorkVectors<const T>& tau,
                  const WorkVectors<T>& t_block, cudaStream_t stream) {
  if (a.count > std::numeric_limits<int>::max()) return cudaErrorInvalidValue;
  const LarftArgs<T> args = {a, j, nb, tau, t_block};
  return nb <= kBlock ? Start<kBlock>(args, stream) : Start<kMaxBlock>(args, stream);
}

template cudaError_t Larft(const Work<const float>&, int, int, const WorkVectors<const float>&,
                           const WorkVectors<float>&, cudaStream_t);
template cudaError_t Larft(const Work<const double>&, int, int, const WorkVectors<const double>&,
                           const WorkVectors<double>&, cudaStream_t);

}  // namespace factord::kernels
