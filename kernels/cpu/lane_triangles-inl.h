// R of many rows in one pass over them: TSQR with a triangle for each lane.
//
// Lane l of every vector has rows of its own and the R of those that it has met. A fold takes the
// next few rows of each lane as a block B and replaces the lane's R by that of
//
//   [ R ]    column j, of which R has nothing below its diagonal, is eliminated by
//   [ B ]    H_j = I - tau v v^T,  v = [e_j; scale b_j],  (tau, scale) = larfg(r_jj, ||b_j||^2)
//
// so each reflector touches one row of R and all of B. No sum runs over lanes. B stays in the cache
// nearest to the core, and panels are narrow, since there a store costs as much as two
// multiply-adds: b_j is left as it is, the scale being put where b_j is used.
//
// Column k is held times a power of two that brings its largest entry so far into [1, 2); where a
// fold brings a larger one, that column of R is scaled down along with it.
#if defined(FACTORD_KERNELS_CPU_LANE_TRIANGLES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FACTORD_KERNELS_CPU_LANE_TRIANGLES_INL_H_
#undef FACTORD_KERNELS_CPU_LANE_TRIANGLES_INL_H_
#else
#define FACTORD_KERNELS_CPU_LANE_TRIANGLES_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "kernels/cpu/operands.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace factord::kernels::cpu::HWY_NAMESPACE {

// R: a real type; at most kMostColumns columns. Large: it belongs on a thread's stack, where it is
// still in the cache from one block of rows to the next.
template <class R, int kMostColumns>
class LaneTriangles {
 public:
  using D = Full<R>;
  using V = hn::Vec<D>;
  static constexpr int kL = kLanes<R>;

  explicit LaneTriangles(int n) : n_(n), most_rows_(RowsAtOnce(n)), ld_(LdOf(most_rows_) * kL) {
    std::fill_n(r_, n * (n + 1) / 2 * kL, R(0));
    std::fill_n(power_, n, kernels::ScaleOf<R>(0));
  }

  // Folds rows first ... end - 1 of `a` into the lanes' triangles. False: a NaN or an Inf is among
  // them, and the triangles are of no use.
  bool Fold(const Dense<const R>& a, int first, int end) {
    const int step = most_rows_ * kL;
    for (int i = first, count; i < end; i += count) {
      count = std::min(step, end - i);
      if (!Measure(a, i, count)) return false;
      Foresee(a, a.rows - i > step ? i + step : i);
      Load(a, i, count);
      for (int c = 0; c < n_; c += kWidth) {
        FactorPanel(c, std::min(kWidth, n_ - c));
        if (c + kWidth < n_) ApplyPanel(c);
      }
    }
    return true;
  }

  // Entry (j, k) of the lanes' triangles, j <= k, column k times its power of two.
  V At(int j, int k) const { return hn::Load(D(), r(j, k)); }
  R power(int k) const { return power_[k]; }

 private:
  using DI = hn::RebindToSigned<D>;
  using I = hn::Vec<DI>;
  using Bits = hn::TFromD<DI>;

  // Of a panel: with more, its own columns are stored more often than those right of it less.
  static constexpr int kWidth = 4;
  // Columns right of a panel that are updated together: their sums with its reflectors, and a
  // vector of each, stay in registers.
  static constexpr int kTile = kManyRegisters ? 4 : 2;

  // Vectors of a column of B, multiples of all lanes: some 28 KB in all, and enough for the
  // reflectors' own arithmetic not to matter.
  static constexpr int kFewestRows = 32, kMostRows = 384;
  static constexpr int RowsAtOnce(int n) {
    return std::clamp(384 / n / 16 * 16, kFewestRows, kMostRows);
  }
  // From one column to the next, such that no load of a panel's columns shares the lower 12 bits of
  // its address with a store shortly before it, for which it would have to wait.
  static constexpr int LdOf(int rows) { return rows + (rows % 64 < 32 ? 7 : 9); }
  static constexpr int kMostVectors =
      std::max(kMostColumns * LdOf(kFewestRows), kMostRows + 9 * 12);

  R* r(int j, int k) { return r_ + (j * n_ - j * (j + 1) / 2 + k) * kL; }
  const R* r(int j, int k) const { return r_ + (j * n_ - j * (j + 1) / 2 + k) * kL; }
  R* b(int k) { return b_ + k * ld_; }

  // -- what the next fold reads is asked for while this one computes, a part at a time: as many
  // vectors as a column of B has

  void Foresee(const Dense<const R>& a, int next) {
    ahead_ = a.data + a.IndexOf(next, 0);
    part_ = a.column_major ? a.ld : std::int64_t{most_rows_} * kL;
    parts_ = n_;
  }
  // As many of them are asked for by Load.
  int PartsOfLoad() const { return n_ <= 4 ? n_ / 2 : n_ / 4; }
  const R* NextPart() {
    if (parts_ == 0) return b_;
    --parts_;
    const R* const part = ahead_;
    ahead_ += part_;
    return part;
  }
  static HWY_INLINE void Prefetch(const R* p) { __builtin_prefetch(p, 0, 2); }

  // -- load

  // The powers of the columns with these rows, and R's columns times what has become of them.
  bool Measure(const Dense<const R>& a, int first, int count) {
    Bits largest[kMostColumns];
    std::fill_n(largest, n_, Bits(0));
    const R* const from = a.data + a.IndexOf(first, 0);
    if (a.column_major) {
      for (int k = 0; k < n_; ++k) MeasureEvery(1, from + k * a.ld, count, 0, k, 0, largest);
    } else {
      const int period = n_ / std::gcd(n_, kL);
      for (int v = 0; v < period; ++v) {
        MeasureEvery(period, from, count * n_, v * kL, v * kL % n_, 1, largest);
      }
    }
    bool finite = true;
    for (int k = 0; k < n_; ++k) {
      const int field = static_cast<int>(largest[k] >> Ieee<R>::kMantissaBits);
      finite &= field != Ieee<R>::kTopField;
      Rescale(k, kernels::ScaleOf<R>(field));
    }
    return finite;
  }
  // Of `size` neighbours, the vector that begins in i and each `period`-th one after it. Their lanes
  // belong to columns k, k + step, ..., counted in a circle.
  void MeasureEvery(int period, const R* from, int size, int i, int k, int step, Bits* largest) {
    constexpr int kSums = 4;
    I sum[kSums];
    FACTORD_UNROLL
    for (int t = 0; t < kSums; ++t) sum[t] = hn::Zero(DI());
    const int stride = period * kL;
    for (; i + (kSums - 1) * stride + kL <= size; i += kSums * stride) {
      FACTORD_UNROLL
      for (int t = 0; t < kSums; ++t) {
        const V x = hn::LoadU(D(), from + i + t * stride);
        sum[t] = hn::Max(sum[t], Fields<D>::Magnitude(x));
      }
    }
    for (; i < size; i += stride) {
      const V x = i + kL <= size ? hn::LoadU(D(), from + i) : LoadFirst(D(), from + i, size - i);
      sum[0] = hn::Max(sum[0], Fields<D>::Magnitude(x));
    }
    HWY_ALIGN Bits lanes[kL];
    hn::Store(hn::Max(hn::Max(sum[0], sum[1]), hn::Max(sum[2], sum[3])), DI(), lanes);
    for (int l = 0; l < kL; ++l) {
      largest[k] = std::max(largest[k], lanes[l]);
      k += step;
      if (k == n_) k = 0;
    }
  }
  void Rescale(int k, R power) {
    if (power >= power_[k]) return;
    const V ratio = hn::Set(D(), RatioOfPowers(power, power_[k]));
    power_[k] = power;
    for (int j = 0; j <= k; ++j) hn::Store(hn::Mul(At(j, k), ratio), D(), r(j, k));
  }

  // B := rows first ... first + count - 1 of a, times their columns' powers, above zeros. Their
  // order is of no matter: lane l gets those that are the easiest to bring there.
  void Load(const Dense<const R>& a, int first, int count) {
    if (a.column_major) {
      LoadColumns(a, first, count);
    } else {
      LoadUnits(a, first, count);
    }
  }
  void LoadColumns(const Dense<const R>& a, int first, int count) {
    const int whole = count / kL * kL;
    rows_ = (count + kL - 1) / kL;
    for (int k = 0; k < n_; ++k) {
      const R* const from = a.data + a.IndexOf(first, k);
      const R* const ahead = k < PartsOfLoad() ? NextPart() : b_;
      R* const to = b(k);
      const V power = hn::Set(D(), power_[k]);
      for (int i = 0; i < whole; i += kL) {
        Prefetch(ahead + i);
        hn::Store(hn::Mul(hn::LoadU(D(), from + i), power), D(), to + i);
      }
      if (whole < count) {
        hn::Store(hn::Mul(LoadFirst(D(), from + whole, count - whole), power), D(), to + whole);
      }
    }
  }
  // A unit is as few rows as fill whole vectors for each lane: its own, neighbours in memory.
  void LoadUnits(const Dense<const R>& a, int first, int count) {
    const int rows = kL / std::gcd(n_, kL), unit = rows * kL, whole = count / unit;
    const R* from = a.data + a.IndexOf(first, 0);
    const R* ahead = ahead_;
    const int ahead_lines = rows * PartsOfLoad();
    for (int p = 0; p < PartsOfLoad(); ++p) NextPart();
    for (int u = 0; u < whole; ++u, from += std::int64_t{unit} * n_) {
      for (int t = 0; t < ahead_lines; ++t, ahead += kL) Prefetch(ahead);
      LoadUnit(from, rows * n_, u * rows);
    }
    rows_ = whole * rows;
    if (whole * unit < count) LoadRest(a, first + whole * unit, count - whole * unit);
  }
  // kL vectors at a time are transposed; `size` neighbours are a lane's.
  HWY_INLINE void LoadUnit(const R* from, int size, int row) {
    const int ld = ld_, n = n_;
    R* to = b_ + row * kL;
    int k = 0;
    for (int t = 0; t < size; t += kL) {
      V x[kL];
      FACTORD_UNROLL
      for (int l = 0; l < kL; ++l) x[l] = hn::LoadU(D(), from + l * size + t);
      Transpose<D>(x);
      FACTORD_UNROLL
      for (int l = 0; l < kL; ++l) {
        hn::Store(hn::Mul(x[l], hn::Set(D(), power_[k])), D(), to);
        to += ld;
        if (++k == n) {
          k = 0;
          to += kL - n * ld;
        }
      }
    }
  }
  // The last rows of a matrix, less than a unit.
  void LoadRest(const Dense<const R>& a, int first, int count) {
    const int rows = (count + kL - 1) / kL;
    for (int k = 0; k < n_; ++k) {
      R* const to = b(k) + rows_ * kL;
      std::fill_n(to, rows * kL, R(0));
      for (int i = 0; i < count; ++i) to[i] = a.data[a.IndexOf(first + i, k)] * power_[k];
    }
    rows_ += rows;
  }

  // -- one panel, columns c ... c + columns - 1

  void FactorPanel(int c, int columns) {
    V s[kWidth], w[kWidth];
    FirstSums(columns, c, s);
    for (int j = 0; j < columns; ++j) {
      const auto h = LarfgWith<R, VectorOps<D>>(At(c + j, c + j), s[j]);
      hn::Store(h.beta, D(), r(c + j, c + j));
      hn::Store(h.tau, D(), tau_[j]);
      hn::Store(h.scale, D(), scale_[j]);
      for (int k = j + 1; k < columns; ++k) {
        R* const top = r(c + j, c + k);
        const V old = hn::Load(D(), top);
        const V z = hn::Mul(h.tau, hn::MulAdd(h.scale, s[k], old));
        hn::Store(hn::Sub(old, z), D(), top);
        w[k] = hn::Mul(z, h.scale);
      }
      const R* const ahead = j == 0 ? NextPart() : b_;
      Pass(columns - 1 - j, c + j, ahead, w + j + 1, s + j + 1);
    }
  }
  void FirstSums(int columns, int c, V* s) {
    switch (columns) {
      case 1:
        return FirstSums<1>(c, s);
      case 2:
        return FirstSums<2>(c, s);
      case 3:
        return FirstSums<3>(c, s);
      default:
        return FirstSums<4>(c, s);
    }
  }
  void Pass(int count, int pivot, const R* ahead, const V* w, V* s) {
    switch (count) {
      case 1:
        return Pass<1>(pivot, ahead, w, s);
      case 2:
        return Pass<2>(pivot, ahead, w, s);
      case 3:
        return Pass<3>(pivot, ahead, w, s);
      default:
        return;
    }
  }
  // As many sums for each of K columns as keep additions from waiting for each other.
  template <int K>
  static constexpr int kSumsOf = K >= 4 ? 1 : K >= 2 ? 2 : 4;

  // s_k = b_c^T b_k of the K columns from c on.
  template <int K>
  void FirstSums(int c, V* s) {
    Sums<K>(c, NextPart(), s, [&](int, const R* column, int i) HWY_ATTR {
      return hn::Load(D(), column + i);
    });
  }
  // The K columns behind the pivot: b_k -= w_k b_pivot; then s_k = b_next^T b_k, next the first.
  template <int K>
  void Pass(int pivot, const R* ahead, const V* w_in, V* s) {
    const R* const x = b(pivot);
    V w[K];
    FACTORD_UNROLL
    for (int k = 0; k < K; ++k) w[k] = w_in[k];
    Sums<K>(pivot + 1, ahead, s, [&](int k, R* column, int i) HWY_ATTR {
      const V y = hn::NegMulAdd(w[k], hn::Load(D(), x + i), hn::Load(D(), column + i));
      hn::Store(y, D(), column + i);
      return y;
    });
  }
  // s_k = y_0^T y_k, y_k what `get` makes of column c + k, vector by vector.
  template <int K, class Get>
  HWY_INLINE void Sums(int c, const R* ahead, V* s, const Get& get) {
    constexpr int kSums = kSumsOf<K>;
    const int size = rows_ * kL;
    R* column[K];
    V sum[K][kSums];
    FACTORD_UNROLL
    for (int k = 0; k < K; ++k) {
      column[k] = b(c + k);
      FACTORD_UNROLL
      for (int t = 0; t < kSums; ++t) sum[k][t] = hn::Zero(D());
    }
    const auto add = [&](int i, int t) HWY_ATTR {
      Prefetch(ahead + i);
      const V first = get(0, column[0], i);
      sum[0][t] = hn::MulAdd(first, first, sum[0][t]);
      FACTORD_UNROLL
      for (int k = 1; k < K; ++k) sum[k][t] = hn::MulAdd(first, get(k, column[k], i), sum[k][t]);
    };
    int i = 0;
    for (; i + kSums * kL <= size; i += kSums * kL) {
      FACTORD_UNROLL
      for (int t = 0; t < kSums; ++t) add(i + t * kL, t);
    }
    for (; i < size; i += kL) add(i, 0);
    FACTORD_UNROLL
    for (int k = 0; k < K; ++k) {
      V total = sum[k][0];
      FACTORD_UNROLL
      for (int t = 1; t < kSums; ++t) total = hn::Add(total, sum[k][t]);
      s[k] = total;
    }
  }

  // -- right of a panel of kWidth columns from c on

  void ApplyPanel(int c) {
    Gram(c);
    for (int k = c + kWidth; k < n_; k += kTile) {
      switch (std::min(kTile, n_ - k)) {
        case 1:
          ApplyToTile<1>(c, k);
          break;
        case 2:
          ApplyToTile<2>(c, k);
          break;
        case 3:
          ApplyToTile<std::min(3, kTile)>(c, k);
          break;
        default:
          ApplyToTile<kTile>(c, k);
      }
    }
  }
  // h_rq = v_r^T v_q for q < r.
  void Gram(int c) {
    const int size = rows_ * kL;
    const R* column[kWidth];
    V sum[kWidth][kWidth];
    FACTORD_UNROLL
    for (int r = 0; r < kWidth; ++r) {
      column[r] = b(c + r);
      FACTORD_UNROLL
      for (int q = 0; q < r; ++q) sum[r][q] = hn::Zero(D());
    }
    for (int i = 0; i < size; i += kL) {
      V x[kWidth];
      FACTORD_UNROLL
      for (int r = 0; r < kWidth; ++r) {
        x[r] = hn::Load(D(), column[r] + i);
        FACTORD_UNROLL
        for (int q = 0; q < r; ++q) sum[r][q] = hn::MulAdd(x[r], x[q], sum[r][q]);
      }
    }
    FACTORD_UNROLL
    for (int r = 1; r < kWidth; ++r) {
      FACTORD_UNROLL
      for (int q = 0; q < r; ++q) h_[r][q] = hn::Mul(hn::Mul(sum[r][q], Scale(q)), Scale(r));
    }
  }
  V Scale(int j) const { return hn::Load(D(), scale_[j]); }

  // W = V^T C,  W = T^T W,  C -= V W, C being columns k ... k + C - 1 of [R; B]. T is never formed:
  // T^-1 = diag(1/tau) + strict upper(V^T V).
  template <int C>
  void ApplyToTile(int c, int k) {
    V w[kWidth][C];
    Project<C>(c, k, w);
    FACTORD_UNROLL
    for (int j = 0; j < kWidth; ++j) {
      const V tau = hn::Load(D(), tau_[j]);
      FACTORD_UNROLL
      for (int x = 0; x < C; ++x) {
        R* const top = r(c + j, k + x);
        const V old = hn::Load(D(), top);
        V z = hn::MulAdd(Scale(j), w[j][x], old);
        FACTORD_UNROLL
        for (int q = 0; q < j; ++q) z = hn::NegMulAdd(h_[j][q], w[q][x], z);
        w[j][x] = hn::Mul(tau, z);
        hn::Store(hn::Sub(old, w[j][x]), D(), top);
      }
    }
    FACTORD_UNROLL
    for (int j = 0; j < kWidth; ++j) {
      FACTORD_UNROLL
      for (int x = 0; x < C; ++x) w[j][x] = hn::Mul(w[j][x], Scale(j));
    }
    Subtract<C>(c, k, w);
  }
  template <int C>
  HWY_INLINE void Project(int c, int k, V (&w)[kWidth][C]) {
    const R *const ahead = NextPart(), *const v = b(c), *const columns = b(k);
    const int size = rows_ * kL, ld = ld_;
    FACTORD_UNROLL
    for (int j = 0; j < kWidth; ++j) {
      FACTORD_UNROLL
      for (int x = 0; x < C; ++x) w[j][x] = hn::Zero(D());
    }
    for (int i = 0; i < size; i += kL) {
      Prefetch(ahead + i);
      V y[C];
      FACTORD_UNROLL
      for (int x = 0; x < C; ++x) y[x] = hn::Load(D(), columns + x * ld + i);
      FACTORD_UNROLL
      for (int j = 0; j < kWidth; ++j) {
        const V vj = hn::Load(D(), v + j * ld + i);
        FACTORD_UNROLL
        for (int x = 0; x < C; ++x) w[j][x] = hn::MulAdd(vj, y[x], w[j][x]);
      }
    }
  }
  template <int C>
  HWY_INLINE void Subtract(int c, int k, const V (&w)[kWidth][C]) {
    const R *const ahead = NextPart(), *const v = b(c);
    R* const columns = b(k);
    const int size = rows_ * kL, ld = ld_;
    for (int i = 0; i < size; i += kL) {
      Prefetch(ahead + i);
      V y[C];
      FACTORD_UNROLL
      for (int x = 0; x < C; ++x) y[x] = hn::Load(D(), columns + x * ld + i);
      FACTORD_UNROLL
      for (int j = 0; j < kWidth; ++j) {
        const V vj = hn::Load(D(), v + j * ld + i);
        FACTORD_UNROLL
        for (int x = 0; x < C; ++x) y[x] = hn::NegMulAdd(vj, w[j][x], y[x]);
      }
      FACTORD_UNROLL
      for (int x = 0; x < C; ++x) hn::Store(y[x], D(), columns + x * ld + i);
    }
  }

  const int n_;
  const int most_rows_;  // vectors of a column of B
  const int ld_;         // elements from one column of B to the next
  int rows_ = 0;         // vectors of a column in use
  const R* ahead_ = nullptr;
  std::int64_t part_ = 0;  // elements from one part to the next
  int parts_ = 0;          // not yet asked for
  HWY_ALIGN R b_[kMostVectors * kL];
  HWY_ALIGN R r_[kMostColumns * (kMostColumns + 1) / 2 * kL];
  R power_[kMostColumns];
  // Of the panel.
  HWY_ALIGN R tau_[kWidth][kL];
  HWY_ALIGN R scale_[kWidth][kL];
  V h_[kWidth][kWidth];
};

}  // namespace factord::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FACTORD_KERNELS_CPU_LANE_TRIANGLES_INL_H_
