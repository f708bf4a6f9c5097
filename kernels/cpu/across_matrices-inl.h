// QR of as many matrices at once as a vector has lanes: lane l of everything belongs to matrix l.
// Blocked Householder QR (LAPACK's geqrf) with panels of kPanel columns. The block reflector's T is
// never formed: with Q = H_1 ... H_k = I - V T V^H, T^-1 = diag(1/tau) + strict upper(V^H V), so
// that W := T^H (V^H C) is a triangular solve:
//   Q^H:  w_r = conj(tau_r) (w_r - sum over q < r of (v_r^H v_q) w_q), r ascending
//   Q:    w_r =      tau_r  (w_r - sum over q > r of (v_r^H v_q) w_q), r descending
//
// The arithmetic, and its order, are those of across_columns-inl.h.
#if defined(FACTORD_KERNELS_CPU_ACROSS_MATRICES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FACTORD_KERNELS_CPU_ACROSS_MATRICES_INL_H_
#undef FACTORD_KERNELS_CPU_ACROSS_MATRICES_INL_H_
#else
#define FACTORD_KERNELS_CPU_ACROSS_MATRICES_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/lanes_io-inl.h"
#include "kernels/cpu/operands.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace factord::kernels::cpu::HWY_NAMESPACE {

template <class T>
struct AcrossMatrices {
  using R = Real<T>;
  using D = Full<R>;
  using A = Numbers<T, D>;
  using N = typename A::N;
  using V = typename A::V;
  using Io = LanesIo<T>;
  using Block = LanesBlock<T>;
  static constexpr int kTile = kManyRegisters && !kIsComplex<T> ? 2 : 1;  // columns at a time
  // Reflectors at a time.
  static constexpr int kGroup = kManyRegisters || !kIsComplex<T> ? kPanel : kPanel / 2;

  // What else than V there is to a panel's block reflector.
  struct Reflectors {
    N h[kPanel][kPanel];  // h[r][q] = v_r^H v_q, q < r
    N tau[kPanel];
  };
  // Of the panel in work. Row i of a column below its diagonal is x_i = v_i / scale.
  struct Progress {
    N scale[kPanel];
    N w[kPanel];
    N s[kPanel];  // s[k] = x^H a_k, x the column in work
  };

  // Sums over rows are kept in kSums parts, row i in part i mod kSums counted from the first.
  template <int kSums>
  static HWY_INLINE N Total(const N (&sum)[kSums]) {
    if constexpr (kSums == 2) {
      return A::Add(sum[0], sum[1]);
    } else {
      return A::Add(A::Add(sum[0], sum[1]), A::Add(sum[2], sum[3]));
    }
  }

  // x^H y over rows first ... m - 1.
  template <int kSums>
  static HWY_INLINE N Dot(int first, Block x, Block y) {
    N sum[kSums];
    FACTORD_UNROLL
    for (int t = 0; t < kSums; ++t) sum[t] = A::Zero();
    int i = first;
    for (; i + kSums <= x.rows; i += kSums) {
      FACTORD_UNROLL
      for (int t = 0; t < kSums; ++t) {
        sum[t] = A::ConjMultiplyAdd(x.Get(i + t, 0), y.Get(i + t, 0), sum[t]);
      }
    }
    FACTORD_UNROLL
    for (int t = 0; t < kSums - 1; ++t) {
      if (i + t < x.rows) {
        sum[t] = A::ConjMultiplyAdd(x.Get(i + t, 0), y.Get(i + t, 0), sum[t]);
      }
    }
    return Total(sum);
  }

  // Columns c = 0 ... C - 1 of a: a_c -= w_c pivot from row `next` on, and in the same pass the
  // dots s_c = x^H a_c over the rows below with the next column x: the tile's own first one if
  // kOwn.
  template <int C, bool kOwn, int kSums>
  static HWY_INLINE void UpdateAndDot(int next, Block pivot, Block x, Block a, const N* w, N* s) {
    N wc[C], sum[C][kSums];
    FACTORD_UNROLL
    for (int c = 0; c < C; ++c) {
      wc[c] = w[c];
      a.Put(next, c, A::NegMultiplyAdd(wc[c], pivot.Get(next, 0), a.Get(next, c)));
      FACTORD_UNROLL
      for (int t = 0; t < kSums; ++t) sum[c][t] = A::Zero();
    }
    int i = next + 1;
    for (; i + kSums <= a.rows; i += kSums) {
      FACTORD_UNROLL
      for (int t = 0; t < kSums; ++t) UpdateRow<C, kOwn, kSums>(i + t, t, pivot, x, a, wc, sum);
    }
    FACTORD_UNROLL
    for (int t = 0; t < kSums - 1; ++t) {
      if (i + t < a.rows) UpdateRow<C, kOwn, kSums>(i + t, t, pivot, x, a, wc, sum);
    }
    FACTORD_UNROLL
    for (int c = 0; c < C; ++c) s[c] = Total(sum[c]);
  }
  template <int C, bool kOwn, int kSums>
  static HWY_INLINE void UpdateRow(int i, int t, Block pivot, Block x, Block a, const N (&w)[C],
                                   N (&sum)[C][kSums]) {
    const N p = pivot.Get(i, 0);
    N xi = A::Zero();
    if (!kOwn) xi = x.Get(i, 0);
    FACTORD_UNROLL
    for (int c = 0; c < C; ++c) {
      const N updated = A::NegMultiplyAdd(w[c], p, a.Get(i, c));
      if (kOwn && c == 0) xi = updated;
      sum[c][t] = A::ConjMultiplyAdd(xi, updated, sum[c][t]);
      a.Put(i, c, updated);
    }
  }

  // geqr2 of the panel a, right-looking. With x the column j below its diagonal, v = x scale, and
  // s_k = x^H a_k known:
  //   z_k = v^H a_k = a_jk + conj(scale) s_k;  a_k -= conj(tau) z_k v for k > j;
  //   h_jk = v_j^H v_k = z_k scale_k for k < j
  // Columns keep x until the end. `inner`: whether h is wanted.
  template <int kSums>
  static void FactorPanel(Block a, Reflectors& reflectors, bool inner) {
    Progress p;
    const int steps = std::min(a.rows, a.cols);
    for (int c = 0; c < a.cols; ++c) p.s[c] = Dot<kSums>(1, a.column(0), a.column(c));
    for (int j = 0; j < steps; ++j) {
      const auto reflector = A::Larfg(a.Get(j, j), p.s[j]);
      a.Put(j, j, A::Real(reflector.beta));
      reflectors.tau[j] = reflector.tau;
      p.scale[j] = reflector.scale;
      const N conj_tau = A::Conj(reflector.tau), conj_scale = A::Conj(reflector.scale);
      for (int k = j + 1; k < a.cols; ++k) {
        const N z = A::Multiply(conj_tau, A::MultiplyAdd(conj_scale, p.s[k], a.Get(j, k)));
        a.Put(j, k, A::Subtract(a.Get(j, k), z));
        p.w[k] = A::Multiply(z, reflector.scale);
      }
      if (inner) {
        for (int k = 0; k < j; ++k) {
          reflectors.h[j][k] =
              A::Multiply(A::MultiplyAdd(conj_scale, p.s[k], a.Get(j, k)), p.scale[k]);
        }
      }
      const int next = j + 1;
      if (next == a.rows || next == a.cols) continue;
      Advance<kSums>(a, next, p);
      if (inner) {
        for (int q = 0; q < next; ++q) {
          p.s[q] = Dot<kSums>(next + 1, a.column(next), a.column(q));
        }
      }
    }
    for (int j = 0; j < steps; ++j) {
      for (int i = j + 1; i < a.rows; ++i) a.Put(i, j, A::Multiply(a.Get(i, j), p.scale[j]));
    }
  }
  // All columns from `next` on, some at a time.
  template <int kSums>
  static HWY_INLINE void Advance(Block a, int next, Progress& p) {
    constexpr int kMost = !kManyRegisters && (kSums > 2 || kIsComplex<T>) ? 1
                          : kSums > 2 || kIsComplex<T>                    ? 2
                          : kManyRegisters                                ? 4
                                                                          : 2;
    const Block pivot = a.column(next - 1), x = a.column(next);
    int k = next;
    const auto left = [&] { return a.cols - k; };
    if (kMost >= 4 && left() >= 4) {
      UpdateAndDot<4, true, kSums>(next, pivot, x, a.column(k), p.w + k, p.s + k);
      k += 4;
    } else if (kMost >= 2 && left() >= 2) {
      UpdateAndDot<2, true, kSums>(next, pivot, x, a.column(k), p.w + k, p.s + k);
      k += 2;
    } else {
      UpdateAndDot<1, true, kSums>(next, pivot, x, a.column(k), p.w + k, p.s + k);
      k += 1;
    }
    if (kMost >= 2) {
      for (; left() >= 2; k += 2) {
        UpdateAndDot<2, false, kSums>(next, pivot, x, a.column(k), p.w + k, p.s + k);
      }
    }
    for (; left() >= 1; ++k) {
      UpdateAndDot<1, false, kSums>(next, pivot, x, a.column(k), p.w + k, p.s + k);
    }
  }

  // v (rows x kPanel) := the panel's V with its explicit ones and zeros; k of its reflectors exist.
  static void ExpandPanel(Block a, int k, Block v) {
    const N zero = A::Zero(), one = A::Real(hn::Set(D(), R(1)));
    for (int r = 0; r < kPanel; ++r) {
      for (int i = 0; i < v.rows; ++i) {
        v.Put(i, r, r > i || r >= k ? zero : r == i ? one : a.Get(i, r));
      }
    }
  }
  // h from V by itself.
  static void Gram(Block v, int k, Reflectors& reflectors) {
    for (int r = 0; r < k; ++r) {
      for (int q = 0; q < r; ++q) {
        N sum = A::Zero();
        for (int i = r; i < v.rows; ++i) {  // above, v_r is zero
          sum = A::ConjMultiplyAdd(v.Get(i, r), v.Get(i, q), sum);
        }
        reflectors.h[r][q] = sum;
      }
    }
  }
  static void ClearMissing(int k, Reflectors& reflectors) {
    for (int r = k; r < kPanel; ++r) {
      reflectors.tau[r] = A::Zero();
      for (int q = 0; q < r; ++q) reflectors.h[r][q] = A::Zero();
    }
  }

  // C columns:  W = V^H A,  W = op(T) W,  A -= V W.
  template <int C, bool kAdjoint>
  static HWY_INLINE void Apply(Block v, const Reflectors& reflectors, Block a) {
    N w[kPanel][C];
    FACTORD_UNROLL
    for (int g = 0; g < kPanel; g += kGroup) Project<C>(v, a, g, w);
    Solve<C, kAdjoint>(reflectors, w);
    FACTORD_UNROLL
    for (int g = 0; g < kPanel; g += kGroup) Subtract<C>(v, w, g, a);
  }
  // Column c of the identity, a's first, c < kPanel. V^H e_c is a row of V, and zero from its entry
  // c + 1 on: so is W, and V is zero above its diagonal.
  static HWY_INLINE void ApplyToUnitVector(Block v, const Reflectors& reflectors, int c, Block a) {
    N w[kPanel];
    for (int r = c; r >= 0; --r) {
      N sum = A::Conj(v.Get(c, r));
      for (int q = c; q > r; --q) sum = A::ConjNegMultiplyAdd(reflectors.h[q][r], w[q], sum);
      w[r] = A::Multiply(reflectors.tau[r], sum);
    }
    for (int i = 0; i < v.rows; ++i) {
      N x = a.Get(i, 0);
      for (int r = 0; r <= std::min(i, c); ++r) x = A::NegMultiplyAdd(v.Get(i, r), w[r], x);
      a.Put(i, 0, x);
    }
  }
  // Rows g ... g + kGroup - 1 of W = V^H A.
  template <int C>
  static HWY_INLINE void Project(Block v, Block a, int g, N (&w)[kPanel][C]) {
    N sum[kGroup][C];
    FACTORD_UNROLL
    for (int r = 0; r < kGroup; ++r) {
      FACTORD_UNROLL
      for (int c = 0; c < C; ++c) sum[r][c] = A::Zero();
    }
    for (int i = 0; i < v.rows; ++i) {
      N x[C];
      FACTORD_UNROLL
      for (int c = 0; c < C; ++c) x[c] = a.Get(i, c);
      FACTORD_UNROLL
      for (int r = 0; r < kGroup; ++r) {
        const N vr = v.Get(i, g + r);
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
  template <int C>
  static HWY_INLINE void Subtract(Block v, const N (&w)[kPanel][C], int g, Block a) {
    N wg[kGroup][C];
    FACTORD_UNROLL
    for (int r = 0; r < kGroup; ++r) {
      FACTORD_UNROLL
      for (int c = 0; c < C; ++c) wg[r][c] = w[g + r][c];
    }
    for (int i = 0; i < v.rows; ++i) {
      N x[C];
      FACTORD_UNROLL
      for (int c = 0; c < C; ++c) x[c] = a.Get(i, c);
      FACTORD_UNROLL
      for (int r = 0; r < kGroup; ++r) {
        const N vr = v.Get(i, g + r);
        FACTORD_UNROLL
        for (int c = 0; c < C; ++c) x[c] = A::NegMultiplyAdd(vr, wg[r][c], x[c]);
      }
      FACTORD_UNROLL
      for (int c = 0; c < C; ++c) a.Put(i, c, x[c]);
    }
  }
  template <int C, bool kAdjoint>
  static HWY_INLINE void Solve(const Reflectors& reflectors, N (&w)[kPanel][C]) {
    FACTORD_UNROLL
    for (int step = 0; step < kPanel; ++step) {
      const int r = kAdjoint ? step : kPanel - 1 - step;
      FACTORD_UNROLL
      for (int done = 0; done < step; ++done) {
        const int q = kAdjoint ? done : kPanel - 1 - done;
        FACTORD_UNROLL
        for (int c = 0; c < C; ++c) {
          w[r][c] = kAdjoint ? A::NegMultiplyAdd(reflectors.h[r][q], w[q][c], w[r][c])
                             : A::ConjNegMultiplyAdd(reflectors.h[q][r], w[q][c], w[r][c]);
        }
      }
      const N tau = kAdjoint ? A::Conj(reflectors.tau[r]) : reflectors.tau[r];
      FACTORD_UNROLL
      for (int c = 0; c < C; ++c) w[r][c] = A::Multiply(tau, w[r][c]);
    }
  }
  template <bool kAdjoint>
  static void ApplyToColumns(Block v, const Reflectors& reflectors, Block a) {
    int c = 0;
    if constexpr (kTile >= 2) {
      for (; c + 2 <= a.cols; c += 2) Apply<2, kAdjoint>(v, reflectors, a.column(c));
    }
    for (; c < a.cols; ++c) Apply<1, kAdjoint>(v, reflectors, a.column(c));
  }

  // a := R and V; v: a.rows x kPanel of scratch.
  static void Factor(Block a, N* tau, Block v) {
    const int steps = std::min(a.rows, a.cols);
    Reflectors reflectors;
    for (int j = 0; j < steps; j += kPanel) {
      const int rows = a.rows - j, k = std::min(kPanel, steps - j);
      const Block panel = a.block(j, j, rows, std::min(kPanel, a.cols - j));
      const bool trailing = j + kPanel < a.cols;
      if (rows > kFewRows) {
        FactorPanel<4>(panel, reflectors, trailing);
      } else {
        FactorPanel<2>(panel, reflectors, trailing);
      }
      std::copy_n(reflectors.tau, k, tau + j);
      if (!trailing) return;
      ClearMissing(k, reflectors);
      v.rows = rows;
      ExpandPanel(panel, k, v);
      ApplyToColumns<true>(v, reflectors, a.block(j, j + kPanel, rows, a.cols - j - kPanel));
    }
  }

  // The block reflector of panel j of the k reflectors in a and tau.
  static void LoadPanel(Block a, const N* tau, int k, int j, Block& v, Reflectors& reflectors) {
    const int count = std::min(kPanel, k - j);
    v.rows = a.rows - j;
    ExpandPanel(a.block(j, j, v.rows, kPanel), count, v);
    Gram(v, count, reflectors);
    std::copy_n(tau + j, count, reflectors.tau);
    ClearMissing(count, reflectors);
  }

  // orgqr: q := the first q.cols columns of Q, k reflectors.
  static void FormQ(Block a, const N* tau, int k, Block q, Block v) {
    for (int c = 0; c < q.cols; ++c) {
      for (int i = 0; i < q.rows; ++i) {
        q.Put(i, c, A::Real(hn::Set(D(), i == c ? R(1) : R(0))));
      }
    }
    // In the rows that a panel acts on, columns left of it are still zero, its own still those of
    // the identity.
    for (int j = LastPanel(k); j >= 0; j -= kPanel) {
      Reflectors reflectors;
      LoadPanel(a, tau, k, j, v, reflectors);
      const Block rest = q.block(j, j, q.rows - j, q.cols - j);
      const int unit = std::min(kPanel, rest.cols);
      for (int c = 0; c < unit; ++c) ApplyToUnitVector(v, reflectors, c, rest.column(c));
      if (unit < rest.cols) ApplyToColumns<false>(v, reflectors, rest.column(unit));
    }
  }
  static int LastPanel(int k) { return (k + kPanel - 1) / kPanel * kPanel - kPanel; }

  // ormqr: c := Q c or Q^H c.
  static void ApplyQ(Block a, const N* tau, int k, bool adjoint, Block c, Block v) {
    Reflectors reflectors;
    for (int step = 0; step < k; step += kPanel) {
      const int j = adjoint ? step : LastPanel(k) - step;
      LoadPanel(a, tau, k, j, v, reflectors);
      const Block rows = c.block(j, 0, c.rows - j, c.cols);
      if (adjoint) {
        ApplyToColumns<true>(v, reflectors, rows);
      } else {
        ApplyToColumns<false>(v, reflectors, rows);
      }
    }
  }
};

}  // namespace factord::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FACTORD_KERNELS_CPU_ACROSS_MATRICES_INL_H_
