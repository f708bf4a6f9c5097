// The kernel of cholesky.h: sample, stream, sums, and in the last block R.
#pragma once

#include "kernels/simt/launch.h"
#include "kernels/tsqr/cholesky.h"
#include "kernels/tsqr/precondition.h"
#include "kernels/tsqr/stream.h"

namespace factord::kernels::tsqr {

// The last block's work: G from the groups' sums, C, the checks, R.
template <class C>
class CholeskyFinish {
 public:
  static constexpr int N = C::N;

  __device__ __forceinline__ explicit CholeskyFinish(typename C::Shared& shared)
      : shared_(shared),
        col_(static_cast<int>(threadIdx.x) % N),
        group_(static_cast<int>(threadIdx.x) / N) {}

  // The sum of up to kPartsOfGroup parts' entry q, in their order.
  static __device__ __forceinline__ double2 SumOfParts(const double2* parts, int count, int q) {
    double2 v[kPartsOfGroup], sum = {};
#pragma unroll
    for (int i = 0; i < kPartsOfGroup; ++i)
      v[i] = i < count ? __ldcg(parts + i * C::kSums + q) : double2{};
#pragma unroll
    for (int i = 0; i < kPartsOfGroup; ++i) {
      sum.x += v[i].x;
      sum.y += v[i].y;
    }
    return sum;
  }

  // matrix.g := G, from `count` groups' sums in the order of fragments.
  __device__ __forceinline__ void ReadGram(const double2* groups, int count) {
    for (int q = static_cast<int>(threadIdx.x); q < C::kSums; q += C::kThreads) {
      double2 sum = SumOfParts(groups, min(count, kPartsOfGroup), q);
      for (int first = kPartsOfGroup; first < count; first += kPartsOfGroup) {
        const double2 more =
            SumOfParts(groups + first * C::kSums, min(count - first, kPartsOfGroup), q);
        sum.x += more.x;
        sum.y += more.y;
      }
      int tile = q / 64, pair = 0;
      for (; tile >= C::kBlocks - 2 * pair; ++pair) tile -= C::kBlocks - 2 * pair;
      const int lane = q % 32, i = 16 * pair + q % 64 / 32 * 8 + lane / 4;
      const int j = 8 * (2 * pair + tile) + 2 * (lane % 4);
      shared_.matrix.g[i * C::kPitch + j] = sum.x;
      shared_.matrix.g[i * C::kPitch + j + 1] = sum.y;
    }
    __syncthreads();
  }

  // matrix.c := C with G = C^T C; a row is zero where its pivot is lost in rounding. A step asks
  // nothing of who holds which row: what is done to rows that are finished is not looked at.
  __device__ __forceinline__ void Potrf() {
    double* const rows[2] = {shared_.reduce, shared_.reduce + N};
    double g[kOwnRows];
#pragma unroll
    for (int r = 0; r < kOwnRows; ++r) g[r] = shared_.matrix.g[Row(r) * C::kPitch + col_];
    if (threadIdx.x < N) {
      shared_.diagonal[threadIdx.x] = shared_.matrix.g[threadIdx.x * C::kPitch + threadIdx.x];
      rows[0][threadIdx.x] = shared_.matrix.g[threadIdx.x];
    }
    __syncthreads();
#pragma unroll 1
    for (int k = 0; k < N; ++k) {
      const double* const row = rows[k % 2];
      const double d = row[k], gk = row[col_];
      const bool good = d > kLostPivot * shared_.diagonal[k] && d > 1e-280;
      const double f = good ? gk * Reciprocal(d) : 0.0;
#pragma unroll
      for (int r = 0; r < kOwnRows; ++r) g[r] -= row[Row(r)] * f;
      Publish(g, k + 1, rows[(k + 1) % 2]);
      if (group_ == kGroups - 1)
        shared_.matrix.c[k * C::kPitch + col_] = good && col_ >= k ? gk * InverseSqrt(d) : 0.0;
      if (threadIdx.x == 0) shared_.pivots[k] = d;
      __syncthreads();
    }
  }

  // matrix.g := C R0: R of the scaled columns, block upper triangular.
  __device__ __forceinline__ void MultiplyByR0() {
    double g[kOwnRows] = {};
#pragma unroll 2
    for (int k = 0; k < N; ++k) {
      const double b = shared_.r0[k * N + col_];
#pragma unroll
      for (int r = 0; r < kOwnRows; ++r) g[r] += shared_.matrix.c[Row(r) * C::kPitch + k] * b;
    }
#pragma unroll
    for (int r = 0; r < kOwnRows; ++r) {
      if (Holds(r)) shared_.matrix.g[Row(r) * C::kPitch + col_] = g[r];
    }
    if (threadIdx.x < N) shared_.reduce[threadIdx.x] = sqrt(shared_.diagonal[threadIdx.x]);
    __syncthreads();
  }

  // Whether R may be trusted. growth: sum_i ||Y_i|| |R0_ic| against ||A_c||; a pivot over its
  // diagonal: the squared sine of the angle between Y_k and the columns before it. After a first
  // pass a healthy one is of order 1. Later R0 is R itself, and data whose condition exceeds 1 / u
  // keep some near 1e-2 for ever: rounding noise, harmless.
  __device__ __forceinline__ bool IsGood(bool first) {
    constexpr double kMostGrowth = 4 * (N == 16 ? 4 : N == 32 ? 5.7 : 8);
    constexpr double kNoise = 8192 * 0x1p-53;
    const double* const y_norms = shared_.reduce;
    const int k = static_cast<int>(threadIdx.x);
    bool bad = false;
    if (k < N) {
      double square = 0, growth = 0;
      for (int i = 0; i < N; ++i) {
        const double g = shared_.matrix.g[i * C::kPitch + k];
        square += g * g;
        growth += y_norms[i] * fabs(shared_.r0[i * N + k]);
      }
      shared_.norms[k] = sqrt(square);
      bad = !(growth <= kMostGrowth * shared_.norms[k]);
    }
    __syncthreads();
    if (k < N) {
      const int column = shared_.order[k];
      // Zero columns too. Safe: the pivot's error is below 1e-6 of this.
      const bool noise = y_norms[k] * shared_.r0[k * N + column] <= kNoise * shared_.norms[column];
      bad |= !(shared_.diagonal[k] < 1e300);
      bad |= !noise && !(shared_.pivots[k] >= (first ? 0.05 : 1e-3) * shared_.diagonal[k]);
    }
    return __syncthreads_or(bad) == 0;
  }

  // The same of G as it is, R0 = I: every pivot is clear of what G's rounding has left of it.
  __device__ __forceinline__ bool IsGoodGram() {
    const int k = static_cast<int>(threadIdx.x);
    bool bad = false;
    if (k < N) {
      const double diagonal = shared_.diagonal[k];
      bad = !(diagonal < 1e300) || (diagonal != 0 && !(shared_.pivots[k] >= 1e-9 * diagonal));
    }
    return __syncthreads_or(bad) == 0;
  }

  // matrix.g := R of the scaled columns, where it is R up to an orthogonal transformation of the 8
  // rows of each block: Householder reflections, a warp a block.
  __device__ __forceinline__ void UndoPivoting() {
    constexpr int kColumns = C::kColumns;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (int b = static_cast<int>(threadIdx.x) / 32; b < C::kBlocks; b += C::kWarps) {
      double* const block = shared_.matrix.g + 8 * b * C::kPitch;
      double x[8][kColumns];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int c = 0; c < kColumns; ++c) x[i][c] = block[i * C::kPitch + (lane + 32 * c) % N];
      }
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const int p = 8 * b + j;
        double v[8], sigma = 0;
#pragma unroll
        for (int i = j; i < 8; ++i) {
          const double mine = kColumns > 1 ? Select(p >= 32, x[i][kColumns - 1], x[i][0]) : x[i][0];
          v[i] = __shfl_sync(kAllLanes, mine, p % 32);
        }
#pragma unroll
        for (int i = j + 1; i < 8; ++i) sigma += v[i] * v[i];
        const Reflector<double> h = Larfg(v[j], sigma);
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          double product = 0;
#pragma unroll
          for (int i = j + 1; i < 8; ++i) product += v[i] * x[i][c];
          const double w = h.tau * (x[j][c] + h.scale * product), f = h.scale * w;
          x[j][c] -= w;
#pragma unroll
          for (int i = j + 1; i < 8; ++i) x[i][c] -= v[i] * f;
        }
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          const int j = lane + 32 * c;
          if (j < N) block[i * C::kPitch + j] = j >= 8 * b + i ? x[i][c] : 0.0;
        }
      }
    }
    __syncthreads();
  }

  // Gives the rows of `r` the signs of LAPACK's R: that of row k is the opposite of alpha's. A's
  // first rows minus R are L U without pivoting, U's diagonal being alpha - beta: L is that of the
  // reflectors, which need not be known otherwise (Ballard et al., Reconstructing Householder
  // vectors from TSQR, J. Parallel Distrib. Comput. 85, 2015). False where G does not show whether
  // what is below alpha is zero: then beta is alpha, or is not.
  template <class Member>
  __device__ __forceinline__ bool ChooseSigns(const Member& member, double* r) {
    double* const rows[2] = {shared_.reduce, shared_.reduce + N};
    double* const columns[2] = {shared_.reduce + 2 * N, shared_.reduce + 3 * N};
    double a[kOwnRows];
#pragma unroll
    for (int i = 0; i < kOwnRows; ++i)
      a[i] = Row(i) < member.n ? static_cast<double>(member.At(Row(i), col_)) / shared_.scale[col_]
                               : 0.0;
    bool clear = true;
    Publish(a, 0, rows[0]);
    if (col_ == 0) PublishColumn(a, columns[0]);
    __syncthreads();
#pragma unroll 1
    for (int k = 0; k < N; ++k) {
      const double* const row = rows[k % 2];
      const double* const column = columns[k % 2];
      const double rk = r[k * C::kPitch + k];
      // beta has the sign opposite to alpha's.
      const bool flip = signbit(row[k]) == signbit(rk);
      const double rj = r[k * C::kPitch + col_], beta_row = flip ? -rj : rj;
      const double pivot = row[k] - (flip ? -rk : rk);  // |alpha| + |beta|
      const double f = rk != 0 ? (row[col_] - beta_row) * Reciprocal(pivot) : 0.0;
      clear &= rk == 0 || fabs(rk) - fabs(row[k]) > 64 * 0x1p-53 * fabs(rk);
#pragma unroll
      for (int i = 0; i < kOwnRows; ++i) a[i] -= column[Row(i)] * f;
      Publish(a, k + 1, rows[(k + 1) % 2]);
      if (col_ == k + 1) PublishColumn(a, columns[(k + 1) % 2]);
      __syncthreads();
      if (group_ == 0 && rk != 0) r[k * C::kPitch + col_] = beta_row;
    }
    __syncthreads();
    return clear;
  }

 private:
  static constexpr int kGroups = C::kThreads / N;
  static constexpr int kOwnRows = (N + kGroups - 1) / kGroups;
  static constexpr double kLostPivot = 1e-12;
  // Row r of this thread's, of column col_. Where N does not divide some reckon with the last one,
  // but do not hold it.
  __device__ __forceinline__ int Row(int r) const { return min(r * kGroups + group_, N - 1); }
  __device__ __forceinline__ bool Holds(int r) const { return r * kGroups + group_ < N; }
  // to := row k, by those who hold it.
  __device__ __forceinline__ void Publish(const double (&x)[kOwnRows], int k, double* to) const {
#pragma unroll
    for (int r = 0; r < kOwnRows; ++r) {
      int offset = r * kGroups + group_ - k;
      Forget(offset);  // else x would be indexed, and so lie in memory
      if (offset == 0) to[col_] = x[r];
    }
  }
  __device__ __forceinline__ void PublishColumn(const double (&x)[kOwnRows], double* to) const {
#pragma unroll
    for (int r = 0; r < kOwnRows; ++r) {
      if (Holds(r)) to[Row(r)] = x[r];
    }
  }

  typename C::Shared& shared_;
  const int col_, group_;
};

// R0 from the matrix's own rows, or from the R of the pass before.
template <class C>
FACTORD_OUT_OF_LINE __device__ void Precondition(const Member<typename C::T, C::N>& member,
                                                 typename C::Shared& shared, const double* prior) {
  const int rows = member.m;
  Preconditioner<C>(shared).Run([&](int s, int j) -> double {
    if (prior != nullptr) return s < C::N ? __ldcg(prior + s * C::N + j) : 0.0;
    if (rows <= C::kSample) return s < rows ? static_cast<double>(member.At(s, j)) : 0.0;
    const unsigned stratum = static_cast<unsigned>(rows / C::kSample);
    const int row = static_cast<int>(static_cast<std::int64_t>(s) * rows / C::kSample) +
                    static_cast<int>(Mixed(static_cast<unsigned>(s)) % stratum);
    return static_cast<double>(member.At(row, j));
  });
}

// In the last block: R from the groups' sums of G, or what is left to do.
template <class C>
FACTORD_OUT_OF_LINE __device__ void FinishCholesky(const Problem& problem,
                                                   const Batch<typename C::T>& batch,
                                                   const Member<typename C::T, C::N>& member,
                                                   typename C::Shared& shared,
                                                   const double2* groups, int group_count,
                                                   double* prior, bool first) {
  using T = typename C::T;
  constexpr int N = C::N;
  State& state = *member.state;
  CholeskyFinish<C> finish(shared);
  finish.ReadGram(groups, group_count);
  finish.Potrf();
  bool good;
  double* r;
  if constexpr (C::kPreconditions) {
    r = shared.matrix.g;
    finish.MultiplyByR0();
    good = finish.IsGood(first);
    if (good) {
      finish.UndoPivoting();
    } else {
      for (int e = static_cast<int>(threadIdx.x); e < N * N; e += C::kThreads)
        prior[e] = r[e / N * C::kPitch + e % N] * shared.scale[e % N];
    }
  } else {
    r = shared.matrix.c;
    good = finish.IsGoodGram();
  }
  // Another pass would not tell the signs better.
  const bool clear = !good || finish.ChooseSigns(member, r);
  if (threadIdx.x == 0) {
    atomicExch(&state.arrived, 0u);
    state.redo = good ? clear ? kDone : kBySimple : kAgain;
  }
  if (good && clear) {
    WriteR<T, N, C::kThreads>(
        problem, batch, member, [&](int i, int j) { return r[i * C::kPitch + j]; },
        [&](int j) { return shared.scale[j]; }, false);
  }
}

// Pass 0 of a matrix, or if its state asks for another, that one. Block: part of a matrix.
template <class C>
__global__ void __launch_bounds__(C::kThreads, 1)
    CholeskyKernel(const Problem problem, const Batch<typename C::T> batch,
                   const Workspace<typename C::T> work, const bool again, const bool from_prior) {
  using T = typename C::T;
  constexpr int N = C::N;
  const Member<T, N> member(problem, batch, work);
  State& state = *member.state;
  if (again && state.redo != kAgain) return;
  auto& shared = DynamicShared<typename C::Shared>();
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int group = warp / C::kGroup;
  const bool packed = member.IsPacked();
  double* const prior = work.prior + member.index * (N * N);
  if (packed && lane == 0 && warp % C::kGroup == 0) {
    for (int s = 0; s < C::kStages; ++s) BarrierInit(&shared.full[group][s], 1);
    FenceBarrierInit();
    FenceAsyncProxy();
    Stream<C, 0>::Begin(member, shared, group);
  }
  if constexpr (C::kPreconditions) {
    Precondition<C>(member, shared, from_prior ? prior : nullptr);
  } else {
    if (threadIdx.x < N) shared.scale[threadIdx.x] = 1;
    __syncthreads();
  }
  {
    Fragments<C> fragments;
    if constexpr (C::kPreconditions) fragments.Load(shared);
    if (C::kGroup == 1 || warp % 2 == 0) {
      Stream<C, 0>(member, shared, packed).Run(fragments);
    } else {
      Stream<C, C::kGroup - 1>(member, shared, packed).Run(fragments);
    }
  }

  // G of this part, of its group of parts, of all.
  using Finish = CholeskyFinish<C>;
  auto* const parts = reinterpret_cast<double2*>(
      work.sums + member.index * (static_cast<std::int64_t>(member.parts + kMaxGroups) * N * N));
  double2* const groups = parts + member.parts * C::kSums;
  const int part_group = member.part / kPartsOfGroup, first = part_group * kPartsOfGroup;
  const int members = min(kPartsOfGroup, member.parts - first);
  const int group_count = (member.parts + kPartsOfGroup - 1) / kPartsOfGroup;
  for (int q = static_cast<int>(threadIdx.x); q < C::kSums; q += C::kThreads) {
    double2 sum = shared.sums[0][q];
#pragma unroll
    for (int g = 1; g < C::kGroups; ++g) {
      sum.x += shared.sums[g][q].x;
      sum.y += shared.sums[g][q].y;
    }
    parts[member.part * C::kSums + q] = sum;
  }
  if (!IsLastOf(&state.arrived_of_group[part_group], members)) return;
  for (int q = static_cast<int>(threadIdx.x); q < C::kSums; q += C::kThreads)
    groups[part_group * C::kSums + q] = Finish::SumOfParts(parts + first * C::kSums, members, q);
  if (threadIdx.x == 0) atomicExch(&state.arrived_of_group[part_group], 0u);
  if (!IsLastOf(&state.arrived, group_count)) return;

  FinishCholesky<C>(problem, batch, member, shared, groups, group_count, prior, !from_prior);
}

template <class C>
cudaError_t LaunchCholesky(const Problem& problem, const Batch<typename C::T>& batch,
                           const Workspace<typename C::T>& work, bool again, bool from_prior,
                           cudaStream_t stream) {
  return Launch(CholeskyKernel<C>,
                {.grid = dim3(static_cast<unsigned>(batch.count * work.parts)),
                 .threads = C::kThreads,
                 .shared_bytes = sizeof(typename C::Shared),
                 .stream = stream},
                problem, batch, work, again, from_prior);
}

template <class T, int N>
cudaError_t RunCholesky(const Problem& problem, const Batch<T>& batch, const Workspace<T>& work,
                        cudaStream_t stream) {
  using Preconditioned = Cholesky<T, N, true>;
  if constexpr (sizeof(T) == 4) {
    FACTORD_RETURN_IF_CUDA_ERROR(
        (LaunchCholesky<Cholesky<T, N, false>>(problem, batch, work, false, false, stream)));
  }
  FACTORD_RETURN_IF_CUDA_ERROR(
      LaunchCholesky<Preconditioned>(problem, batch, work, sizeof(T) == 4, false, stream));
  for (int pass = 0; pass < 2; ++pass)
    FACTORD_RETURN_IF_CUDA_ERROR(
        LaunchCholesky<Preconditioned>(problem, batch, work, true, true, stream));
  return cudaSuccess;
}

}  // namespace factord::kernels::tsqr
