// The pass over the rows: Y = A R0^-1 by tiles of 16 rows, and G = Y^T Y.
#pragma once

#include "kernels/simt/ptx.h"
#include "kernels/simt/sums.h"
#include "kernels/tsqr/cholesky.h"

namespace factord::kernels::tsqr {

// R0's blocks as the substitution's right operands: -R0_ij, and S_j on the diagonal, both for
// columns as they come. A lane holds rows 2t, 2t + 1 and column g of a block (g = lane / 4, t =
// lane % 4): the accumulator of a tile is its left operand if slot t of k means column 2t, slot t +
// 4 column 2t + 1.
template <class C>
class Fragments {
 public:
  // By all threads.
  __device__ __forceinline__ void Load(typename C::Shared& shared) {
    in_shared_ = shared.fragments + threadIdx.x % 32;
    constexpr int N = C::N;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int j = 0; j < C::kBlocks; ++j) {
#pragma unroll
      for (int i = 0; i <= j; ++i) {
        double2 f;
        if (i < j) {
          const double scale = -shared.scale[8 * j + g];
          f.x = shared.r0[(8 * i + 2 * t) * N + 8 * j + g] * scale;
          f.y = shared.r0[(8 * i + 2 * t + 1) * N + 8 * j + g] * scale;
        } else {
          const int row = 8 * j + 2 * t;
          f.x = shared.inverse[row * 8 + g] / shared.scale[row];
          f.y = shared.inverse[(row + 1) * 8 + g] / shared.scale[row + 1];
        }
        if constexpr (C::kFragmentsInShared) {
          if (Index(i, j) % C::kWarps == warp) in_shared_[Index(i, j) * 32] = f;
        } else {
          own_[Index(i, j)] = f;
        }
      }
    }
    __syncthreads();
  }

  __device__ __forceinline__ void Get(int i, int j, double (&b)[2]) const {
    double2 f;
    if constexpr (C::kFragmentsInShared) {
      f = in_shared_[Index(i, j) * 32];
    } else {
      f = own_[Index(i, j)];
    }
    b[0] = f.x;
    b[1] = f.y;
  }

 private:
  static FACTORD_HOST_DEVICE constexpr int Index(int i, int j) { return j * (j + 1) / 2 + i; }
  double2 own_[C::kFragmentsInShared ? 1 : C::kFragments];
  double2* in_shared_ = nullptr;
};

// One warp's share of a pass. kHalf: of a pair of warps, or 0.
template <class C, int kHalf>
class Stream {
 public:
  using T = typename C::T;
  static constexpr int N = C::N;
  using Tile = double[C::kBlocks][4];  // 16 rows: per block (g, 2t), (g, 2t + 1), and both at g + 8

  __device__ __forceinline__ Stream(const Member<T, N>& member, typename C::Shared& shared,
                                    bool packed)
      : member_(member),
        shared_(shared),
        packed_(packed),
        lane_(static_cast<int>(threadIdx.x) % 32),
        group_(static_cast<int>(threadIdx.x) / 32 / C::kGroup),
        g_(lane_ / 4),
        t_(lane_ % 4) {}

  // Adds this warp's part of G to shared.sums, in the order of fragments. By all threads.
  __device__ __forceinline__ void Run(const Fragments<C>& fragments) {
    const int rows = member_.m, step = member_.parts * C::kGroups;
    const int whole = rows / C::kRows, stages = (rows + C::kRows - 1) / C::kRows;
    int stage = 0, parity = 0;
#pragma unroll 1
    for (int s = member_.part * C::kGroups + group_; s < stages; s += step) {
      Tile tiles[C::kTiles];
      const bool from_ring = packed_ && s < whole;
      if (from_ring) {
        BarrierWait(&shared_.full[group_][stage], parity);
        ReadRing(shared_.ring[group_][stage][kHalf].rows, tiles);
      } else {
        ReadMemory(s * C::kRows + kHalf * (C::kRows / C::kGroup), tiles);
      }
      const auto refill = [&] {
        if (from_ring) Refill(s + step * C::kStages, whole, stage);
      };
      if constexpr (C::kGroup == 1) refill();
      if constexpr (C::kPreconditions) Substitute(tiles, fragments);
#pragma unroll
      for (int r = 0; r < C::kTiles; ++r) {
        Transpose(tiles[r]);
        AddGram(tiles[r]);
        if constexpr (C::kGroup > 1) {
          Exchange(r, shared_.ring[group_][stage], tiles[r]);
          AddGram(tiles[r]);
        }
      }
      if constexpr (C::kGroup > 1) refill();
      if (++stage == C::kStages) {
        stage = 0;
        parity ^= 1;
      }
    }
    MeetAll();
    WriteSums();
    MeetAll();
  }

  // Fills the ring. Whole stages alone come through it.
  static __device__ __forceinline__ void Begin(const Member<T, N>& member,
                                               typename C::Shared& shared, int group) {
    const int whole = member.m / C::kRows, step = member.parts * C::kGroups;
    for (int i = 0; i < C::kStages; ++i)
      Copy(member, shared, group, member.part * C::kGroups + group + i * step, whole, i);
  }

 private:
  static __device__ __forceinline__ void Copy(const Member<T, N>& member,
                                              typename C::Shared& shared, int group, int s,
                                              int whole, int stage) {
    if (s >= whole) return;
    constexpr std::uint32_t kBytes = sizeof(C::Stage::rows);
    const T* const from = member.a + static_cast<std::int64_t>(s) * C::kRows * N;
    Barrier* const full = &shared.full[group][stage];
    BarrierArriveExpect(full, C::kGroup * kBytes);
#pragma unroll
    for (int half = 0; half < C::kGroup; ++half)
      CopyBulk(shared.ring[group][stage][half].rows, from + half * (C::kRows / C::kGroup) * N,
               kBytes, full);
  }
  // Every lane's reads of the stage have been made before the copy writes there: without the fence
  // those that are only issued may come after it, the more often the sooner the copy comes.
  __device__ __forceinline__ void Refill(int s, int whole, int stage) const {
    FenceAsyncProxy();
    if (C::kGroup > 1) {
      Meet();
    } else {
      __syncwarp();
    }
    if (kHalf == 0 && lane_ == 0) Copy(member_, shared_, group_, s, whole, stage);
  }
  // Of the block. Its two halves come from different places in the code, which __syncthreads
  // forbids.
  static __device__ __forceinline__ void MeetAll() {
    if (C::kGroup == 1) {
      __syncthreads();
    } else {
      SyncWarps(C::kGroups + 1, C::kThreads);
    }
  }
  __device__ __forceinline__ void Meet() const { SyncWarps(group_ + 1, 32 * C::kGroup); }

  __device__ __forceinline__ void ReadRing(const T* rows, Tile (&tiles)[C::kTiles]) const {
    struct alignas(2 * sizeof(T)) Two {
      T x, y;
    };
#pragma unroll
    for (int r = 0; r < C::kTiles; ++r) {
#pragma unroll
      for (int b = 0; b < C::kBlocks; ++b) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const Two two =
              *reinterpret_cast<const Two*>(rows + (r * 16 + h * 8 + g_) * N + 8 * b + 2 * t_);
          tiles[r][b][2 * h] = two.x;
          tiles[r][b][2 * h + 1] = two.y;
        }
      }
    }
  }
  __device__ __forceinline__ void ReadMemory(int row, Tile (&tiles)[C::kTiles]) const {
#pragma unroll
    for (int r = 0; r < C::kTiles; ++r) {
#pragma unroll
      for (int b = 0; b < C::kBlocks; ++b) {
#pragma unroll
        for (int e = 0; e < 4; ++e)
          tiles[r][b][e] = member_.At(row + r * 16 + e / 2 * 8 + g_, 8 * b + 2 * t_ + e % 2);
      }
    }
  }

  // Y from A.
  __device__ __forceinline__ void Substitute(Tile (&tiles)[C::kTiles],
                                             const Fragments<C>& fragments) const {
#pragma unroll
    for (int i = 0; i < C::kBlocks; ++i) {
      double b[2];
      fragments.Get(i, i, b);
#pragma unroll
      for (int r = 0; r < C::kTiles; ++r) {
        double y[4] = {};
        Mma16x8x8(y, Left(tiles[r][i]).a, b);
#pragma unroll
        for (int e = 0; e < 4; ++e) tiles[r][i][e] = y[e];
      }
#pragma unroll
      for (int j = i + 1; j < C::kBlocks; ++j) {
        fragments.Get(i, j, b);
#pragma unroll
        for (int r = 0; r < C::kTiles; ++r) Mma16x8x8(tiles[r][j], Left(tiles[r][i]).a, b);
      }
    }
  }
  struct Operand {
    double a[4];
  };
  static __device__ __forceinline__ Operand Left(const double (&x)[4]) {
    return {{x[0], x[2], x[1], x[3]}};
  }

  // Each 8 x 8 half of a block: afterwards a lane has column g, rows 2t and 2t + 1.
  __device__ __forceinline__ void Transpose(Tile& tile) const {
    const bool odd = (g_ & 1) != 0;
    const int from_even = 8 * t_ + g_ / 2 + (odd ? 4 : 0),
              from_odd = 8 * t_ + g_ / 2 + (odd ? 0 : 4);
#pragma unroll
    for (int b = 0; b < C::kBlocks; ++b) {
#pragma unroll
      for (int h = 0; h < 4; h += 2) {
        const double x = tile[b][h], y = tile[b][h + 1];
        const double p = __shfl_sync(kAllLanes, Select(odd, y, x), from_even);
        const double q = __shfl_sync(kAllLanes, Select(odd, x, y), from_odd);
        tile[b][h] = Select(odd, q, p);
        tile[b][h + 1] = Select(odd, p, q);
      }
    }
  }

  // This half's tiles of G += (transposed) tile^T tile: two steps of 8 rows.
  __device__ __forceinline__ void AddGram(const Tile& y) {
    int at = 0;
#pragma unroll
    for (int pair = 0; pair < C::kPairs; ++pair) {
      if (!C::Owns(pair, kHalf)) continue;
#pragma unroll
      for (int b = 2 * pair; b < C::kBlocks; ++b, ++at) {
        const double(&u)[4] = y[2 * pair];
        const double(&v)[4] = y[2 * pair + 1];
#pragma unroll
        for (int h = 0; h < 4; h += 2) {
          const double left[4] = {u[h], v[h], u[h + 1], v[h + 1]},
                       right[2] = {y[b][h], y[b][h + 1]};
          Mma16x8x8(gram_[at], left, right);
        }
      }
    }
  }

  // The partner's tile for this one, through the rows' own place in the ring.
  __device__ __forceinline__ void Exchange(int r, typename C::Stage (&stage)[C::kGroup],
                                           Tile& tile) const {
    __syncwarp();  // all lanes have read their rows
    double2* const mine = stage[kHalf].exchange + r * C::kBlocks * 64 + lane_;
    const double2* const other = stage[1 - kHalf].exchange + r * C::kBlocks * 64 + lane_;
#pragma unroll
    for (int b = 0; b < C::kBlocks; ++b) {
      mine[b * 64] = {tile[b][0], tile[b][1]};
      mine[b * 64 + 32] = {tile[b][2], tile[b][3]};
    }
    Meet();
#pragma unroll
    for (int b = kHalf == 0 ? 0 : 2; b < C::kBlocks; ++b) {
      const double2 x = other[b * 64], y = other[b * 64 + 32];
      tile[b][0] = x.x;
      tile[b][1] = x.y;
      tile[b][2] = y.x;
      tile[b][3] = y.y;
    }
  }

  __device__ __forceinline__ void WriteSums() const {
    double2* const sums = shared_.sums[group_] + lane_;
    int own = 0, i = 0;
#pragma unroll
    for (int pair = 0; pair < C::kPairs; ++pair) {
#pragma unroll
      for (int b = 2 * pair; b < C::kBlocks; ++b, ++i) {
        if (!C::Owns(pair, kHalf)) continue;
        sums[i * 64] = {gram_[own][0], gram_[own][1]};
        sums[i * 64 + 32] = {gram_[own][2], gram_[own][3]};
        ++own;
      }
    }
  }

  const Member<T, N>& member_;
  typename C::Shared& shared_;
  const bool packed_;
  const int lane_, group_, g_, t_;
  double gram_[C::kOwnTiles][4] = {};
};

}  // namespace factord::kernels::tsqr
