// Panels in registers: one block a matrix, or a cluster of two, and one warp for each leaf of kVec
// columns.
//
// Warps take turns. Warp w first applies the reflectors of leaves 0 ... w - 1 to its own columns,
// as they come, then factors its leaf and publishes each reflector in shared memory, behind one
// barrier a column. Consumers only wait and producers only arrive, so the next leaf starts while
// others still catch up.
//
// In a cluster the first half of the leaves belongs to block 0 and the second to block 1. A
// finished leaf of block 0 also goes to block 1, in one bulk copy, into the slot of the same
// number. When all warps there have applied it the slot is free for block 1's own leaf. Both forms
// are one kernel, so their bits are the same.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

#include "kernels/panel/block_sizes.h"
#include "kernels/panel/leaf.h"
#include "kernels/panel/panel.h"
#include "kernels/simt/launch.h"
#include "kernels/simt/ptx.h"

namespace factord::kernels {

template <class T>
struct BlockPanelArgs {
  Work<T> a;
  int j, nb;
  WorkVectors<T> tau;
  int blocks;  // a matrix: 1 or 2

  FACTORD_HOST_DEVICE int rows() const { return a.rows - j; }
};

template <class T, int kItems, int kVec, int kWarps, int kMaxCols>
struct BlockPanel {
  using Ops = Leaf<T, kItems, kVec>;
  using Tile = typename Ops::Tile;
  static constexpr int kChunk = Chunk<T>::kSize;
  static constexpr int kRowBlocks =
      std::min(kItems, (kMaxCols + 31) / 32);  // that can hold a diagonal

  // A published leaf.
  struct alignas(16) Slot {
    T v[kVec][Ops::kLd];
    T tau[kVec];
  };

  // Shared memory: a slot and the barriers of each of `warps` leaves. While the panel is loaded the
  // slots and `padding` hold it row by row; the odd number of chunks a row keeps the lanes, each at
  // a row of its own, in different banks.
  static constexpr std::size_t kPadding = sizeof(T) * kChunk * Ops::kLd;
  static constexpr std::size_t SharedBytes(int warps) {
    return warps * (sizeof(Slot) + (kVec + 2) * sizeof(Barrier)) + kPadding;
  }
  static_assert(SharedBytes(std::min(kWarps, kMaxCols / kVec)) <= (227 << 10));

  const BlockPanelArgs<T>& args;
  const std::int64_t matrix;
  const int rank;    // of this block in the cluster
  const int warps;   // of this block
  const int leaves;  // of the matrix
  const int warp, lane;
  const int leaf;  // this warp's; in block 1 the last warp may be one too many
  Slot* const slots;
  Barrier* const ready;    // [warps * kVec]: own reflectors, one by one
  Barrier* const arrived;  // [warps], in block 1: a leaf of block 0 is in the slot
  Barrier* const drained;  // [warps], in block 1: all warps have applied it

  static __device__ BlockPanel Make(const BlockPanelArgs<T>& args) {
    const int rank = args.blocks == 1 ? 0 : ClusterRank();
    const int warps = static_cast<int>(blockDim.x) / 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    std::byte* shared = &DynamicShared<std::byte>();
    Barrier* barriers = reinterpret_cast<Barrier*>(shared + warps * sizeof(Slot) + kPadding);
    return {args,
            blockIdx.x / args.blocks,
            rank,
            warps,
            args.nb / kVec,
            warp,
            static_cast<int>(threadIdx.x) % 32,
            rank * warps + warp,
            reinterpret_cast<Slot*>(shared),
            barriers,
            barriers + warps * kVec,
            barriers + warps * (kVec + 1)};
  }

  __device__ __forceinline__ void Run() const {
    InitBarriers();
    Tile x;
    Load(x);
    for (int l = 0; l < leaf; ++l) {
      WithRowBlock(l, [&]<int I0>() { Consume<I0>(x, l); });
    }
    if (leaf < leaves) {
      WithRowBlock(leaf, [&]<int I0>() { Produce<I0>(x); });
      Store(x);
    }
    if (args.blocks > 1) {  // a block stays until its copies have been read
      __syncwarp();
      ClusterArrive();
      ClusterWait();
    }
  }

 private:
  // f<I0>() with the row block that holds the leaf's diagonal.
  template <class F>
  static __device__ __forceinline__ void WithRowBlock(int leaf, F f) {
    const int block = leaf * kVec / 32;
    [&]<int... I>(std::integer_sequence<int, I...>) {
      ((block == I ? f.template operator()<I>() : void()), ...);
    }
    (std::make_integer_sequence<int, kRowBlocks>{});
  }

  __device__ __forceinline__ void InitBarriers() const {
    for (int i = threadIdx.x; i < warps * kVec; i += blockDim.x) BarrierInit(&ready[i], 1);
    if (args.blocks == 1) return;  // the barrier at the end of Load makes them known
    if (lane == 0) {
      BarrierInit(&arrived[warp], 1);
      BarrierInit(&drained[warp], warps);
      FenceBarrierInit();
      if (rank > 0) BarrierArriveExpect(&arrived[warp], sizeof(Slot));
    }
    __syncwarp();
  }

  // The columns of this block through shared memory: 16 bytes a thread, neighbours next to each
  // other. Straight from global memory each lane would fetch from a row of its own.
  __device__ __forceinline__ void Load(Tile& x) const {
    constexpr int kRowsAtOnce = 32 * kChunk / kVec;  // threads / chunks of a row
    const int chunks = warps * kVec / kChunk, ld = (chunks + 1) * kChunk;
    const int first_col = rank * warps * kVec;
    const int chunk = threadIdx.x % chunks;
    const T* a = args.a.matrix(matrix) + static_cast<std::int64_t>(args.j) * args.a.ld + args.j +
                 first_col + chunk * kChunk;
    T* stage = reinterpret_cast<T*>(slots);
    if (first_col + chunk * kChunk < args.nb) {
      for (int row = threadIdx.x / chunks; row < args.rows(); row += kRowsAtOnce) {
        CopyAsync16(stage + row * ld + chunk * kChunk,
                    a + static_cast<std::int64_t>(row) * args.a.ld);
      }
    }
    CopyAsyncCommit();
    CopyAsyncWait<0>();
    __syncthreads();
    Ops::Load(x, stage + warp * kVec, ld, leaf < leaves ? args.rows() : 0, lane);
    if (args.blocks == 1) {
      __syncthreads();
    } else {
      FenceAsyncProxy();  // the next to write here is a bulk copy of block 0
      ClusterArrive();
      ClusterWait();
    }
  }

  // Applies leaf l to the own columns.
  template <int I0>
  __device__ __forceinline__ void Consume(Tile& x, int l) const {
    const bool own = l >= rank * warps;  // this block's
    const int at = own ? l - rank * warps : l;
    const Slot& slot = slots[at];
    if (!own) BarrierWaitCluster(&arrived[at], 0);
#pragma unroll 1
    for (int k = 0; k < kVec; ++k) {
      if (own) BarrierWait(&ready[at * kVec + k], 0);
      Ops::template Apply<I0>(x, slot.v[k], slot.tau[k], lane);
    }
    if (!own) {
      __syncwarp();
      if (lane == 0) BarrierArrive(&drained[at]);
    }
  }

  // Factors the own leaf and publishes it.
  template <int I0>
  __device__ __forceinline__ void Produce(Tile& x) const {
    Slot& slot = slots[warp];
    if (rank > 0) BarrierWait(&drained[warp], 0);
    Ops::template Factor<I0>(x, leaf * kVec, lane, [&](int k, T tau, const T(&v)[kItems]) {
#pragma unroll
      for (int i = I0; i < kItems; ++i) slot.v[k][32 * i + lane] = v[i];
      if (lane == 0) slot.tau[k] = tau;
      __syncwarp();
      if (lane == 0) BarrierArrive(&ready[warp * kVec + k]);
    });
    if (args.blocks > 1 && rank == 0) {
      FenceAsyncProxy();
      __syncwarp();
      if (lane == 0) CopyToPeer(&slot, 1, &slot, sizeof(Slot), &arrived[warp]);
      __syncwarp();
    }
  }

  __device__ __forceinline__ void Store(const Tile& x) const {
    const int col = args.j + leaf * kVec;
    Ops::Store(x, args.a.matrix(matrix) + static_cast<std::int64_t>(args.j) * args.a.ld + col,
               args.a.ld, args.rows(), lane);
    if (lane < kVec) args.tau.vector(matrix)[col + lane] = slots[warp].tau[lane];
  }
};

template <class T, int kItems, int kVec, int kWarps, int kMaxCols>
__global__ void __launch_bounds__(32 * kWarps, 1) BlockPanelKernel(const BlockPanelArgs<T> args) {
  BlockPanel<T, kItems, kVec, kWarps, kMaxCols>::Make(args).Run();
}

template <class T, int kItems, int kVec, int kWarps, int kMaxCols>
cudaError_t LaunchBlockPanel(const BlockPanelArgs<T>& args, cudaStream_t stream) {
  using Kernel = BlockPanel<T, kItems, kVec, kWarps, kMaxCols>;
  const int warps = (args.nb / kVec + args.blocks - 1) / args.blocks;
  LaunchConfig config;
  config.grid = dim3(static_cast<unsigned>(args.a.count * args.blocks));
  config.threads = static_cast<unsigned>(32 * warps);
  config.shared_bytes = Kernel::SharedBytes(warps);
  config.cluster = static_cast<unsigned>(args.blocks);
  config.stream = stream;
  return Launch(BlockPanelKernel<T, kItems, kVec, kWarps, kMaxCols>, config, args);
}

// The first size of the table with this vec that holds the panel; cudaErrorInvalidValue where there
// is none.
template <class T>
cudaError_t FactorPanelInRegisters(const BlockPanelArgs<T>& args, int vec, cudaStream_t stream) {
  static constexpr auto& kSizes = BlockSizes<kDtypeOf<T>>();
  cudaError_t error = cudaErrorInvalidValue;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    ((kSizes[I].vec == vec && kSizes[I].Holds(args.rows(), args.nb, args.blocks) &&
      (error =
           LaunchBlockPanel<T, kSizes[I].items, kSizes[I].vec, kSizes[I].warps, kSizes[I].max_cols>(
               args, stream),
       true)) ||
     ...);
  }
  (std::make_index_sequence<std::size(kSizes)>{});
  return error;
}

}  // namespace factord::kernels
