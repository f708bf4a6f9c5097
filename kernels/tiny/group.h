// QR of matrices up to 32 x 32: a group of kLanes lanes of a warp for each, one column a lane, rows
// in registers. Dot products stay in a lane; only the reflector travels.
//
// All groups of a launch take the same steps, those of the batch's largest matrix: rows and columns
// that a matrix does not have are zeros, and zeros are exact no-ops of every step. So its bits do
// not depend on its neighbours' shapes, nor on kRows and kLanes.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/householder.h"
#include "kernels/simt/launch.h"
#include "kernels/simt/ptx.h"
#include "kernels/simt/sums.h"
#include "kernels/tiny/member.h"
#include "kernels/work.h"

namespace factord::kernels::tiny {

template <class T, int kRows, int kLanes>
class Group {
  static_assert(kRows >= kLanes && 32 % kLanes == 0 && kRows % 8 == 0);

 public:
  static constexpr int kThreads = 128;
  static constexpr int kPerBlock = kThreads / kLanes;
  // Blocks of a multiprocessor: as many as registers allow.
  static constexpr int kBlocks = sizeof(T) == 4 ? (kRows == 8    ? 9
                                                   : kRows == 16 ? 7
                                                                 : 5)
                                                : (kRows == 8    ? 6
                                                   : kRows == 16 ? 4
                                                                 : 3);
  // A tile of shared memory holds a matrix by rows. The odd stride keeps a column's entries in
  // different banks, kTile = kLanes (mod 32) those of a warp's groups. What it leaves free at the
  // end of row i is tau_i.
  static constexpr int kStride = kLanes + 1;
  static constexpr int kTile = RoundUp(kRows * kStride, 32) + kLanes % 32;
  static constexpr std::size_t Bytes(bool staged) {
    return sizeof(T) * (staged ? 2 : 1) * kPerBlock * kTile;
  }

  // `staged`: an operand goes by columns, and passes through a tile of its own.
  __device__ __forceinline__ explicit Group(bool staged)
      : lane_(static_cast<int>(threadIdx.x) % kLanes),
        first_(static_cast<int>(threadIdx.x) % 32 - lane_),
        factors_(&DynamicShared<T>() + static_cast<int>(threadIdx.x) / kLanes * kTile),
        stage_(factors_ + (staged ? kPerBlock * kTile : 0)) {}

  __device__ __forceinline__ std::int64_t index() const {
    return static_cast<std::int64_t>(blockIdx.x) * kPerBlock + threadIdx.x / kLanes;
  }
  __device__ __forceinline__ int lane() const { return lane_; }

  // Bit i: lane i's.
  __device__ __forceinline__ unsigned Ballot(bool mine) const {
    constexpr unsigned kMask = kLanes == 32 ? ~0u : (1u << kLanes % 32) - 1;
    return __ballot_sync(kAllLanes, mine) >> first_ & kMask;
  }
  __device__ __forceinline__ bool Any(bool mine) const { return Ballot(mine) != 0; }

  // ---- columns

  // x := this lane's column of `from`, number c0 + lane; zeros outside.
  __device__ __forceinline__ void LoadColumn(const Operand<const T>& from, int c0,
                                             T (&x)[kRows]) const {
    const int c = c0 + lane_;
    const int rows = c < from.cols ? from.rows : 0;
    if (!from.by_columns) {
      const T* at = &from.at(0, c);
#pragma unroll
      for (int r = 0; r < kRows; ++r, at += from.row) x[r] = r < rows ? *at : T(0);
      return;
    }
    CopyByColumns(
        from.rows, from.cols - c0, [&](int r, int j) { return from.at(r, c0 + j); },
        [&](int r, int j, T entry) { stage_[r * kStride + j] = entry; });
    __syncwarp();
#pragma unroll
    for (int r = 0; r < kRows; ++r) x[r] = r < rows ? stage_[r * kStride + lane_] : T(0);
    __syncwarp();
  }

  __device__ __forceinline__ void StoreColumn(const T (&x)[kRows], const Operand<T>& to,
                                              int c0) const {
    if (!to.by_columns) {
      const int c = c0 + lane_;
      const int rows = c < to.cols ? to.rows : 0;
      T* at = &to.at(0, c);
#pragma unroll
      for (int r = 0; r < kRows; ++r, at += to.row) {
        if (r < rows) *at = x[r];
      }
      return;
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) stage_[r * kStride + lane_] = x[r];
    __syncwarp();
    CopyByColumns(
        to.rows, to.cols - c0, [&](int r, int j) { return stage_[r * kStride + j]; },
        [&](int r, int j, T entry) { to.at(r, c0 + j) = entry; });
    __syncwarp();
  }

  // ---- factors: V's tails below the diagonal of the tile, R or a unit triangle above, tau

  // A = Q R, x the lane's column, scaled. `rows` and `steps`: the batch's m and k. False where this
  // lane made an entry of R that is not finite.
  __device__ __forceinline__ bool Factor(T (&x)[kRows], int rows, int steps, T unscale) const {
    Tail tail;
    T* row = factors_;
    FactorFrom<kRows>(x, 0, rows, steps, unscale, tail, row);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (steps + r < kRows) row[r * kStride + lane_] = x[r] * tail.scale;
    }
    __syncwarp();
    return tail.zero_if_finite == T(0);
  }

  // See ChooseFlips in member.h. Below the smallest number R's diagonal still has its sign.
  __device__ __forceinline__ unsigned Flips(Sign sign, int m, int k) const {
    const T* const own = factors_ + lane_ * kStride;
    const unsigned negative = Ballot(lane_ < k && signbit(own[lane_]));
    return ChooseFlips(sign, negative, Ballot(lane_ < k && own[kLanes] != T(0)), m);
  }

  __device__ __forceinline__ void NegateRowsOfR(unsigned flips) const {
    for (; flips != 0; flips &= flips - 1) {
      const int r = __ffs(static_cast<int>(flips)) - 1;
      T& entry = factors_[r * kStride + lane_];
      if (r <= lane_) entry = -entry;
    }
    __syncwarp();
  }

  // The tile's entries; `upper`: zeros below the diagonal.
  __device__ __forceinline__ void StoreFactors(const Operand<T>& to, bool upper) const {
    T x[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      x[r] = upper && r > lane_ ? T(0) : factors_[r * kStride + lane_];
    StoreColumn(x, to, 0);
  }
  __device__ __forceinline__ void StoreTau(T* tau, int k) const {
    if (lane_ < k) tau[lane_] = factors_[lane_ * kStride + kLanes];
  }

  // On and above the diagonal: R makes way for the identity.
  __device__ __forceinline__ void MakeUnitTriangle() const {
    __syncwarp();
#pragma unroll 4
    for (int r = 0; r < kLanes; ++r) {
      if (r <= lane_) factors_[r * kStride + lane_] = r == lane_ ? T(1) : T(0);
    }
    __syncwarp();
  }

  // Given factors, with a unit triangle. False where this lane met a NaN or an Inf.
  __device__ __forceinline__ bool LoadFactors(const Operand<const T>& from, const T* tau,
                                              int k) const {
    T x[kRows];
    LoadColumn(from, 0, x);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r <= lane_ || lane_ >= k) x[r] = r == lane_ ? T(1) : T(0);
      factors_[r * kStride + lane_] = x[r];
    }
    const T own_tau = lane_ < k ? tau[lane_] : T(0);
    factors_[lane_ * kStride + kLanes] = own_tau;
    __syncwarp();
    return max(LargestField(x), ExponentField(own_tau)) != Ieee<T>::kTopField;
  }

  // y := H_1 ... H_k y, or H_k ... H_1 y. `steps`: the batch's k. The tile holds a unit triangle.
  __device__ __forceinline__ void ApplyQ(bool transpose, int steps, T (&y)[kRows]) const {
#pragma unroll 1
    for (int step = 0; step < steps; ++step)
      ApplyReflector<0>(transpose ? step : steps - 1 - step, y);
  }

 private:
  // While a lane's column is factored.
  struct Tail {
    T scale = T(1);           // of its entries below the diagonal, once its reflector is known
    T zero_if_finite = T(0);  // the sum of 0 times each finished entry
  };

  static constexpr int kFactorRows = 4;  // registers that each stage of Factor drops
  static constexpr int kApplyRows = 8;

  __device__ __forceinline__ static T FromLane(int lane, T x) {
    return __shfl_sync(kAllLanes, x, lane, kLanes);
  }

  // to(r, c, from(r, c)) for all r < rows, c < min(cols, kLanes), neighbouring lanes in a column;
  // several reads under way before the first write.
  template <class From, class To>
  __device__ __forceinline__ void CopyByColumns(int rows, int cols, From from, To to) const {
    constexpr int kHeight = kRows / kLanes, kWidth = 8 / kHeight;
    cols = min(cols, kLanes);
#pragma unroll 1
    for (int c0 = 0; c0 < cols; c0 += kWidth) {
      T entries[kWidth][kHeight];
      const auto for_entries = [&](auto visit) {
#pragma unroll
        for (int c = 0; c < kWidth; ++c) {
#pragma unroll
          for (int i = 0; i < kHeight; ++i) {
            const int r = i * kLanes + lane_;
            if (r < rows && c0 + c < cols) visit(r, c0 + c, entries[c][i]);
          }
        }
      };
      for_entries([&](int r, int c, T& entry) { entry = from(r, c); });
      for_entries([&](int r, int c, T& entry) { to(r, c, entry); });
    }
  }

  // Steps k ... while more than kLive - kFactorRows rows are left. x[0] is in row k, which will
  // stand at `row` in the tile: rows move up by one at each step, so that no register's number
  // depends on k.
  template <int kLive>
  __device__ __forceinline__ void FactorFrom(T (&x)[kRows], int k, int rows, int steps, T unscale,
                                             Tail& tail, T*& row) const {
    const int end = min(steps, rows - (kLive - kFactorRows));
#pragma unroll 1
    for (; k < end; ++k, row += kStride) Eliminate<kLive>(x, k, unscale, tail, row);
    if constexpr (kLive > kFactorRows)
      FactorFrom<kLive - kFactorRows>(x, k, rows, steps, unscale, tail, row);
  }

  // Column k's reflector on all columns. Row k leaves for the tile.
  //
  // Every product that is added to something is in an fma: so that the compiler has no choice, and
  // all instances of this function give the same bits.
  template <int kLive>
  __device__ __forceinline__ void Eliminate(T (&x)[kRows], int k, T unscale, Tail& tail,
                                            T* row) const {
    T column[kLive];
#pragma unroll
    for (int r = 0; r < kLive; ++r) column[r] = FromLane(k, x[r]);
    T sums[4] = {};
#pragma unroll
    for (int r = 1; r < kLive; ++r) sums[r % 4] = fma(column[r], x[r], sums[r % 4]);
    const T dot = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    const Reflector<T> h = Larfg(column[0], FromLane(k, dot));
    const bool right = lane_ > k, own = lane_ == k;
    const T w = fma(h.scale, dot, x[0]);
    // On the diagonal -0 becomes +0.
    const T r = (right ? fma(-h.tau, w, x[0]) : h.beta + T(0)) * unscale;
    const T finished = right || own ? r : x[0] * tail.scale;
    row[lane_] = finished;
    tail.zero_if_finite = fma(T(0), finished, tail.zero_if_finite);
    if (own) {
      row[kLanes] = h.tau;
      tail.scale = h.scale;
    }
    const T y = right ? h.tau * h.scale * w : T(0);
#pragma unroll
    for (int i = 1; i < kLive; ++i) x[i - 1] = fma(-y, column[i], x[i]);
    x[kLive - 1] = T(0);
  }

  // y := H_i y; i >= kFirst, and rows above kFirst are not touched.
  template <int kFirst>
  __device__ __forceinline__ void ApplyReflector(int i, T (&y)[kRows]) const {
    if constexpr (kFirst + kApplyRows < kLanes) {
      if (i >= kFirst + kApplyRows) return ApplyReflector<kFirst + kApplyRows>(i, y);
    }
    const T* const v = factors_ + i;
    T sums[4] = {};
#pragma unroll
    for (int r = kFirst; r < kRows; ++r) sums[r % 4] = fma(v[r * kStride], y[r], sums[r % 4]);
    const T tau = factors_[i * kStride + kLanes];
    const T s = tau * ((sums[0] + sums[1]) + (sums[2] + sums[3]));
#pragma unroll
    for (int r = kFirst; r < kRows; ++r) y[r] = fma(-s, v[r * kStride], y[r]);
  }

  const int lane_, first_;  // in the group; of the group in the warp
  T* const factors_;
  T* const stage_;
};

// Scales the column; its exponent field.
template <class T, int kRows>
__device__ __forceinline__ int ScaleColumn(T (&x)[kRows]) {
  const int field = LargestField(x);
  const T scale = ScaleOf<T>(field);
#pragma unroll
  for (int r = 0; r < kRows; ++r) x[r] *= scale;
  return field;
}

// Writes Q from the group's factors, kLanes columns at a time; columns of `flips` negated. False
// where this lane made an entry that is not finite. `q_columns`: those of the batch's widest Q.
template <class T, int kRows, int kLanes>
__device__ __forceinline__ bool FormQ(const Group<T, kRows, kLanes>& group, int steps,
                                      int q_columns, unsigned flips, const Operand<T>& q) {
  bool finite = true;
#pragma unroll 1
  for (int c0 = 0; c0 < q_columns; c0 += kLanes) {
    const int c = c0 + group.lane();
    const T one = (flips >> c & 1) != 0 ? T(-1) : T(1);
    T y[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) y[r] = r == c ? one : T(0);
    group.ApplyQ(false, steps, y);
    finite &= LargestField(y) != Ieee<T>::kTopField;
    group.StoreColumn(y, q, c0);
  }
  return finite;
}

template <class T>
__device__ __forceinline__ int QColumns(const Problem& problem, const Batch<T>& batch) {
  return problem.q == QMode::kComplete ? batch.m : min(batch.m, batch.n);
}

template <class T, int kRows, int kLanes>
__global__ void __launch_bounds__(Group<T, kRows, kLanes>::kThreads,
                                  Group<T, kRows, kLanes>::kBlocks)
    FactorizeByGroup(const Problem problem, const Batch<T> batch, const bool staged) {
  const Group<T, kRows, kLanes> group(staged);
  const int steps = min(batch.m, batch.n);

  T x[kRows];
  {
    const Member<T> member(batch, group.index());
    group.LoadColumn(member.Matrix(member.run.a, member.m, member.n, problem.column_major), 0, x);
  }
  const int field = ScaleColumn(x);
  const bool nonfinite = group.Any(field == Ieee<T>::kTopField);
  const bool finite = group.Factor(x, batch.m, steps, UnscaleOf<T>(field));
  const bool out_of_range = group.Any(!finite && (problem.r || problem.reflectors));

  // Found again: while factoring, registers are scarce.
  const Member<T> member(batch, group.index());
  const Run<T>& run = member.run;
  const int m = member.m, n = member.n, k = member.k();
  const unsigned flips = group.Flips(problem.sign, m, k);
  if (problem.sign != Sign::kLapack) group.NegateRowsOfR(flips);

  if (problem.r) group.StoreFactors(member.Matrix(run.r, k, n, problem.column_major), true);
  if (problem.reflectors) {
    group.StoreFactors(member.Matrix(run.reflectors, m, n, problem.column_major), false);
    group.StoreTau(run.tau + member.local * k, k);
  }
  if (problem.q != QMode::kNone) {
    group.MakeUnitTriangle();
    FormQ(group, steps, QColumns(problem, batch), flips,
          member.Matrix(run.q, m, member.QColumns(problem), problem.column_major));
  }
  Finish(problem, batch, member, nonfinite, out_of_range, group.lane(), kLanes);
}

template <class T, int kRows, int kLanes>
__global__ void __launch_bounds__(Group<T, kRows, kLanes>::kThreads,
                                  Group<T, kRows, kLanes>::kBlocks)
    FormQByGroup(const Problem problem, const Batch<T> batch, const bool staged) {
  const Group<T, kRows, kLanes> group(staged);
  const Member<T> member(batch, group.index());
  const Run<T>& run = member.run;
  const int m = member.m, n = member.n, k = member.k();

  const bool nonfinite = group.Any(!group.LoadFactors(
      member.Matrix(run.a, m, n, problem.column_major), run.tau_in + member.local * k, k));
  const bool out_of_range =
      group.Any(!FormQ(group, min(batch.m, batch.n), QColumns(problem, batch), 0u,
                       member.Matrix(run.q, m, member.QColumns(problem), problem.column_major)));
  Finish(problem, batch, member, nonfinite, out_of_range, group.lane(), kLanes);
}

template <class T, int kRows, int kLanes>
__global__ void __launch_bounds__(Group<T, kRows, kLanes>::kThreads,
                                  Group<T, kRows, kLanes>::kBlocks)
    ApplyQByGroup(const Problem problem, const Batch<T> batch, const bool staged) {
  const Group<T, kRows, kLanes> group(staged);
  const Member<T> member(batch, group.index());
  const Run<T>& run = member.run;
  const int k = member.k();
  const Operand<const T> c = member.LeftHandMatrix(run.rhs, problem);
  const Operand<T> result = member.LeftHandMatrix(run.result, problem);

  bool finite = group.LoadFactors(member.Matrix(run.a, member.m, member.n, problem.column_major),
                                  run.tau_in + member.local * k, k);
  bool out_of_range = false;
#pragma unroll 1
  for (int c0 = 0; c0 < batch.p; c0 += kLanes) {
    T y[kRows];
    group.LoadColumn(c, c0, y);
    const int field = ScaleColumn(y);
    finite &= field != Ieee<T>::kTopField;
    // On the right C op(Q) = (op(Q)^T C^T)^T.
    group.ApplyQ(problem.adjoint != problem.right, min(batch.m, batch.n), y);
    const T unscale = UnscaleOf<T>(field);
#pragma unroll
    for (int r = 0; r < kRows; ++r) y[r] *= unscale;
    out_of_range |= LargestField(y) == Ieee<T>::kTopField;
    group.StoreColumn(y, result, c0);
  }
  const bool nonfinite = group.Any(!finite);
  out_of_range = group.Any(out_of_range);
  Finish(problem, batch, member, nonfinite, out_of_range, group.lane(), kLanes);
}

template <class T, int kRows, int kLanes>
cudaError_t RunByGroups(const Problem& problem, const Batch<T>& batch, cudaStream_t stream) {
  using G = Group<T, kRows, kLanes>;
  const bool applies = problem.op == Op::kApplyQ;
  const bool staged =
      problem.column_major || (applies && problem.right != problem.rhs_column_major);
  const auto kernel = problem.op == Op::kFactorize ? FactorizeByGroup<T, kRows, kLanes>
                      : applies                    ? ApplyQByGroup<T, kRows, kLanes>
                                                   : FormQByGroup<T, kRows, kLanes>;
  return Launch(
      kernel,
      {.grid = dim3(static_cast<unsigned>((batch.count + G::kPerBlock - 1) / G::kPerBlock)),
       .threads = G::kThreads,
       .shared_bytes = G::Bytes(staged),
       .stream = stream},
      problem, batch, staged);
}

}  // namespace factord::kernels::tiny
