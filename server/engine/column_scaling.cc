#include "server/engine/column_scaling.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace factord {
namespace {

// The bits of |x|: ordered as |x| is, with Inf and NaN above all finite numbers. An integer maximum over them keeps
// NaNs, which a floating-point one may drop.
template <class R>
struct Bits;
template <>
struct Bits<float> {
  using Int = std::int32_t;
  static constexpr int kFraction = 23;
  static constexpr int kBias = 127;
  static constexpr int kMinExponent = -149;
};
template <>
struct Bits<double> {
  using Int = std::int64_t;
  static constexpr int kFraction = 52;
  static constexpr int kBias = 1023;
  static constexpr int kMinExponent = -1074;
};

template <class R>
using Int = typename Bits<R>::Int;
template <class R>
constexpr Int<R> kInfinityBits = std::bit_cast<Int<R>>(std::numeric_limits<R>::infinity());

template <class R>
Int<R> MagnitudeBits(R x) {
  return std::bit_cast<Int<R>>(x) & std::numeric_limits<Int<R>>::max();
}
template <class R>
Int<R> MagnitudeBits(std::complex<R> x) {
  return std::max(MagnitudeBits(x.real()), MagnitudeBits(x.imag()));
}

// floor(log2 |x|) of the number with these bits; 0 for zero.
template <class R>
std::int32_t ExponentOf(Int<R> bits) {
  const Int<R> field = bits >> Bits<R>::kFraction;
  if (field != 0) return static_cast<std::int32_t>(field) - Bits<R>::kBias;
  if (bits == 0) return 0;
  using Unsigned = std::make_unsigned_t<Int<R>>;
  return Bits<R>::kMinExponent + std::bit_width(static_cast<Unsigned>(bits)) - 1;
}

// 2^-e as one factor, or as two where it exceeds the largest power of two (then both products are exact).
template <class R>
struct Factors {
  R first = 1;
  R second = 1;
};
template <class R>
Factors<R> InversePower(std::int32_t e) {
  if (e >= -Bits<R>::kBias) return {PowerOfTwo<R>(-e), R(1)};
  return {PowerOfTwo<R>(Bits<R>::kBias), PowerOfTwo<R>(-e - Bits<R>::kBias)};
}

// The largest magnitude in each of the n <= kWidth columns of src.
constexpr std::int64_t kWidth = 256;
template <class T>
void ColumnMaxima(Strided<const T> src, Int<Real<T>>* maxima) {
  if (src.by_columns()) {
    for (std::int64_t j = 0; j < src.n; ++j) {
      const T* column = src.data + j * src.col_stride;
      Int<Real<T>> largest = 0;
      for (std::int64_t i = 0; i < src.m; ++i) largest = std::max(largest, MagnitudeBits(column[i]));
      maxima[j] = largest;
    }
    return;
  }
  std::fill(maxima, maxima + src.n, 0);
  for (std::int64_t i = 0; i < src.m; ++i) {
    const T* row = src.data + i * src.row_stride;
    for (std::int64_t j = 0; j < src.n; ++j) maxima[j] = std::max(maxima[j], MagnitudeBits(row[j]));
  }
}

// At most kWidth columns.
template <bool kConjugate, class T>
bool LoadStrip(Strided<const T> src, MatrixView<T> dst, std::int32_t* e) {
  using R = Real<T>;
  std::array<Int<R>, kWidth> maxima;
  std::array<R, kWidth> scale;
  ColumnMaxima(src, maxima.data());
  bool finite = true;
  bool tiny = false;
  for (std::int64_t j = 0; j < src.n; ++j) {
    const auto at = static_cast<std::size_t>(j);
    finite &= maxima[at] < kInfinityBits<R>;
    e[j] = ExponentOf<R>(maxima[at]);
    const Factors<R> factors = InversePower<R>(finite ? e[j] : 0);
    scale[at] = factors.first;
    tiny |= factors.second != R(1);
  }
  if (!finite) return false;
  ForEntries(src.m, src.n, src.by_columns(), [&](std::int64_t i, std::int64_t j) {
    const T x = kConjugate ? Conj(src(i, j)) : src(i, j);
    dst(i, j) = x * scale[static_cast<std::size_t>(j)];
  });
  if (tiny) {
    for (std::int64_t j = 0; j < src.n; ++j) {
      const R second = InversePower<R>(e[j]).second;
      for (std::int64_t i = 0; i < src.m; ++i) dst(i, j) *= second;
    }
  }
  return true;
}

}  // namespace

template <class T>
Real<T> PowerOfTwo(std::int32_t e) {
  using R = Real<T>;
  const Int<R> biased = e + Bits<R>::kBias;
  if (biased > 0) return std::bit_cast<R>(biased << Bits<R>::kFraction);
  return std::bit_cast<R>(Int<R>(1) << (e - Bits<R>::kMinExponent));
}

template <class T>
bool LoadScaled(Strided<const T> src, bool conjugate, MatrixView<T> dst, std::int32_t* e) {
  bool finite = true;
  for (std::int64_t j = 0; j < src.n; j += kWidth) {
    const std::int64_t cols = std::min(kWidth, src.n - j);
    const auto strip = src.columns(j, cols);
    finite &= conjugate ? LoadStrip<true>(strip, dst.columns(j, cols), e + j)
                        : LoadStrip<false>(strip, dst.columns(j, cols), e + j);
  }
  return finite;
}

template <class T>
void LoadPlain(Strided<const T> src, MatrixView<T> dst) {
  ForEntries(src.m, src.n, src.by_columns(),
             [&](std::int64_t i, std::int64_t j) { dst(i, j) = src(i, j); });
}

template <class T>
bool IsFinite(const T* x, std::int64_t n) {
  Int<Real<T>> largest = 0;
  for (std::int64_t i = 0; i < n; ++i) largest = std::max(largest, MagnitudeBits(x[i]));
  return largest < kInfinityBits<Real<T>>;
}

template <class T>
bool StoreScaled(MatrixView<const T> src, const std::int32_t* e, bool conjugate, Strided<T> dst) {
  using R = Real<T>;
  bool finite = true;
  std::array<R, kWidth> scale;
  for (std::int64_t j0 = 0; j0 < src.n; j0 += kWidth) {
    const std::int64_t cols = std::min(kWidth, src.n - j0);
    for (std::int64_t j = 0; j < cols; ++j) scale[static_cast<std::size_t>(j)] = PowerOfTwo<T>(e[j0 + j]);
    const auto from = src.columns(j0, cols);
    const auto to = dst.columns(j0, cols);
    ForEntries(src.m, cols, dst.by_columns(), [&](std::int64_t i, std::int64_t j) {
      const T x = from(i, j) * scale[static_cast<std::size_t>(j)];
      finite &= MagnitudeBits(x) < kInfinityBits<R>;
      to(i, j) = conjugate ? Conj(x) : x;
    });
  }
  return finite;
}

#define FACTORD_INSTANTIATE(T)                                                        \
  template bool LoadScaled(Strided<const T>, bool, MatrixView<T>, std::int32_t*);     \
  template void LoadPlain(Strided<const T>, MatrixView<T>);                           \
  template bool IsFinite(const T*, std::int64_t);                                     \
  template Real<T> PowerOfTwo<T>(std::int32_t);                                       \
  template bool StoreScaled(MatrixView<const T>, const std::int32_t*, bool, Strided<T>);
FACTORD_INSTANTIATE(float)
FACTORD_INSTANTIATE(double)
FACTORD_INSTANTIATE(std::complex<float>)
FACTORD_INSTANTIATE(std::complex<double>)
#undef FACTORD_INSTANTIATE

}  // namespace factord
