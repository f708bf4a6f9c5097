// QR of one matrix, held by rows, with its columns in the lanes: a sum over rows needs no
// horizontal addition. The algorithm is that of across_matrices-inl.h, and so are the order of its
// arithmetic and the bits.
//
// Panels are taken out of the matrix: V of a panel is an array of rows of kPanel numbers. A few
// panels make a block; what lies right of a block is updated by all of its panels while a strip of
// columns is in the cache. A column's arithmetic depends neither on the strip nor on the block nor
// on the thread.
#if defined(FACTORD_KERNELS_CPU_ACROSS_COLUMNS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FACTORD_KERNELS_CPU_ACROSS_COLUMNS_INL_H_
#undef FACTORD_KERNELS_CPU_ACROSS_COLUMNS_INL_H_
#else
#define FACTORD_KERNELS_CPU_ACROSS_COLUMNS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/gels-inl.h"
#include "kernels/cpu/rows_io-inl.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace factord::kernels::cpu::HWY_NAMESPACE {

// A row of a panel: kPanel numbers in one vector, or in several narrow ones.
template <class T>
struct PanelRow {
  using R = Real<T>;
  using D = hn::CappedTag<R, kPanel>;
  using A = Numbers<T, D>;
  using N = typename A::N;
  using V = typename A::V;
  static constexpr int kL = A::kLanes;
  static constexpr int kVectors = kPanel / kL;

  N x[kVectors];

  static HWY_INLINE PanelRow Load(const R* p, std::int64_t plane) {
    PanelRow row;
    FACTORD_UNROLL
    for (int v = 0; v < kVectors; ++v) row.x[v] = A::Load(p + v * kL, plane);
    return row;
  }
  HWY_INLINE void Store(R* p, std::int64_t plane) const {
    FACTORD_UNROLL
    for (int v = 0; v < kVectors; ++v) A::Store(x[v], p + v * kL, plane);
  }
  static HWY_INLINE PanelRow Zero() {
    PanelRow row;
    FACTORD_UNROLL
    for (int v = 0; v < kVectors; ++v) row.x[v] = A::Zero();
    return row;
  }
  // Entry j in all lanes.
  HWY_INLINE N Entry(int j) const {
    if constexpr (kVectors == 1) return A::Lookup(x[0], A::Indices(j));
    HWY_ALIGN R memory[2 * kPanel];
    Store(memory, kPanel);
    return A::Set(memory + j, kPanel);
  }
  // Lanes j of vector v and on, or before j, or j.
  static HWY_INLINE hn::Vec<D> LaneNumbers(int v) { return hn::Iota(D(), static_cast<R>(v * kL)); }
  static HWY_INLINE hn::Mask<D> After(int v, int j) {
    return hn::Gt(LaneNumbers(v), hn::Set(D(), static_cast<R>(j)));
  }
  static HWY_INLINE hn::Mask<D> At(int v, int j) {
    return hn::Eq(LaneNumbers(v), hn::Set(D(), static_cast<R>(j)));
  }
};

template <class T>
struct AcrossColumns {
  using R = Real<T>;
  using Row = PanelRow<T>;
  static constexpr int kParts = Rows<T>::kParts;
  static constexpr int kRow = kPanel * kParts;  // elements of a panel's row
  static constexpr int kVectors = Row::kVectors;
  // Reflectors at a time.
  static constexpr int kGroup = kManyRegisters || !kIsComplex<T> ? kPanel : kPanel / 2;
  // Vectors of columns at a time, at most: the sums of a group of reflectors stay in registers.
  static constexpr int kStrip = kManyRegisters && !kIsComplex<T> ? 3 : 1;

  struct Panel {
    R* v = nullptr;  // rows x kPanel: V with its explicit ones and zeros
    int rows = 0;
    // h[r] holds v_r^H v_q for q < r; real parts, then imaginary ones.
    HWY_ALIGN R h[kPanel][kRow];
    HWY_ALIGN R tau[kRow];
  };

  // -- one panel

  template <int kSums>
  static HWY_INLINE Row Total(const Row (&sum)[kSums]) {
    using A = typename Row::A;
    Row total;
    FACTORD_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (kSums == 2) {
        total.x[v] = A::Add(sum[0].x[v], sum[1].x[v]);
      } else {
        total.x[v] = A::Add(A::Add(sum[0].x[v], sum[1].x[v]), A::Add(sum[2].x[v], sum[3].x[v]));
      }
    }
    return total;
  }

  // x^H a over the rows below the first, x the first column.
  template <int kSums>
  static Row DotsBelowFirst(int rows, const R* a) {
    Row sum[kSums];
    FACTORD_UNROLL
    for (int t = 0; t < kSums; ++t) sum[t] = Row::Zero();
    int i = 1;
    for (; i + kSums <= rows; i += kSums) {
      FACTORD_UNROLL
      for (int t = 0; t < kSums; ++t) DotRow(a + (i + t) * kRow, sum[t]);
    }
    FACTORD_UNROLL
    for (int t = 0; t < kSums - 1; ++t) {
      if (i + t < rows) DotRow(a + (i + t) * kRow, sum[t]);
    }
    return Total(sum);
  }
  static HWY_INLINE void DotRow(const R* row, Row& sum) {
    using A = typename Row::A;
    const auto x = A::Set(row, kPanel);
    FACTORD_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      sum.x[v] = A::ConjMultiplyAdd(x, A::Load(row + v * Row::kL, kPanel), sum.x[v]);
    }
  }

  // What a row needs for reflector j, kept in registers over all rows.
  struct Reflection {
    using A = typename Row::A;
    using N = typename Row::N;
    using D = typename Row::D;
    HWY_INLINE Reflection(const Row& w_in, int j_in)
        : w(w_in), j(j_in), next(A::Indices((j_in + 1) % Row::kL)) {
      FACTORD_UNROLL
      for (int v = 0; v < kVectors; ++v) after[v] = Row::After(v, j);
    }
    // Returns the row as it is now.
    HWY_INLINE Row Apply(R* row) const {
      const N x = A::Set(row + j, kPanel);
      Row updated;
      FACTORD_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        const N old = A::Load(row + v * Row::kL, kPanel);
        updated.x[v] = A::Select(after[v], A::NegMultiplyAdd(w.x[v], x, old), old);
      }
      updated.Store(row, kPanel);
      return updated;
    }
    // Entry j + 1 in all lanes.
    HWY_INLINE N Next(const Row& row) const {
      N x = row.x[0];
      FACTORD_UNROLL
      for (int v = 1; v < kVectors; ++v) {
        if ((j + 1) / Row::kL == v) x = row.x[v];
      }
      return A::Lookup(x, next);
    }

    const Row w;
    const int j;
    hn::Mask<D> after[kVectors];
    const typename A::Index next;
  };

  // Rows below j: a_i -= w x_i in the lanes after j, x the column j; returns the sum over rows
  // below j + 1 of conj(a_i,j+1) a_i.
  template <int kSums>
  static Row ReflectAndDot(int rows, int j, const Row& w, R* a) {
    Row sum[kSums];
    FACTORD_UNROLL
    for (int t = 0; t < kSums; ++t) sum[t] = Row::Zero();
    const Reflection reflection(w, j);
    int i = j + 1;
    if (i < rows) reflection.Apply(a + i++ * kRow);
    for (; i + kSums <= rows; i += kSums) {
      FACTORD_UNROLL
      for (int t = 0; t < kSums; ++t) {
        R* const row = a + (i + t) * kRow;
        Accumulate(reflection, reflection.Apply(row), sum[t]);
      }
    }
    FACTORD_UNROLL
    for (int t = 0; t < kSums - 1; ++t) {
      if (i + t < rows) {
        R* const row = a + (i + t) * kRow;
        Accumulate(reflection, reflection.Apply(row), sum[t]);
      }
    }
    return Total(sum);
  }
  static HWY_INLINE void Accumulate(const Reflection& reflection, const Row& updated, Row& sum) {
    using A = typename Row::A;
    const auto next = reflection.Next(updated);
    FACTORD_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      sum.x[v] = A::ConjMultiplyAdd(next, updated.x[v], sum.x[v]);
    }
  }
  // geqr2 of the panel's rows, in place; see FactorPanel in across_matrices-inl.h. One vector s =
  // x^H a serves twice: after j it is for the update, before j it gives h_j.
  template <int kSums>
  static void FactorPanel(Panel& panel, int cols) {
    using A = typename Row::A;
    R* const a = panel.v;
    const int steps = std::min(panel.rows, cols);
    std::fill_n(panel.tau, kRow, R(0));
    std::fill_n(&panel.h[0][0], kPanel * kRow, R(0));
    Row scales = Row::Zero();
    Row s = steps > 0 ? DotsBelowFirst<kSums>(panel.rows, a) : Row::Zero();
    for (int j = 0; j < steps; ++j) {
      R* const top = a + j * kRow;
      const Row row = Row::Load(top, kPanel);
      const auto reflector = A::Larfg(row.Entry(j), s.Entry(j));
      const auto conj_tau = A::Conj(reflector.tau), conj_scale = A::Conj(reflector.scale);
      Row w, h, kept;
      FACTORD_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        const auto z = A::MultiplyAdd(conj_scale, s.x[v], row.x[v]);
        const auto after = Row::After(v, j), at = Row::At(v, j);
        const auto tz = A::Multiply(conj_tau, z);
        h.x[v] = A::Multiply(z, scales.x[v]);
        w.x[v] = A::Multiply(tz, reflector.scale);
        kept.x[v] =
            A::Select(after, A::Subtract(row.x[v], tz),
                      A::Select(at, A::Real(reflector.beta), A::Multiply(row.x[v], scales.x[v])));
        scales.x[v] = A::Select(at, reflector.scale, scales.x[v]);
      }
      kept.Store(top, kPanel);
      h.Store(panel.h[j], kPanel);
      PutTau(panel, j, reflector.tau);
      if (j + 1 < kPanel) s = ReflectAndDot<kSums>(panel.rows, j, w, a);
    }
    for (int i = steps; i < panel.rows; ++i) {
      Row row = Row::Load(a + i * kRow, kPanel);
      FACTORD_UNROLL
      for (int v = 0; v < kVectors; ++v) row.x[v] = A::Multiply(row.x[v], scales.x[v]);
      row.Store(a + i * kRow, kPanel);
    }
  }
  static HWY_INLINE void PutTau(Panel& panel, int j, typename Row::N tau) {
    panel.tau[j] = hn::GetLane(tau.re);
    if constexpr (kParts == 2) panel.tau[kPanel + j] = hn::GetLane(tau.im);
  }

  // The rows of columns j ... j + kPanel - 1 of a, from row j on, into panel.v, and back.
  static void Take(Rows<T> a, int j, Panel& panel) {
    panel.rows = a.rows - j;
    for (int i = 0; i < panel.rows; ++i) {
      Row::Load(a.at(j + i, j), a.plane).Store(panel.v + i * kRow, kPanel);
    }
  }
  static void PutBack(const Panel& panel, Rows<T> a, int j) {
    for (int i = 0; i < panel.rows; ++i) {
      Row::Load(panel.v + i * kRow, kPanel).Store(a.at(j + i, j), a.plane);
    }
  }
  // Writes V's ones and zeros; `count` reflectors exist.
  static void MakeExplicit(Panel& panel, int count) {
    for (int i = 0; i < panel.rows; ++i) {
      const int first = std::min(i, count);  // of the entries that are not V's
      if (first == kPanel) return;
      R* const row = panel.v + i * kRow;
      for (int part = 0; part < kParts; ++part) {
        std::fill(row + part * kPanel + first, row + (part + 1) * kPanel, R(0));
      }
      if (i < count) row[i] = R(1);
    }
  }

  // -- applying a panel

  // C vectors of columns of a, which begins in the panel's first row:
  //   W = V^H A,  W = op(T) W,  A -= V W.
  template <class D, int C, bool kAdjoint>
  static HWY_INLINE void Strip(const Panel& panel, R* a, std::int64_t ld, std::int64_t plane) {
    using A = Numbers<T, D>;
    typename A::N w[kPanel][C];
    FACTORD_UNROLL
    for (int g = 0; g < kPanel; g += kGroup) Project<A, C>(panel, a, ld, plane, g, w);
    Solve<A, C, kAdjoint>(panel, w);
    FACTORD_UNROLL
    for (int g = 0; g < kPanel; g += kGroup) Subtract<A, C>(panel, w, g, a, ld, plane);
  }
  // The panel's own columns of the identity: W = V^H E is the top of V. Lane c of W is zero from
  // its entry c + 1 on, and V is zero above its diagonal: neither takes part, not even with a
  // zero's sign.
  static void ApplyToIdentity(const Panel& panel, R* a, std::int64_t ld, std::int64_t plane) {
    using A = typename Row::A;
    Row w[kPanel];
    TopTransposed(panel, w);
    FACTORD_UNROLL
    for (int step = 0; step < kPanel; ++step) {
      const int r = kPanel - 1 - step;
      const auto tau = A::Set(panel.tau + r, kPanel);
      FACTORD_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        auto sum = A::Conj(w[r].x[v]);
        FACTORD_UNROLL
        for (int done = 0; done < step; ++done) {
          const int q = kPanel - 1 - done;
          const auto h = A::Set(panel.h[q] + r, kPanel);
          sum = A::Select(Row::After(v, q - 1), A::ConjNegMultiplyAdd(h, w[q].x[v], sum), sum);
        }
        w[r].x[v] = A::Multiply(tau, sum);
      }
    }
    for (int i = 0; i < panel.rows; ++i, a += ld) {
      Row x = Row::Load(a, plane);
      FACTORD_UNROLL
      for (int r = 0; r < kPanel; ++r) {
        if (r <= i) {
          const auto vr = A::Set(panel.v + i * kRow + r, kPanel);
          FACTORD_UNROLL
          for (int v = 0; v < kVectors; ++v) {
            x.x[v] =
                A::Select(Row::After(v, r - 1), A::NegMultiplyAdd(vr, w[r].x[v], x.x[v]), x.x[v]);
          }
        }
      }
      x.Store(a, plane);
    }
  }
  // Row r of the result: column r of V's first kPanel rows.
  static HWY_INLINE void TopTransposed(const Panel& panel, Row (&top)[kPanel]) {
    const int rows = std::min(kPanel, panel.rows);
    if constexpr (kVectors == 1) {
      FACTORD_UNROLL
      for (int i = 0; i < kPanel; ++i) {
        top[i] = i < rows ? Row::Load(panel.v + i * kRow, kPanel) : Row::Zero();
      }
      typename Row::V part[kPanel];
      FACTORD_UNROLL
      for (int i = 0; i < kPanel; ++i) part[i] = top[i].x[0].re;
      Transpose<typename Row::D>(part);
      FACTORD_UNROLL
      for (int i = 0; i < kPanel; ++i) top[i].x[0].re = part[i];
      if constexpr (kParts == 2) {
        FACTORD_UNROLL
        for (int i = 0; i < kPanel; ++i) part[i] = top[i].x[0].im;
        Transpose<typename Row::D>(part);
        FACTORD_UNROLL
        for (int i = 0; i < kPanel; ++i) top[i].x[0].im = part[i];
      }
    } else {
      HWY_ALIGN R memory[kPanel][kRow] = {};
      for (int c = 0; c < rows; ++c) {
        for (int part = 0; part < kParts; ++part) {
          for (int r = 0; r < kPanel; ++r) {
            memory[r][part * kPanel + c] = panel.v[c * kRow + part * kPanel + r];
          }
        }
      }
      for (int r = 0; r < kPanel; ++r) top[r] = Row::Load(memory[r], kPanel);
    }
  }
  // Rows g ... g + kGroup - 1 of W = V^H A.
  template <class A, int C>
  static HWY_INLINE void Project(const Panel& panel, const R* a, std::int64_t ld,
                                 std::int64_t plane, int g, typename A::N (&w)[kPanel][C]) {
    using N = typename A::N;
    N sum[kGroup][C];
    FACTORD_UNROLL
    for (int r = 0; r < kGroup; ++r) {
      FACTORD_UNROLL
      for (int c = 0; c < C; ++c) sum[r][c] = A::Zero();
    }
    const R* v = panel.v + g;
    for (int i = 0; i < panel.rows; ++i, v += kRow, a += ld) {
      N x[C];
      FACTORD_UNROLL
      for (int c = 0; c < C; ++c) x[c] = A::Load(a + c * A::kLanes, plane);
      FACTORD_UNROLL
      for (int r = 0; r < kGroup; ++r) {
        const N vr = A::Set(v + r, kPanel);
        FACTORD_UNROLL
        for (int c = 0; c < C; ++c) sum[r][c] = A::ConjMultiplyAdd(vr, x[c], sum[r][c]);
      }
    }
    FACTORD_UNROLL
    for (int r = 0; r < kGroup; ++r) {
      FACTORD_UNROLL
      for (int c = 0; c < C; ++c) w[g + r][c] = sum[r][c];
    }
  }
  // A -= V W for these rows of W.
  template <class A, int C>
  static HWY_INLINE void Subtract(const Panel& panel, const typename A::N (&w)[kPanel][C], int g,
                                  R* a, std::int64_t ld, std::int64_t plane) {
    using N = typename A::N;
    N wg[kGroup][C];
    FACTORD_UNROLL
    for (int r = 0; r < kGroup; ++r) {
      FACTORD_UNROLL
      for (int c = 0; c < C; ++c) wg[r][c] = w[g + r][c];
    }
    const R* v = panel.v + g;
    for (int i = 0; i < panel.rows; ++i, v += kRow, a += ld) {
      N x[C];
      FACTORD_UNROLL
      for (int c = 0; c < C; ++c) x[c] = A::Load(a + c * A::kLanes, plane);
      FACTORD_UNROLL
      for (int r = 0; r < kGroup; ++r) {
        const N vr = A::Set(v + r, kPanel);
        FACTORD_UNROLL
        for (int c = 0; c < C; ++c) x[c] = A::NegMultiplyAdd(vr, wg[r][c], x[c]);
      }
      FACTORD_UNROLL
      for (int c = 0; c < C; ++c) A::Store(x[c], a + c * A::kLanes, plane);
    }
  }
  template <class A, int C, bool kAdjoint>
  static HWY_INLINE void Solve(const Panel& panel, typename A::N (&w)[kPanel][C]) {
    FACTORD_UNROLL
    for (int step = 0; step < kPanel; ++step) {
      const int r = kAdjoint ? step : kPanel - 1 - step;
      FACTORD_UNROLL
      for (int done = 0; done < step; ++done) {
        const int q = kAdjoint ? done : kPanel - 1 - done;
        const auto h = kAdjoint ? A::Set(panel.h[r] + q, kPanel) : A::Set(panel.h[q] + r, kPanel);
        FACTORD_UNROLL
        for (int c = 0; c < C; ++c) {
          w[r][c] = kAdjoint ? A::NegMultiplyAdd(h, w[q][c], w[r][c])
                             : A::ConjNegMultiplyAdd(h, w[q][c], w[r][c]);
        }
      }
      const auto tau = A::Set(panel.tau + r, kPanel);
      FACTORD_UNROLL
      for (int c = 0; c < C; ++c) w[r][c] = A::Multiply(kAdjoint ? A::Conj(tau) : tau, w[r][c]);
    }
  }

  // Panels in their order (kAdjoint) or the reverse, on columns c0 ... c1 - 1 of a, strip by strip.
  // first_row: a's row where the block's first panel begins. c1 - c0 is a multiple of kPanel.
  template <bool kAdjoint>
  static void Apply(const Panel* panels, int count, Rows<T> a, int first_row, int c0, int c1) {
    constexpr int kL = kLanes<R>;
    int c = c0;
    if constexpr (kL > kPanel) {
      if ((c1 - c0) % kL != 0) {
        ApplyStrip<hn::CappedTag<R, kPanel>, 1, kAdjoint>(panels, count, a, first_row, c);
        c += kPanel;
      }
    }
    if constexpr (kStrip >= 3) {
      for (; c + 3 * kL <= c1; c += 3 * kL) {
        ApplyStrip<Full<R>, 3, kAdjoint>(panels, count, a, first_row, c);
      }
    }
    if constexpr (kStrip >= 2) {
      for (; c + 2 * kL <= c1; c += 2 * kL) {
        ApplyStrip<Full<R>, 2, kAdjoint>(panels, count, a, first_row, c);
      }
    }
    for (; c + kL <= c1; c += kL) {
      ApplyStrip<Full<R>, 1, kAdjoint>(panels, count, a, first_row, c);
    }
  }
  template <class D, int C, bool kAdjoint>
  static void ApplyStrip(const Panel* panels, int count, Rows<T> a, int first_row, int c) {
    for (int step = 0; step < count; ++step) {
      const int p = kAdjoint ? step : count - 1 - step;
      Strip<D, C, kAdjoint>(panels[p], a.at(first_row + p * kPanel, c), a.ld, a.plane);
    }
  }

  // -- blocks of panels

  // Panels that begin in row and column j of a, `count` of them, of `steps` reflectors in all: each
  // factored and applied to the block's other columns. tau: planes of `steps` elements.
  static void FactorBlock(Rows<T> a, int n, int j, int count, int steps, Panel* panels, R* tau) {
    const int end = std::min(j + count * kPanel, a.cols);
    for (int p = 0; p < count; ++p, j += kPanel) {
      Panel& panel = panels[p];
      Take(a, j, panel);
      const int cols = std::min(kPanel, n - j), k = std::min(kPanel, steps - j);
      if (panel.rows > kFewRows) {
        FactorPanel<4>(panel, cols);
      } else {
        FactorPanel<2>(panel, cols);
      }
      PutBack(panel, a, j);
      for (int part = 0; part < kParts; ++part) {
        std::copy_n(panel.tau + part * kPanel, k, tau + part * steps + j);
      }
      MakeExplicit(panel, k);
      if (j + kPanel < end) Apply<true>(&panel, 1, a, j, j + kPanel, end);
    }
  }

  // The block's panels, last one first, on its own columns of q, which are still the identity's.
  static void ApplyBlockToIdentity(const Panel* panels, int count, Rows<T> q, int, int j) {
    const int end = std::min(j + count * kPanel, q.cols);
    for (int p = count - 1; p >= 0; --p) {
      const int first = j + p * kPanel, next = first + kPanel;
      ApplyToIdentity(panels[p], q.at(first, first), q.ld, q.plane);
      if (next < end) Apply<false>(panels + p, 1, q, first, next, end);
    }
  }

  // The block reflectors of panels j ... of the `steps` reflectors in a and tau.
  static void LoadBlock(Rows<T> a, int j, int count, int steps, Panel* panels, const R* tau) {
    for (int p = 0; p < count; ++p, j += kPanel) {
      Panel& panel = panels[p];
      const int k = std::min(kPanel, steps - j);
      Take(a, j, panel);
      MakeExplicit(panel, k);
      Gram(panel);
      std::fill_n(panel.tau, kRow, R(0));
      for (int part = 0; part < kParts; ++part) {
        std::copy_n(tau + part * steps + j, k, panel.tau + part * kPanel);
      }
    }
  }
  static void Gram(Panel& panel) {
    using A = typename Row::A;
    Row h[kPanel];
    FACTORD_UNROLL
    for (int r = 0; r < kPanel; ++r) h[r] = Row::Zero();
    for (int i = 0; i < panel.rows; ++i) {
      const R* v = panel.v + i * kRow;
      const Row row = Row::Load(v, kPanel);
      FACTORD_UNROLL
      for (int r = 1; r < kPanel; ++r) {
        const auto vr = A::Set(v + r, kPanel);
        FACTORD_UNROLL
        for (int x = 0; x < kVectors; ++x) {
          h[r].x[x] = A::ConjMultiplyAdd(vr, row.x[x], h[r].x[x]);
        }
      }
    }
    FACTORD_UNROLL
    for (int r = 0; r < kPanel; ++r) h[r].Store(panel.h[r], kPanel);
  }

  // -- what OneMatrix asks of a way

  using Held = Rows<T>;
  using Io = RowsIo<T>;
  using Part = typename Io::Part;
  static constexpr int kStripColumns = std::min(kStrip, 2) * kLanes<R>;  // of a tile of Apply
  static constexpr int kCopyColumns = std::max(kLanes<R>, 64);           // of a tile of the others

  static Held Take(Scratch& scratch, int m, int n) { return Rows<T>::Take(scratch, m, n); }
  // `panel` is null where scratch only counts.
  static void TakePanel(Scratch& scratch, int m, Panel* panel) {
    R* const v = scratch.Take<R>(std::int64_t{m} * kRow);
    if (panel != nullptr) panel->v = v;
  }
  // Loops over columns go on into the padding.
  static int Columns(Held held, int) { return held.cols; }
  static R* Entry(Held held, int i, int j) { return held.at(i, j); }

  static void Load(const Dense<const T>& src, Held held, int c0, int c1) {
    Io::Load(src, held, c0, c1);
  }
  static bool Scale(Held held, int c0, int c1, R* power) { return Io::Scale(held, c0, c1, power); }
  static bool IsFinite(Held held, int c0, int c1) { return Io::IsFinite(held, c0, c1); }
  static bool Unscale(Held held, int c0, int c1, const R* power, bool upper, const R* sign) {
    return Io::Unscale(held, c0, c1, power, upper, sign);
  }
  // upper: what is on and above the diagonal, zeros below.
  static void Store(Held held, const Dense<T>& dst, int c0, int c1, bool upper) {
    if (upper) {
      Io::template Store<Part::kUpper>(held, dst, c0, c1);
    } else {
      Io::template Store<Part::kAll>(held, dst, c0, c1);
    }
  }
  // squares[j] := ||column j||^2 over the rows from `first` on.
  static void SquaresBelow(Held held, int first, int n, R* squares) {
    using A = Numbers<T, Full<R>>;
    using D = Full<R>;
    for (int j = 0; j < n; j += kLanes<R>) {
      auto total = hn::Zero(D());
      for (int i = first; i < held.rows;) {
        auto sum = A::Zero();
        for (const int end = std::min(held.rows, i + kSquaresRun); i < end; ++i) {
          const auto x = A::Load(held.at(i, j), held.plane);
          sum = A::ConjMultiplyAdd(x, x, sum);
        }
        total = hn::Add(total, sum.re);
      }
      StoreFirst(total, D(), squares + j, std::min(kLanes<R>, n - j));
    }
  }
  // A matrix's first rows and columns by rows, in `rows` unless they are so already.
  static Rows<T> ByRows(Held held, Rows<T>) { return held; }
  static void SignColumns(Held held, int c0, int c1, const R* sign) {
    Io::SignColumns(held, c0, c1, sign);
  }
  static void KeepBelowDiagonal(Held held, int c0, int c1) { Io::KeepBelowDiagonal(held, c0, c1); }
  static void SetIdentity(Held held, int cols) {
    for (int i = 0; i < held.rows; ++i) {
      std::fill_n(held.at(i, 0), std::int64_t{held.cols} * kParts, R(0));
      if (i < cols) *held.at(i, i) = R(1);
    }
  }
};

}  // namespace factord::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FACTORD_KERNELS_CPU_ACROSS_COLUMNS_INL_H_
