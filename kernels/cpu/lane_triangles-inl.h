// R of many rows in one pass over them: TSQR with a triangle for each lane.
//
// Lane l of every vector has rows of its own and the R of those that it has met. A fold takes the
// next few rows of each lane as a block B and replaces the lane's R by that of
//
//   [ R ]    column j, of which R has nothing below its diagonal, is eliminated by
//   [ B ]    H_j = I - tau v v^T,  v = [e_j; scale b_j],  (tau, scale) = larfg(r_jj, ||b_j||^2)
//
// so each reflector touches one row of R and all of B. No sum runs over lanes. B stays in the cache
// nearest to the core, and panels are narrow, so that
// little is stored: b_j is left as it is, the scale being put where b_j is used.
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
      Foresee(a, a.rows - i > step ? i + step : i);
      if (!Load(a, i, count)) return false;
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
  static constexpr int kLine = 64 / static_cast<int>(sizeof(R));  // of the cache

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

  // -- what the next fold reads is asked for while this one computes, a line now and then: more at
  // once are more than can be under way, and the rest is dropped

  void Foresee(const Dense<const R>& a, int next) {
    const int rows = most_rows_ * kL;
    ahead_ = a.data + a.IndexOf(next, 0);
    to_next_run_ = a.column_major ? a.ld : 0;
    runs_ = a.column_major ? n_ : 1;
    run_lines_ = lines_ = (a.column_major ? rows : rows * n_) / kLine;
  }
  HWY_INLINE void AskForLine() {
    if (runs_ == 0) return;
    __builtin_prefetch(ahead_, 0, 2);
    ahead_ += kLine;
    if (--lines_ > 0) return;
    ahead_ += to_next_run_ - std::int64_t{run_lines_} * kLine;
    lines_ = run_lines_;
    --runs_;
  }
  // In row i of a loop: a line every so many rows, where a vector is one.
  template <int kRows>
  HWY_INLINE void AskInRow(int i) {
    if (i % (kRows * kLine) == 0) AskForLine();
  }

  // -- load

  // B := rows first ... first + count - 1 of a, above zeros, times their columns' powers. Their
  // order is of no matter: lane l gets those that are the easiest to bring there. False: a NaN or
  // an Inf is among them.
  bool Load(const Dense<const R>& a, int first, int count) {
    std::fill_n(largest_, n_, Bits(0));
    if (a.column_major) {
      LoadColumns(a, first, count);
    } else {
      LoadUnits(a, first, count);
    }
    bool finite = true;
    for (int k = 0; k < n_; ++k) {
      const int field = static_cast<int>(largest_[k] >> Ieee<R>::kMantissaBits);
      finite &= field != Ieee<R>::kTopField;
      Rescale(k, kernels::ScaleOf<R>(field));
    }
    return finite;
  }
  // Column k of R, if its power becomes less, and of B; those of the first panel are left to its
  // FirstSums.
  void Rescale(int k, R power) {
    if (power < power_[k]) {
      const V ratio = hn::Set(D(), RatioOfPowers(power, power_[k]));
      for (int j = 0; j <= k; ++j) hn::Store(hn::Mul(At(j, k), ratio), D(), r(j, k));
      power_[k] = power;
    }
    if (k < kWidth) return;
    const V scale = hn::Set(D(), power_[k]);
    const int size = rows_ * kL;
    R* const column = b(k);
    for (int i = 0; i < size; i += kL) {
      AskInRow<4>(i);
      hn::Store(hn::Mul(hn::Load(D(), column + i), scale), D(), column + i);
    }
  }
  // Lane l's magnitude is one of column k + l * step, counted in a circle.
  void Note(I magnitude, int k, int step) {
    HWY_ALIGN Bits lanes[kL];
    hn::Store(magnitude, DI(), lanes);
    for (int l = 0; l < kL; ++l) {
      largest_[k] = std::max(largest_[k], lanes[l]);
      k += step;
      if (k == n_) k = 0;
    }
  }

  void LoadColumns(const Dense<const R>& a, int first, int count) {
    const int whole = count / kL * kL;
    rows_ = (count + kL - 1) / kL;
    for (int k = 0; k < n_; ++k) {
      const R* const from = a.data + a.IndexOf(first, k);
      R* const to = b(k);
      I even = hn::Zero(DI()), odd = hn::Zero(DI());
      for (int i = 0; i < whole; i += kL) {
        AskInRow<2>(i);
        const V x = hn::LoadU(D(), from + i);
        const I larger = hn::Max(odd, Fields<D>::Magnitude(x));
        odd = even;
        even = larger;
        hn::Store(x, D(), to + i);
      }
      if (whole < count) {
        const V x = LoadFirst(D(), from + whole, count - whole);
        even = hn::Max(even, Fields<D>::Magnitude(x));
        hn::Store(x, D(), to + whole);
      }
      Note(hn::Max(even, odd), k, 0);
    }
  }
  // A unit is as few rows as fill whole vectors for each lane: its own, neighbours in memory.
  void LoadUnits(const Dense<const R>& a, int first, int count) {
    const int rows = kL / std::gcd(n_, kL), unit = rows * kL, whole = count / unit;
    const R* from = a.data + a.IndexOf(first, 0);
    I largest[kMostColumns];
    std::fill_n(largest, rows * n_ / kL, hn::Zero(DI()));
    for (int u = 0; u < whole; ++u, from += std::int64_t{unit} * n_) {
      LoadUnit(from, rows * n_, u * rows, largest);
    }
    for (int t = 0; t < rows * n_; t += kL) Note(largest[t / kL], t % n_, 1);
    rows_ = whole * rows;
    if (whole * unit < count) LoadRest(a, first + whole * unit, count - whole * unit);
  }
  // kL vectors at a time are transposed; `size` neighbours are a lane's.
  HWY_INLINE void LoadUnit(const R* from, int size, int row, I* largest) {
    const int ld = ld_, n = n_;
    R* to = b_ + row * kL;
    for (int t = 0, k = 0; t < size; t += kL, ++largest) {
      V x[kL];
      I magnitude = *largest;
      FACTORD_UNROLL
      for (int l = 0; l < kL; ++l) {
        x[l] = hn::LoadU(D(), from + l * size + t);
        magnitude = hn::Max(magnitude, Fields<D>::Magnitude(x[l]));
      }
      *largest = magnitude;
      Transpose<D>(x);
      FACTORD_UNROLL
      for (int l = 0; l < kL; ++l) {
        if (l % 2 == 0) AskInRow<1>(l * kL);
        hn::Store(x[l], D(), to);
        ++k;
        to += k == n ? kL - (n - 1) * ld : ld;
        k = k == n ? 0 : k;
      }
    }
  }
  // The last rows of a matrix, less than a unit.
  void LoadRest(const Dense<const R>& a, int first, int count) {
    const int rows = (count + kL - 1) / kL;
    for (int k = 0; k < n_; ++k) {
      R* const to = b(k) + rows_ * kL;
      std::fill_n(to, rows * kL, R(0));
      for (int i = 0; i < count; ++i) to[i] = a.data[a.IndexOf(first + i, k)];
      for (int i = 0; i < rows; ++i) Note(Fields<D>::Magnitude(hn::Load(D(), to + i * kL)), k, 0);
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
      Pass(columns - 1 - j, c + j, w + j + 1, s + j + 1);
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
  void Pass(int count, int pivot, const V* w, V* s) {
    switch (count) {
      case 1:
        return Pass<1>(pivot, w, s);
      case 2:
        return Pass<2>(pivot, w, s);
      case 3:
        return Pass<3>(pivot, w, s);
      default:
        return;
    }
  }
  // As many sums for each of K columns as keep additions from waiting for each other.
  template <int K>
  static constexpr int kSumsOf = K >= 4   ? 1
                                 : K >= 2 ? 2
                                          : 4;

  // s_k = b_c^T b_k of the K columns from c on.
  template <int K>
  void FirstSums(int c, V* s) {
    if (c > 0) {
      return Sums<K, 4>(
          c, s, [&](int, const R* column, int i) HWY_ATTR { return hn::Load(D(), column + i); });
    }
    V power[K];
    FACTORD_UNROLL
    for (int k = 0; k < K; ++k) power[k] = hn::Set(D(), power_[k]);
    Sums<K, 4>(c, s, [&](int k, R* column, int i) HWY_ATTR {
      const V y = hn::Mul(hn::Load(D(), column + i), power[k]);
      hn::Store(y, D(), column + i);
      return y;
    });
  }
  // The K columns behind the pivot: b_k -= w_k b_pivot; then s_k = b_next^T b_k, next the first.
  template <int K>
  void Pass(int pivot, const V* w_in, V* s) {
    const R* const x = b(pivot);
    V w[K];
    FACTORD_UNROLL
    for (int k = 0; k < K; ++k) w[k] = w_in[k];
    Sums<K, K == 3   ? 2
            : K == 2 ? 4
                     : 8>(pivot + 1, s, [&](int k, R* column, int i) HWY_ATTR {
      const V y = hn::NegMulAdd(w[k], hn::Load(D(), x + i), hn::Load(D(), column + i));
      hn::Store(y, D(), column + i);
      return y;
    });
  }
  // s_k = y_0^T y_k, y_k what `get` makes of column c + k, vector by vector.
  template <int K, int kRowsALine, class Get>
  HWY_INLINE void Sums(int c, V* s, const Get& get) {
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
      AskInRow<kRowsALine>(i);
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
      AskInRow<4>(i);
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
    const R *const v = b(c), *const columns = b(k);
    const int size = rows_ * kL, ld = ld_;
    FACTORD_UNROLL
    for (int j = 0; j < kWidth; ++j) {
      FACTORD_UNROLL
      for (int x = 0; x < C; ++x) w[j][x] = hn::Zero(D());
    }
    for (int i = 0; i < size; i += kL) {
      AskInRow<1>(i);
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
    const R* const v = b(c);
    R* const columns = b(k);
    const int size = rows_ * kL, ld = ld_;
    for (int i = 0; i < size; i += kL) {
      AskInRow<1>(i);
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
  // Lines not yet asked for: of this run, one after the other from ahead_ on; runs with this one.
  const R* ahead_ = nullptr;
  std::int64_t to_next_run_ = 0;  // elements
  int lines_ = 0, runs_ = 0;
  int run_lines_ = 0;  // of a whole run
  HWY_ALIGN R b_[kMostVectors * kL];
  HWY_ALIGN R r_[kMostColumns * (kMostColumns + 1) / 2 * kL];
  R power_[kMostColumns];
  Bits largest_[kMostColumns];  // magnitude in each column of B
  // Of the panel.
  HWY_ALIGN R tau_[kWidth][kL];
  HWY_ALIGN R scale_[kWidth][kL];
  V h_[kWidth][kWidth];
};

}  // namespace factord::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FACTORD_KERNELS_CPU_LANE_TRIANGLES_INL_H_
