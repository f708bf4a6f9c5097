// QR of one tall matrix, held by columns, with its rows in the lanes: nothing is lost to columns
// that fill no vector, and each reflector of a panel costs one pass over the panel's columns. Only
// the top of V, with its ones and zeros, is kept apart; the rest of it lies where the matrix was.
//
// Sums over rows end with one over the lanes, so the bits are not those of the other two ways:
// which matrices come here is decided by their shape alone. The algorithm is theirs, see
// across_matrices-inl.h.
#if defined(FACTORD_KERNELS_CPU_ACROSS_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FACTORD_KERNELS_CPU_ACROSS_ROWS_INL_H_
#undef FACTORD_KERNELS_CPU_ACROSS_ROWS_INL_H_
#else
#define FACTORD_KERNELS_CPU_ACROSS_ROWS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/rows_io-inl.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace factord::kernels::cpu::HWY_NAMESPACE {

// The matrix is held as the rows of its transpose: at(j, i) is entry (i, j).
template <class T>
struct AcrossRows {
  using R = Real<T>;
  using D = Full<R>;
  using A = Numbers<T, D>;
  using N = typename A::N;
  static constexpr int kL = kLanes<R>;
  static constexpr int kParts = A::kParts;
  // Reflectors and columns at a time when a block reflector is applied: their sums, and a vector of
  // each column, stay in registers.
  static constexpr int kGroup = kManyRegisters && !kIsComplex<T> ? kPanel : kPanel / 2;
  static constexpr int kTile = (kManyRegisters ? 3 : 2) - (kIsComplex<T> ? 1 : 0);
  // Rows that hold all of a panel's ones, counted from the vector where the panel begins.
  static constexpr int kTop = (kPanel + kL - 1 + kL - 1) / kL * kL;

  // A number by itself, and a few of them, one a column of a tile.
  static constexpr int kColumns = 4;
  using One = Numbers<T, hn::CappedTag<R, 1>>;
  using Few = Numbers<T, hn::CappedTag<R, kColumns>>;

  struct Panel {
    Rows<T> a;       // its columns, of which those that don't exist are zero
    int count = 0;   // of reflectors
    int row = 0;     // the first one's
    int begin = 0;   // a multiple of kL, <= row
    int bottom = 0;  // where V is a's own; before it, it is top's
    HWY_ALIGN R top[kPanel][kParts][kTop];
    HWY_ALIGN R h[kPanel][kParts][kPanel];  // h[r][..][q] = v_r^H v_q for q < r
    HWY_ALIGN R tau[kParts][kPanel];
  };

  // -- one panel

  struct Scalars {
    R s[kParts][kPanel];  // x^H a_k
    R w[kParts][kPanel];
  };
  static HWY_INLINE typename One::N Get(const R (&x)[kParts][kPanel], int k) {
    return One::Load(&x[0][k], kPanel);
  }
  static HWY_INLINE void Put(typename One::N value, R (&x)[kParts][kPanel], int k) {
    One::Store(value, &x[0][k], kPanel);
  }
  static HWY_INLINE N Broadcast(const R (&x)[kParts][kPanel], int k) {
    return A::Set(&x[0][k], kPanel);
  }
  static HWY_INLINE void PutSum(N x, R* to, std::int64_t plane) {
    to[0] = hn::GetLane(hn::SumOfLanes(D(), x.re));
    if constexpr (kParts == 2) to[plane] = hn::GetLane(hn::SumOfLanes(D(), x.im));
  }
  // The rows of a vector that begins in row i which come after `row`.
  static HWY_INLINE N After(N x, int i, int row) {
    return A::Select(RowsIo<T>::FromColumn(row + 1 - i), x, A::Zero());
  }

  // Columns k = 0 ... K - 1 behind a pivot x in `pivot`, all after its row: a_k -= w_k x; then with
  // the next pivot, a_0 after its own row, s_k = a_0^H a_k.
  template <int K>
  static void Pass(Rows<T> pivot, int row, int begin, int bottom, Scalars& scalars, int first) {
    // As many sums a column as keep additions from waiting for each other.
    constexpr int kSums = K >= 4 || (kIsComplex<T> && K >= 2) ? 1 : K >= 2 ? 2 : 4;
    N w[K], s[K][kSums];
    FACTORD_UNROLL
    for (int k = 0; k < K; ++k) {
      w[k] = Broadcast(scalars.w, first + k);
      FACTORD_UNROLL
      for (int t = 0; t < kSums; ++t) s[k][t] = A::Zero();
    }
    int i = begin;
    for (; i < bottom; i += kL) {
      const N x = After(A::Load(pivot.at(0, i), pivot.plane), i, row);
      Row<K, true>(pivot, i, row + 1, x, w, s, 0);
    }
    for (; i + kSums * kL <= pivot.cols; i += kSums * kL) {
      FACTORD_UNROLL
      for (int t = 0; t < kSums; ++t) {
        const N x = A::Load(pivot.at(0, i + t * kL), pivot.plane);
        Row<K, false>(pivot, i + t * kL, row + 1, x, w, s, t);
      }
    }
    for (; i < pivot.cols; i += kL) {
      Row<K, false>(pivot, i, row + 1, A::Load(pivot.at(0, i), pivot.plane), w, s, 0);
    }
    FACTORD_UNROLL
    for (int k = 0; k < K; ++k) {
      N sum = s[k][0];
      FACTORD_UNROLL
      for (int t = 1; t < kSums; ++t) sum = A::Add(sum, s[k][t]);
      PutSum(sum, &scalars.s[0][first + k], kPanel);
    }
  }
  template <int K, bool kMasked, int kSums>
  static HWY_INLINE void Row(Rows<T> pivot, int i, int next_row, N x, const N (&w)[K],
                             N (&s)[K][kSums], int t) {
    N next = A::Zero();
    FACTORD_UNROLL
    for (int k = 0; k < K; ++k) {
      R* const a = pivot.at(k + 1, i);
      const N updated = A::NegMultiplyAdd(w[k], x, A::Load(a, pivot.plane));
      A::Store(updated, a, pivot.plane);
      if (k == 0) next = kMasked ? After(updated, i, next_row) : updated;
      s[k][t] = A::ConjMultiplyAdd(next, updated, s[k][t]);
    }
  }
  // s_k = x^H a_k for all columns, x the first one after its row.
  static void FirstSums(const Panel& panel, Scalars& scalars) {
    for (int k = 0; k < panel.count; ++k) {
      N even = A::Zero(), odd = A::Zero();
      int i = panel.begin;
      for (; i < panel.bottom; i += kL) {
        const N x = After(A::Load(panel.a.at(0, i), panel.a.plane), i, panel.row);
        even = A::ConjMultiplyAdd(x, A::Load(panel.a.at(k, i), panel.a.plane), even);
      }
      for (; i < panel.a.cols; i += kL) {
        const N x = A::Load(panel.a.at(0, i), panel.a.plane);
        N sum = A::ConjMultiplyAdd(x, A::Load(panel.a.at(k, i), panel.a.plane), odd);
        odd = even;
        even = sum;
      }
      PutSum(A::Add(even, odd), &scalars.s[0][k], kPanel);
    }
  }
  static void Pass(int count, Rows<T> pivot, int row, int begin, int bottom, Scalars& scalars,
                   int first) {
    switch (count) {
      case 1:
        return Pass<1>(pivot, row, begin, bottom, scalars, first);
      case 2:
        return Pass<2>(pivot, row, begin, bottom, scalars, first);
      case 3:
        return Pass<3>(pivot, row, begin, bottom, scalars, first);
      case 4:
        return Pass<4>(pivot, row, begin, bottom, scalars, first);
      case 5:
        return Pass<5>(pivot, row, begin, bottom, scalars, first);
      case 6:
        return Pass<6>(pivot, row, begin, bottom, scalars, first);
      case 7:
        return Pass<7>(pivot, row, begin, bottom, scalars, first);
      default:
        return;
    }
  }

  // geqr2.
  static void FactorPanel(Panel& panel) {
    Scalars scalars;
    R scale[kParts][kPanel];
    FirstSums(panel, scalars);
    for (int j = 0; j < panel.count; ++j) {
      const int row = panel.row + j;
      R* const alpha = panel.a.at(j, row);
      const auto reflector = One::Larfg(One::Load(alpha, panel.a.plane), Get(scalars.s, j));
      One::Store(One::Real(reflector.beta), alpha, panel.a.plane);
      Put(reflector.tau, panel.tau, j);
      Put(reflector.scale, scale, j);
      const auto conj_tau = One::Conj(reflector.tau), conj_scale = One::Conj(reflector.scale);
      for (int k = j + 1; k < panel.count; ++k) {
        R* const top = panel.a.at(k, row);
        const auto old = One::Load(top, panel.a.plane);
        const auto z =
            One::Multiply(conj_tau, One::MultiplyAdd(conj_scale, Get(scalars.s, k), old));
        One::Store(One::Subtract(old, z), top, panel.a.plane);
        Put(One::Multiply(z, reflector.scale), scalars.w, k);
      }
      Pass(panel.count - 1 - j, panel.a.slice(j, panel.count - j), row, panel.begin, panel.bottom,
           scalars, j + 1);
    }
    for (int j = 0; j < panel.count; ++j) ScaleColumn(panel, j, Broadcast(scale, j));
  }
  // V's column j, below its one, from what it was before it was scaled.
  static void ScaleColumn(const Panel& panel, int j, N scale) {
    int i = panel.begin;
    for (; i < panel.bottom; i += kL) {
      R* const a = panel.a.at(j, i);
      const N x = A::Load(a, panel.a.plane);
      A::Store(A::Select(RowsIo<T>::FromColumn(panel.row + j + 1 - i), A::Multiply(x, scale), x), a,
               panel.a.plane);
    }
    for (; i < panel.a.cols; i += kL) {
      R* const a = panel.a.at(j, i);
      A::Store(A::Multiply(A::Load(a, panel.a.plane), scale), a, panel.a.plane);
    }
  }

  // Where the panel of columns j ... of a lies; `steps` reflectors in all.
  static void Place(Rows<T> a, int j, int steps, Panel& panel) {
    panel.a = a.slice(j, a.rows - j);
    panel.count = std::min(kPanel, steps - j);
    panel.row = j;
    panel.begin = j / kL * kL;
    panel.bottom = std::min(panel.begin + kTop, a.cols);
  }
  // top := V's first rows, explicit.
  static void MakeExplicit(Panel& panel) {
    for (int r = 0; r < kPanel; ++r) {
      for (int part = 0; part < kParts; ++part) {
        const R* const a = panel.a.at(r, panel.begin) + part * panel.a.plane;
        for (int t = 0; t < panel.bottom - panel.begin; ++t) {
          const int i = panel.begin + t - panel.row - r;  // below the one
          const bool exists = r < panel.count && i >= 0;
          panel.top[r][part][t] = !exists ? R(0) : i > 0 ? a[t] : part == 0 ? R(1) : R(0);
        }
      }
    }
  }
  // Vector i of V's column r.
  static HWY_INLINE N GetV(const Panel& panel, int r, int i, bool top) {
    return top ? A::Load(&panel.top[r][0][i - panel.begin], kTop)
               : A::Load(panel.a.at(r, i), panel.a.plane);
  }
  // Two rows of h at a time.
  static void Gram(Panel& panel) {
    std::fill_n(&panel.h[0][0][0], kPanel * kParts * kPanel, R(0));
    AddGram<1>(panel);
    if (panel.count > 2) AddGram<3>(panel);
    if (panel.count > 4) AddGram<5>(panel);
    if (panel.count > 6) AddGram<7>(panel);
  }
  // Those of reflectors r and r - 1.
  template <int r>
  static HWY_INLINE void AddGram(Panel& panel) {
    N sum[2][r];
    FACTORD_UNROLL
    for (int q = 0; q < r; ++q) sum[0][q] = sum[1][q] = A::Zero();
    AddGramRows<r, true>(panel, panel.begin, panel.bottom, sum);
    AddGramRows<r, false>(panel, panel.bottom, panel.a.cols, sum);
    for (int q = 0; q < r; ++q) {
      if (r < panel.count) PutSum(sum[1][q], &panel.h[r][0][q], kPanel);
      if (q < r - 1) PutSum(sum[0][q], &panel.h[r - 1][0][q], kPanel);
    }
  }
  template <int r, bool kInTop>
  static HWY_INLINE void AddGramRows(const Panel& panel, int from, int to, N (&sum)[2][r]) {
    for (int i = from; i < to; i += kL) {
      const N last = GetV(panel, r, i, kInTop), before = GetV(panel, r - 1, i, kInTop);
      FACTORD_UNROLL
      for (int q = 0; q < r; ++q) {
        const N vq = q == r - 1 ? before : GetV(panel, q, i, kInTop);
        sum[1][q] = A::ConjMultiplyAdd(last, vq, sum[1][q]);
        if (q < r - 1) sum[0][q] = A::ConjMultiplyAdd(before, vq, sum[0][q]);
      }
    }
  }
  static int PaddedReflectors(int count) { return (count + kGroup - 1) / kGroup * kGroup; }

  // -- applying a panel

  // Of C columns: w[r][..][c].
  struct Products {
    HWY_ALIGN R w[kPanel][kParts][kColumns];
  };

  // C rows of c (columns of the matrix), which begin in row 0:  W = V^H C,  W = op(T) W,  C -= V W.
  template <int C, bool kAdjoint>
  static void ApplyToTile(const Panel& panel, Rows<T> c) {
    Products products;
    for (int g = 0; g < panel.count; g += kGroup) Project<C>(panel, g, c, products);
    Solve<kAdjoint>(panel, products);
    for (int g = 0; g < panel.count; g += kGroup) Subtract<C>(panel, g, products, c);
  }
  template <int C>
  static HWY_INLINE void Project(const Panel& panel, int g, Rows<T> c, Products& products) {
    N sum[kGroup][C];
    FACTORD_UNROLL
    for (int r = 0; r < kGroup; ++r) {
      FACTORD_UNROLL
      for (int x = 0; x < C; ++x) sum[r][x] = A::Zero();
    }
    AddProducts<C, true>(panel, g, panel.begin, panel.bottom, c, sum);
    AddProducts<C, false>(panel, g, panel.bottom, c.cols, c, sum);
    FACTORD_UNROLL
    for (int r = 0; r < kGroup; ++r) {
      FACTORD_UNROLL
      for (int x = 0; x < C; ++x) PutSum(sum[r][x], &products.w[g + r][0][x], kColumns);
    }
  }
  template <int C, bool kInTop>
  static HWY_INLINE void AddProducts(const Panel& panel, int g, int from, int to, Rows<T> c,
                                     N (&sum)[kGroup][C]) {
    for (int i = from; i < to; i += kL) {
      N x[C];
      FACTORD_UNROLL
      for (int k = 0; k < C; ++k) x[k] = A::Load(c.at(k, i), c.plane);
      FACTORD_UNROLL
      for (int r = 0; r < kGroup; ++r) {
        const N v = GetV(panel, g + r, i, kInTop);
        FACTORD_UNROLL
        for (int k = 0; k < C; ++k) sum[r][k] = A::ConjMultiplyAdd(v, x[k], sum[r][k]);
      }
    }
  }
  template <int C>
  static HWY_INLINE void Subtract(const Panel& panel, int g, const Products& products, Rows<T> c) {
    N w[kGroup][C];
    FACTORD_UNROLL
    for (int r = 0; r < kGroup; ++r) {
      FACTORD_UNROLL
      for (int k = 0; k < C; ++k) w[r][k] = A::Set(&products.w[g + r][0][k], kColumns);
    }
    SubtractRows<C, true>(panel, g, panel.begin, panel.bottom, w, c);
    SubtractRows<C, false>(panel, g, panel.bottom, c.cols, w, c);
  }
  template <int C, bool kInTop>
  static HWY_INLINE void SubtractRows(const Panel& panel, int g, int from, int to,
                                      const N (&w)[kGroup][C], Rows<T> c) {
    for (int i = from; i < to; i += kL) {
      N x[C];
      FACTORD_UNROLL
      for (int k = 0; k < C; ++k) x[k] = A::Load(c.at(k, i), c.plane);
      FACTORD_UNROLL
      for (int r = 0; r < kGroup; ++r) {
        const N v = GetV(panel, g + r, i, kInTop);
        FACTORD_UNROLL
        for (int k = 0; k < C; ++k) x[k] = A::NegMultiplyAdd(v, w[r][k], x[k]);
      }
      FACTORD_UNROLL
      for (int k = 0; k < C; ++k) A::Store(x[k], c.at(k, i), c.plane);
    }
  }
  template <bool kAdjoint>
  static HWY_INLINE void Solve(const Panel& panel, Products& products) {
    for (int x = 0; x < kTile; x += Few::kLanes) {
      for (int step = 0; step < panel.count; ++step) {
        const int r = kAdjoint ? step : panel.count - 1 - step;
        auto w = Few::Load(&products.w[r][0][x], kColumns);
        for (int done = 0; done < step; ++done) {
          const int q = kAdjoint ? done : panel.count - 1 - done;
          const auto wq = Few::Load(&products.w[q][0][x], kColumns);
          w = kAdjoint ? Few::NegMultiplyAdd(Few::Set(&panel.h[r][0][q], kPanel), wq, w)
                       : Few::ConjNegMultiplyAdd(Few::Set(&panel.h[q][0][r], kPanel), wq, w);
        }
        const auto tau = Few::Set(&panel.tau[0][r], kPanel);
        Few::Store(Few::Multiply(kAdjoint ? Few::Conj(tau) : tau, w), &products.w[r][0][x],
                   kColumns);
      }
      // Those that only fill a group.
      for (int r = panel.count; r < PaddedReflectors(panel.count); ++r) {
        Few::Store(Few::Zero(), &products.w[r][0][x], kColumns);
      }
    }
  }

  // -- what OneMatrix asks of a way

  using Held = Rows<T>;
  using Io = RowsIo<T>;
  using Part = typename Io::Part;
  static constexpr int kStripColumns = 2 * kTile;  // of a tile of Apply
  static constexpr int kCopyColumns = 8;           // of a tile of the others

  static Held Take(Scratch& scratch, int m, int n) {
    // Groups of reflectors read columns that don't exist.
    Held held = Rows<T>::Take(scratch, PaddedReflectors(n), m);
    if (!scratch.counts_only()) {
      for (int j = n; j < held.rows; ++j) std::fill_n(held.at(j, 0), held.cols * kParts, R(0));
    }
    return held;
  }
  static void TakePanel(Scratch&, int, Panel*) {}
  static int Columns(Held, int n) { return n; }
  static R* Entry(Held held, int i, int j) { return held.at(j, i); }

  static void Load(const Dense<const T>& src, Held held, int c0, int c1) {
    Io::Load(src.columns(c0, c1 - c0).transposed(), held.slice(c0, c1 - c0), 0, held.cols);
  }
  static bool Scale(Held held, int c0, int c1, R* power) {
    bool finite = true;
    for (int j = c0; j < c1; ++j) {
      const int field = LargestField(held, j);
      finite &= field != Ieee<R>::kTopField;
      power[j] = kernels::ScaleOf<R>(field);
      const auto scale = hn::Set(D(), power[j]);
      for (int i = 0; i < held.cols; i += kL) {
        A::Store(A::Times(A::Load(held.at(j, i), held.plane), scale), held.at(j, i), held.plane);
      }
    }
    return finite;
  }
  static int LargestField(Held held, int j) {
    using DI = hn::RebindToSigned<D>;
    auto largest = hn::Zero(DI());
    for (int i = 0; i < held.cols; i += kL) {
      largest = hn::Max(largest, A::Magnitude(A::Load(held.at(j, i), held.plane)));
    }
    HWY_ALIGN hn::TFromD<DI> fields[kL];
    hn::Store(Fields<D>::Of(largest), DI(), fields);
    return static_cast<int>(*std::max_element(fields, fields + kL));
  }
  static bool IsFinite(Held held, int c0, int c1) {
    for (int j = c0; j < c1; ++j) {
      if (LargestField(held, j) == Ieee<R>::kTopField) return false;
    }
    return true;
  }
  static bool Unscale(Held held, int c0, int c1, const R* power, bool upper, const R* sign) {
    bool finite = true;
    for (int j = c0; j < c1; ++j) {
      const R back = R(1) / power[j];  // exactly
      const int rows = upper ? std::min(j + 1, held.cols) : held.cols;
      for (int part = 0; part < kParts; ++part) {
        R* const x = held.at(j, 0) + part * held.plane;
        for (int i = 0; i < rows; ++i) {
          x[i] *= back;
          if (sign != nullptr) x[i] *= sign[i];
          finite &= ExponentField(x[i]) != Ieee<R>::kTopField;
        }
      }
    }
    return finite;
  }
  // upper: what is on and above the diagonal, zeros below.
  static void Store(Held held, const Dense<T>& dst, int c0, int c1, bool upper) {
    const auto to = dst.columns(c0, c1 - c0).transposed();
    const Held from = held.slice(c0, c1 - c0);
    if (upper) {
      Io::template Store<Part::kLower>(from, to, 0, held.cols, c0);
    } else {
      Io::template Store<Part::kAll>(from, to, 0, held.cols, c0);
    }
  }
  static void SquaresBelow(Held held, int first, int n, R* squares) {
    for (int j = 0; j < n; ++j) {
      N sum = A::Zero();
      for (int i = first / kL * kL; i < held.cols; i += kL) {
        const N x = After(A::Load(held.at(j, i), held.plane), i, first - 1);
        sum = A::ConjMultiplyAdd(x, x, sum);
      }
      squares[j] = hn::GetLane(hn::SumOfLanes(D(), sum.re));
    }
  }
  static Rows<T> ByRows(Held held, Rows<T> rows) {
    for (int i = 0; i < rows.rows; ++i) {
      for (int part = 0; part < kParts; ++part) {
        R* const row = rows.at(i, 0) + part * rows.plane;
        std::fill_n(row, rows.cols, R(0));
        for (int j = 0; j < std::min(rows.cols, held.rows); ++j) {
          row[j] = *(held.at(j, i) + part * held.plane);
        }
      }
    }
    return rows;
  }
  static void SignColumns(Held held, int c0, int c1, const R* sign) {
    for (int j = c0; j < c1; ++j) {
      const auto s = hn::Set(D(), sign[j]);
      for (int i = 0; i < held.cols; i += kL) {
        A::Store(A::Times(A::Load(held.at(j, i), held.plane), s), held.at(j, i), held.plane);
      }
    }
  }
  static void KeepBelowDiagonal(Held held, int c0, int c1) {
    for (int j = c0; j < c1; ++j) {
      for (int part = 0; part < kParts; ++part) {
        std::fill_n(held.at(j, 0) + part * held.plane, j + 1, R(0));
      }
    }
  }
  static void SetIdentity(Held held, int cols) {
    for (int j = 0; j < cols; ++j) {
      std::fill_n(held.at(j, 0), held.cols * kParts, R(0));
      *held.at(j, j) = R(1);
    }
  }

  static void FactorBlock(Held a, int n, int j, int count, int steps, Panel* panels, R* tau) {
    const int end = std::min(j + count * kPanel, n);
    for (int p = 0; p < count; ++p, j += kPanel) {
      Panel& panel = panels[p];
      Place(a, j, steps, panel);
      FactorPanel(panel);
      for (int part = 0; part < kParts; ++part) {
        std::copy_n(panel.tau[part], panel.count, tau + part * steps + j);
      }
      if (j + kPanel >= n) return;
      MakeExplicit(panel);
      Gram(panel);
      Apply<true>(&panel, 1, a, j, j + kPanel, end);
    }
  }
  static void LoadBlock(Held a, int j, int count, int steps, Panel* panels, const R* tau) {
    for (int p = 0; p < count; ++p, j += kPanel) {
      Panel& panel = panels[p];
      Place(a, j, steps, panel);
      MakeExplicit(panel);
      Gram(panel);
      for (int part = 0; part < kParts; ++part) {
        std::copy_n(tau + part * steps + j, panel.count, panel.tau[part]);
      }
    }
  }
  template <bool kAdjoint>
  static void Apply(const Panel* panels, int count, Held c, int, int c0, int c1) {
    for (int j = c0; j < c1; j += kTile) {
      for (int step = 0; step < count; ++step) {
        const Panel& panel = panels[kAdjoint ? step : count - 1 - step];
        switch (std::min(kTile, c1 - j)) {
          case 1:
            ApplyToTile<1, kAdjoint>(panel, c.slice(j, 1));
            break;
          case 2:
            ApplyToTile<std::min(2, kTile), kAdjoint>(panel, c.slice(j, 2));
            break;
          default:
            ApplyToTile<kTile, kAdjoint>(panel, c.slice(j, kTile));
        }
      }
    }
  }
  static void ApplyBlockToIdentity(const Panel* panels, int count, Held q, int n, int j) {
    const int end = std::min(j + count * kPanel, n);
    for (int p = count - 1; p >= 0; --p) {
      const int first = j + p * kPanel, unit = std::min(first + kPanel, end);
      for (int c = first; c < unit; c += kTile) {
        switch (std::min(kTile, unit - c)) {
          case 1:
            ApplyToUnitVectors<1>(panels[p], c - first, q.slice(c, 1));
            break;
          case 2:
            ApplyToUnitVectors<std::min(2, kTile)>(panels[p], c - first, q.slice(c, 2));
            break;
          default:
            ApplyToUnitVectors<kTile>(panels[p], c - first, q.slice(c, kTile));
        }
      }
      if (unit < end) Apply<false>(panels + p, 1, q, first, unit, end);
    }
  }
  // Columns c, ... of the identity, counted from the panel's row: W = V^H E are V's rows c, ....
  template <int C>
  static void ApplyToUnitVectors(const Panel& panel, int c, Rows<T> q) {
    Products products;
    for (int r = 0; r < kPanel; ++r) {
      for (int k = 0; k < C; ++k) {
        const R* const v = &panel.top[r][0][panel.row - panel.begin + c + k];
        const bool exists = panel.row + c + k < panel.bottom;
        products.w[r][0][k] = exists ? v[0] : R(0);
        if constexpr (kParts == 2) products.w[r][1][k] = exists ? -v[kTop] : R(0);
      }
    }
    Solve<false>(panel, products);
    for (int g = 0; g < panel.count; g += kGroup) Subtract<C>(panel, g, products, q);
  }
};

}  // namespace factord::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FACTORD_KERNELS_CPU_ACROSS_ROWS_INL_H_
