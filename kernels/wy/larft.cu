// G = V^T V, chunk by chunk, then T from G and tau; the blocks of columns are independent.
//
// The rows are dealt out to kParts sums, kGroupRows at a time, and those are added in their order.
// Where there are few T to make a cluster of kParts blocks shares one, a part each, else one block
// makes all parts: the bits are the same. In a cluster every block adds up one slice of the rows of
// G, and block 0 gathers the slices and goes on alone.
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
constexpr int kParts = 8;
constexpr int kGroupRows = 256;
constexpr int kFew = 64;

template <class T>
struct LarftArgs {
  Work<const T> a;
  int j, cols;
  WorkVectors<const T> tau;
  WorkVectors<T> t;
  bool clusters;
};

template <class T, int kNb>
class TriangularFactor {
 public:
  static constexpr int kThreads = 4 * kNb;  // kNb / 32 x 4 warps share G, 32 x 16 each
  static constexpr int kRows = Chunk<T>::kRows;
  static constexpr int kLd = kNb + Chunk<T>::kPadding;

  struct Shared {
    union {
      SharedTile<T, kRows, kNb, kThreads> v[2];
      SharedTile<T, kNb, kNb, kThreads> g;
    };
    union {
      SharedTile<T, kNb, kNb, kThreads> t;
      T slices[kParts][kNb / kParts * kLd];  // of each block's G; then the first is their sum
    };
    SharedTile<T, kBlock, kBlock, kThreads> x;  // -G12 T22
    T tau[kNb];
    Barrier slices_came, g_came;
  };

  __device__ __forceinline__ TriangularFactor(const LarftArgs<T>& args, Shared& shared)
      : args_(args),
        shared_(shared),
        rank_(args.clusters ? ClusterRank() : 0),
        matrix_(args.clusters ? blockIdx.x / kParts : blockIdx.x),
        j_(args.j + static_cast<int>(blockIdx.y) * kMaxBlock),
        nb_(min(kMaxBlock, args.j + args.cols - j_)),
        rows_(args.a.rows - j_),
        chunks_((rows_ + kRows - 1) / kRows),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_index_(static_cast<int>(threadIdx.x) % 32),
        lane_(lane_index_),
        v_(args.a.matrix(matrix_) + static_cast<std::int64_t>(j_) * args.a.ld + j_) {}

  __device__ __forceinline__ void Run() {
    if (args_.clusters) ExpectSlices();
    LoadTau();
    Gram();
    if (args_.clusters) {
      Reduce();
      if (rank_ != 0) return;
    }
    if (warp_ < kNb / kBlock) DiagonalBlock(warp_ * kBlock);
    __syncthreads();
    if (kNb > kBlock) Join();
    Write();
  }

 private:
  static constexpr int kLdX = kBlock + Chunk<T>::kPadding;

  __device__ __forceinline__ void LoadTau() {
    const int i = static_cast<int>(threadIdx.x);
    if (i < kNb) {
      shared_.tau[i] = i < nb_ ? args_.tau.vector(matrix_)[j_ + i] : T(0);
    }
  }

  // Where the walk over the rows is: the chunks of a part, then, in a block alone, the next part's.
  struct Place {
    int part, chunk;
  };
  __device__ __forceinline__ bool Ended(Place at) const { return at.chunk >= chunks_; }
  __device__ __forceinline__ Place After(Place at) const {
    constexpr int kGroup = kGroupRows / kRows;
    int chunk = at.chunk + 1;
    if (chunk % kGroup == 0) chunk += (kParts - 1) * kGroup;
    if (chunk < chunks_) return {at.part, chunk};
    const int part = at.part + 1;
    return {part, args_.clusters || part == kParts ? chunks_ : part * kGroup};
  }

  __device__ __forceinline__ void Load(Place at, int step) {
    if (!Ended(at)) {
      const int row = at.chunk * kRows;
      shared_.v[step % 2].CopyAsync(v_ + static_cast<std::int64_t>(row) * args_.a.ld, args_.a.ld,
                                    rows_ - row, nb_);
    }
    CopyAsyncCommit();
  }

  __device__ __forceinline__ void Gram() {
    const int row = warp_ / 4 * kWarpRows, col = warp_ % 4 * kWarpCols;
    const bool works = col < kNb;  // of 32 columns two warps share
    WarpSum<T> g, part;
    Place at = {rank_, rank_ * (kGroupRows / kRows)};
    Load(at, 0);
    for (int step = 0; !Ended(at); ++step) {
      CopyAsyncWait<0>();
      shared_.v[step % 2].MakeUnitLower(at.chunk * kRows, nb_);
      __syncthreads();
      const Place next = After(at);
      Load(next, step + 1);
      const T* const v = shared_.v[step % 2].data;
      if (works) {
        part.template AddProduct<kRows, kLd>(ByColumns<kLd, T>{v + row}, v + col, lane_);
      }
      if (next.part != at.part) {
        g.Add(part);
        part = {};
      }
      at = next;
    }
    __syncthreads();
    if (works) Store<kLd>(shared_.g.data + row * kLd + col, g);
    __syncthreads();
  }

  // ---- in a cluster
  static constexpr int kSlice = kNb / kParts * kLd;

  __device__ __forceinline__ void ExpectSlices() {
    if (threadIdx.x == 0) {
      for (Barrier* const barrier : {&shared_.slices_came, &shared_.g_came}) {
        BarrierInit(barrier, 1);
        BarrierArriveExpect(barrier, (kParts - 1) * kSlice * sizeof(T));
      }
      FenceBarrierInit();
    }
    __syncthreads();
    ClusterArrive();
  }

  // Block 0's G becomes the sum of all blocks': each sums the slice of its rank, in rank order, and
  // sends it home. A slice of block 0 is overwritten only after its former content has come to
  // where it was sent.
  __device__ __forceinline__ void Reduce() {
    FenceAsyncProxy();
    __syncthreads();
    ClusterWait();
    T* const own = shared_.g.data + rank_ * kSlice;
    if (threadIdx.x == 0) {
      for (int rank = 0; rank < kParts; ++rank) {
        if (rank == rank_) continue;
        CopyToPeer(shared_.slices[rank_], rank, shared_.g.data + rank * kSlice, kSlice * sizeof(T),
                   &shared_.slices_came);
      }
    }
    BarrierWaitCluster(&shared_.slices_came, 0);
    for (int i = static_cast<int>(threadIdx.x); i < kSlice; i += kThreads) {
      T sum = rank_ == 0 ? own[i] : shared_.slices[0][i];
      for (int rank = 1; rank < kParts; ++rank) {
        sum += rank == rank_ ? own[i] : shared_.slices[rank][i];
      }
      own[i] = sum;
    }
    FenceAsyncProxy();
    __syncthreads();
    if (rank_ == 0) {
      BarrierWaitCluster(&shared_.g_came, 0);
    } else if (threadIdx.x == 0) {
      CopyToPeer(own, 0, own, kSlice * sizeof(T), &shared_.g_came);
    }
    ClusterArrive();
    ClusterWait();
  }

  // A warp's; `first` is the block's first row and column. Row by row of G: entry c of each lane's
  // row of T is final once the rows of G before c are done.
  __device__ __forceinline__ void DiagonalBlock(int first) {
    T row[kBlock] = {};
#pragma unroll
    for (int c = 0; c < kBlock; ++c) {
      const T tau = shared_.tau[first + c];
      row[c] *= -tau;
      if (c == lane_index_) row[c] = tau;
      if (c < lane_index_ || tau == T(0)) row[c] = T(0);
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
      const ByEntries minus_g12{[&](int i, int k) { return -g21[k * kLd + i]; }};
      const ByEntries t11{[&](int i, int k) { return t[i * kLd + k]; }};
      WarpSum<T> x, t12;
      x.template AddProduct<kBlock, kLd>(minus_g12, t + kBlock * kLd + kBlock + col, lane_);
      Store<kLdX>(shared_.x.data + col, x);
      __syncwarp();
      t12.template AddProduct<kBlock, kLdX>(t11, shared_.x.data + col, lane_);
      Store<kLd>(t + kBlock + col, t12);
    }
    __syncthreads();
  }

  // Entry (r, c) of the warp's 32 x 16 to to[r * kLdTo + c].
  template <int kLdTo>
  __device__ __forceinline__ void Store(T* to, const WarpSum<T>& sum) const {
    sum.ForEach(lane_, [&](int r, int c, T value) { to[r * kLdTo + c] = value; });
  }

  __device__ __forceinline__ void Write() {
    T* const to =
        args_.t.vector(matrix_) + static_cast<std::int64_t>(blockIdx.y) * kMaxBlock * kMaxBlock;
    for (int i = static_cast<int>(threadIdx.x); i < nb_ * nb_; i += kThreads) {
      const int r = i / nb_, c = i % nb_;
      to[i] = r <= c ? shared_.t.data[r * kLd + c] : T(0);
    }
  }

  const LarftArgs<T>& args_;
  Shared& shared_;
  const int rank_;
  const std::int64_t matrix_;
  const int j_, nb_;
  const int rows_, chunks_;
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
cudaError_t Start(const LarftArgs<T>& args, int blocks, cudaStream_t stream) {
  using Factor = TriangularFactor<T, kNb>;
  LaunchConfig config;
  config.cluster = args.clusters ? kParts : 1;
  config.grid =
      dim3(static_cast<unsigned>(args.a.count) * config.cluster, static_cast<unsigned>(blocks));
  config.threads = Factor::kThreads;
  config.shared_bytes = sizeof(typename Factor::Shared);
  config.stream = stream;
  return Launch(LarftKernel<T, kNb>, config, args);
}

}  // namespace

template <class T>
cudaError_t Larft(const Work<const T>& a, int j, int cols, const WorkVectors<const T>& tau,
                  const WorkVectors<T>& t, cudaStream_t stream) {
  if (a.count > std::numeric_limits<int>::max()) return cudaErrorInvalidValue;
  const int blocks = (cols + kMaxBlock - 1) / kMaxBlock;
  const bool clusters = a.rows - j > kGroupRows && a.count * blocks <= kFew;
  const LarftArgs<T> args = {a, j, cols, tau, t, clusters};
  return cols <= kBlock ? Start<kBlock>(args, blocks, stream)
                        : Start<kMaxBlock>(args, blocks, stream);
}

template cudaError_t Larft(const Work<const float>&, int, int, const WorkVectors<const float>&,
                           const WorkVectors<float>&, cudaStream_t);
template cudaError_t Larft(const Work<const double>&, int, int, const WorkVectors<const double>&,
                           const WorkVectors<double>&, cudaStream_t);

}  // namespace factord::kernels
