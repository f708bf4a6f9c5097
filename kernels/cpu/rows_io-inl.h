// One matrix into rows of vectors, and back.
#if defined(FACTORD_KERNELS_CPU_ROWS_IO_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FACTORD_KERNELS_CPU_ROWS_IO_INL_H_
#undef FACTORD_KERNELS_CPU_ROWS_IO_INL_H_
#else
#define FACTORD_KERNELS_CPU_ROWS_IO_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/operands.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace factord::kernels::cpu::HWY_NAMESPACE {

// A matrix held by rows, which are padded with columns of zeros to whole vectors and whole panels:
// in each row the real parts of all columns, then the imaginary ones.
template <class T>
struct Rows {
  using R = Real<T>;
  static constexpr int kParts = kIsComplex<T> ? 2 : 1;
  static constexpr int kUnit = std::max(kLanes<R>, kPanel);

  R* data = nullptr;
  int rows = 0;
  int cols = 0;            // padded: a multiple of kUnit
  std::int64_t plane = 0;  // elements from a real part to its imaginary one
  std::int64_t ld = 0;     // elements from one row to the next

  HWY_INLINE R* at(std::int64_t i, std::int64_t j) const { return data + i * ld + j; }
  Rows slice(int first, int count) const { return {at(first, 0), count, cols, plane, ld}; }

  static int Padded(int cols) { return (cols + kUnit - 1) / kUnit * kUnit; }
  static Rows Take(Scratch& scratch, int rows, int cols) {
    const int padded = Padded(cols);
    // Never a power of two, lest a column's entries fight for one set of the cache.
    const std::int64_t ld = std::int64_t{padded} * kParts + kLanes<R>;
    return {scratch.Take<R>(ld * rows), rows, padded, padded, ld};
  }
};

template <class T>
struct RowsIo {
  using R = Real<T>;
  using D = Full<R>;
  using A = Numbers<T, D>;
  using N = typename A::N;
  using V = typename A::V;
  using DI = hn::RebindToSigned<D>;
  using I = hn::Vec<DI>;
  static constexpr int kL = kLanes<R>;
  static constexpr int kParts = A::kParts;

  // kL numbers that are neighbours in memory, from interleaved parts.
  static HWY_INLINE N LoadNumbers(const T* p, bool conjugate) {
    const auto* parts = reinterpret_cast<const R*>(p);
    if constexpr (kParts == 1) return {hn::LoadU(D(), parts)};
    if constexpr (kParts == 2) {
      N x;
      hn::LoadInterleaved2(D(), parts, x.re, x.im);
      return conjugate ? A::Conj(x) : x;
    }
  }
  static HWY_INLINE void StoreNumbers(N x, T* p, bool conjugate) {
    auto* parts = reinterpret_cast<R*>(p);
    if constexpr (kParts == 1) hn::StoreU(x.re, D(), parts);
    if constexpr (kParts == 2) {
      if (conjugate) x = A::Conj(x);
      hn::StoreInterleaved2(x.re, x.im, D(), parts);
    }
  }
  // The first `count` of them; the others are zero.
  static HWY_INLINE N LoadSome(const T* p, int count, bool conjugate) {
    if (count >= kL) return LoadNumbers(p, conjugate);
    const auto* parts = reinterpret_cast<const R*>(p);
    if constexpr (kParts == 1) return {LoadFirst(D(), parts, count)};
    if constexpr (kParts == 2) {
      HWY_ALIGN R two[2 * kL];
      hn::Store(LoadFirst(D(), parts, std::min(2 * count, kL)), D(), two);
      hn::Store(LoadFirst(D(), parts + kL, std::max(2 * count - kL, 0)), D(), two + kL);
      return LoadNumbers(reinterpret_cast<const T*>(two), conjugate);
    }
  }
  static HWY_INLINE void StoreSome(N x, T* p, int count, bool conjugate) {
    if (count >= kL) return StoreNumbers(x, p, conjugate);
    auto* parts = reinterpret_cast<R*>(p);
    if constexpr (kParts == 1) StoreFirst(x.re, D(), parts, count);
    if constexpr (kParts == 2) {
      HWY_ALIGN R two[2 * kL];
      StoreNumbers(x, reinterpret_cast<T*>(two), conjugate);
      StoreFirst(hn::Load(D(), two), D(), parts, std::min(2 * count, kL));
      StoreFirst(hn::Load(D(), two + kL), D(), parts + kL, std::max(2 * count - kL, 0));
    }
  }
  static HWY_INLINE void Transpose(N (&x)[kL]) {
    V part[kL];
    FACTORD_UNROLL
    for (int l = 0; l < kL; ++l) part[l] = x[l].re;
    HWY_NAMESPACE::Transpose<D>(part);
    FACTORD_UNROLL
    for (int l = 0; l < kL; ++l) x[l].re = part[l];
    if constexpr (kParts == 2) {
      FACTORD_UNROLL
      for (int l = 0; l < kL; ++l) part[l] = x[l].im;
      HWY_NAMESPACE::Transpose<D>(part);
      FACTORD_UNROLL
      for (int l = 0; l < kL; ++l) x[l].im = part[l];
    }
  }

  // Columns c0 ... c1 - 1 (multiples of kL) of dst := those of src, zeros where it has none.
  static void Load(const Dense<const T>& src, Rows<T> dst, int c0, int c1) {
    if (src.column_major) {
      for (int c = c0; c < c1; c += kL) LoadColumns(src, dst, c, std::clamp(src.cols - c, 0, kL));
      return;
    }
    for (int i = 0; i < src.rows; ++i) {
      const T* const row = src.data + i * src.ld;
      for (int c = c0; c < c1; c += kL) {
        const int count = std::clamp(src.cols - c, 0, kL);
        A::Store(count > 0 ? LoadSome(row + c, count, src.conjugate) : A::Zero(), dst.at(i, c),
                 dst.plane);
      }
    }
  }
  // Blocks of kL x kL are transposed in registers; the last overlaps the one before it.
  static void LoadColumns(const Dense<const T>& src, Rows<T> dst, int c, int count) {
    const int m = src.rows;
    for (int block = 0; block < m; block += kL) {
      const int i = std::max(std::min(block, m - kL), 0), some = std::min(kL, m);
      N x[kL];
      FACTORD_UNROLL
      for (int l = 0; l < kL; ++l) {
        x[l] =
            l < count ? LoadSome(src.data + (c + l) * src.ld + i, some, src.conjugate) : A::Zero();
      }
      Transpose(x);
      FACTORD_UNROLL
      for (int l = 0; l < kL; ++l) {
        if (l < some) A::Store(x[l], dst.at(i + l, c), dst.plane);
      }
    }
  }

  // What Store writes of a matrix: all of it, or what is on and above, or on and below the
  // diagonal, and zeros.
  enum class Part { kAll, kUpper, kLower };

  // dst := its columns' entries of src, columns c0 ... c1 - 1 (c0 a multiple of kL). src's first
  // row is row `first` of the matrix.
  template <Part kPart>
  static void Store(Rows<T> src, const Dense<T>& dst, int c0, int c1, int first = 0) {
    const int end = std::min(c1, dst.cols);
    if (dst.column_major) {
      for (int c = c0; c < end; c += kL) {
        StoreColumns<kPart>(src, dst, c, std::min(dst.cols - c, kL), first);
      }
      return;
    }
    for (int i = 0; i < dst.rows; ++i) {
      T* const row = dst.data + i * dst.ld;
      for (int c = c0; c < end; c += kL) {
        StoreSome(Get<kPart>(src, i, c, first), row + c, std::min(dst.cols - c, kL), dst.conjugate);
      }
    }
  }
  template <Part kPart>
  static void StoreColumns(Rows<T> src, const Dense<T>& dst, int c, int count, int first) {
    const int m = dst.rows;
    for (int block = 0; block < m; block += kL) {
      const int i = std::max(std::min(block, m - kL), 0), some = std::min(kL, m);
      N x[kL];
      FACTORD_UNROLL
      for (int l = 0; l < kL; ++l) x[l] = l < some ? Get<kPart>(src, i + l, c, first) : A::Zero();
      Transpose(x);
      FACTORD_UNROLL
      for (int l = 0; l < kL; ++l) {
        if (l < count) StoreSome(x[l], dst.data + (c + l) * dst.ld + i, some, dst.conjugate);
      }
    }
  }
  template <Part kPart>
  static HWY_INLINE N Get(Rows<T> src, int i, int c, int first) {
    const N x = A::Load(src.at(i, c), src.plane);
    const int diagonal = i + first - c;  // the lane that is on it
    if (kPart == Part::kUpper && diagonal > 0) {
      return A::Select(FromColumn(diagonal), x, A::Zero());
    }
    if (kPart == Part::kLower && diagonal < kL - 1) {
      return A::Select(FromColumn(diagonal + 1), A::Zero(), x);
    }
    return x;
  }
  // Lanes l >= first.
  static HWY_INLINE hn::Mask<D> FromColumn(int first) {
    return hn::Ge(hn::Iota(D(), 0), hn::Set(D(), static_cast<R>(first)));
  }

  // Columns c0 ... c1 - 1: zeros on and above the diagonal.
  static void KeepBelowDiagonal(Rows<T> a, int c0, int c1) {
    for (int c = c0; c < c1; c += kL) {
      for (int i = 0; i < std::min(a.rows, c + kL); ++i) {
        const N x = A::Load(a.at(i, c), a.plane);
        A::Store(i > c ? A::Select(FromColumn(i - c), A::Zero(), x) : A::Zero(), a.at(i, c),
                 a.plane);
      }
    }
  }
  // Column j times sign[j].
  static void SignColumns(Rows<T> a, int c0, int c1, const R* sign) {
    for (int c = c0; c < c1; c += kL) {
      const V s = hn::LoadU(D(), sign + c);
      for (int i = 0; i < a.rows; ++i) {
        A::Store(A::Times(A::Load(a.at(i, c), a.plane), s), a.at(i, c), a.plane);
      }
    }
  }

  // The largest magnitude of a part in each of the columns c ... c + kL - 1.
  static I Largest(Rows<T> a, int c) {
    I largest = hn::Zero(DI());
    for (int i = 0; i < a.rows; ++i) {
      largest = hn::Max(largest, A::Magnitude(A::Load(a.at(i, c), a.plane)));
    }
    return largest;
  }
  static HWY_INLINE bool IsFinite(I magnitude) {
    return hn::AllFalse(DI(), Fields<D>::IsNonfinite(magnitude));
  }
  static bool IsFinite(Rows<T> a, int c0, int c1) {
    for (int c = c0; c < c1; c += kL) {
      if (!IsFinite(Largest(a, c))) return false;
    }
    return true;
  }

  // Columns c0 ... c1 - 1 times powers of two, which go to power[c0 ... c1 - 1]. False: a NaN or an
  // Inf is among them.
  static bool Scale(Rows<T> a, int c0, int c1, R* power) {
    bool finite = true;
    for (int c = c0; c < c1; c += kL) {
      const I largest = Largest(a, c);
      finite &= IsFinite(largest);
      const V scale = Fields<D>::Scale(largest);
      hn::StoreU(scale, D(), power + c);
      for (int i = 0; i < a.rows; ++i) {
        A::Store(A::Times(A::Load(a.at(i, c), a.plane), scale), a.at(i, c), a.plane);
      }
    }
    return finite;
  }
  // The reverse, for all of the columns or for what is on and above the diagonal; row i times
  // sign[i] as well where there is one. False: an entry overflowed.
  static bool Unscale(Rows<T> a, int c0, int c1, const R* power, bool upper, const R* sign) {
    I largest = hn::Zero(DI());
    for (int c = c0; c < c1; c += kL) {
      const V back = Fields<D>::Unscale(hn::LoadU(D(), power + c));
      const int rows = upper ? std::min(a.rows, c + kL) : a.rows;
      for (int i = 0; i < rows; ++i) {
        const N old = A::Load(a.at(i, c), a.plane);
        N x = A::Times(old, back);
        if (sign != nullptr) x = A::Times(x, hn::Set(D(), sign[i]));
        if (upper && i > c) {
          const auto mine = FromColumn(i - c);
          largest = hn::Max(largest, A::Magnitude(A::Select(mine, x, A::Zero())));
          x = A::Select(mine, x, old);
        } else {
          largest = hn::Max(largest, A::Magnitude(x));
        }
        A::Store(x, a.at(i, c), a.plane);
      }
    }
    return IsFinite(largest);
  }
};

}  // namespace factord::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FACTORD_KERNELS_CPU_ROWS_IO_INL_H_
