#include "server/engine/column_scaling.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

namespace factord {
namespace {

// The bits of |x|: ordered as |x| is, with Inf and NaN above all finite numbers. An integer maximum
// over them keeps NaNs, which a floating-point one may drop.
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

template <class R>
R PowerOfTwo(std::int32_t e) {
  const Int<R> biased = e + Bits<R>::kBias;
  if (biased > 0) return std::bit_cast<R>(biased << Bits<R>::kFraction);
  return std::bit_cast<R>(Int<R>(1) << (e - Bits<R>::kMinExponent));  // subnormal
}

// 2^-e as one factor, or as two where it exceeds the largest power of two (then both products are
// exact).
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

// At most this many columns at a time, so that what is known of each stays in the L1 cache.
constexpr std::int64_t kWidth = 256;

// The largest magnitude among n components.
template <class R>
Int<R> Largest(const R* x, std::int64_t n) {
  // Several running maxima: one alone would wait for itself.
  constexpr std::int64_t kLanes = 8;
  Int<R> lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t l = 0; l < kLanes; ++l)
      lanes[l] = std::max(lanes[l], MagnitudeBits(x[i + l]));
  }
  for (; i < n; ++i) lanes[0] = std::max(lanes[0], MagnitudeBits(x[i]));
  return *std::max_element(lanes, lanes + kLanes);
}

// The largest magnitude in each of src's n <= kWidth columns.
template <class T>
void ColumnMaxima(Strided<const T> src, Int<Real<T>>* maxima) {
  using R = Real<T>;
  constexpr std::int64_t kParts = kIsComplex<T> ? 2 : 1;
  const auto* data = reinterpret_cast<const R*>(src.data);
  if (src.by_columns()) {
    for (std::int64_t j = 0; j < src.n; ++j) {
      maxima[j] = Largest(data + j * src.col_stride * kParts, src.m * kParts);
    }
    return;
  }
  std::array<Int<R>, kWidth * kParts> parts;  // of the real and the imaginary parts
  std::fill_n(parts.begin(), src.n * kParts, 0);
  for (std::int64_t i = 0; i < src.m; ++i) {
    const R* row = data + i * src.row_stride * kParts;
    Int<R>* const best = parts.data();
    for (std::int64_t j = 0; j < src.n * kParts; ++j)
      best[j] = std::max(best[j], MagnitudeBits(row[j]));
  }
  for (std::int64_t j = 0; j < src.n; ++j) {
    const Int<R>* part = parts.data() + j * kParts;
    maxima[j] = *std::max_element(part, part + kParts);
  }
}

// The parts of n elements, times s. Columns are scaled in place, where they are contiguous, not on
// the way of a transposing copy: only so does the loop fill its vectors for complex types too.
template <class T>
void MultiplyColumn(T* x, std::int64_t n, Real<T> s) {
  auto* parts = reinterpret_cast<Real<T>*>(x);
  const std::int64_t count = n * (kIsComplex<T> ? 2 : 1);
  for (std::int64_t i = 0; i < count; ++i) parts[i] *= s;
}

// At most kWidth columns.
template <bool kConjugate, class T>
bool LoadStrip(Strided<const T> src, MatrixView<T> dst, std::int32_t* e) {
  using R = Real<T>;
  std::array<Int<R>, kWidth> maxima;
  ColumnMaxima(src, maxima.data());
  const Int<R>* end = maxima.data() + src.n;
  if (std::any_of(std::as_const(maxima).data(), end,
                  [](Int<R> bits) { return bits >= kInfinityBits<R>; }))
    return false;
  ForEntries(src.m, src.n, src.by_columns(), [&](std::int64_t i, std::int64_t j) {
    dst(i, j) = kConjugate ? Conj(src(i, j)) : src(i, j);
  });
  for (std::int64_t j = 0; j < src.n; ++j) {
    e[j] = ExponentOf<R>(maxima[static_cast<std::size_t>(j)]);
    const Factors<R> factors = InversePower<R>(e[j]);
    MultiplyColumn(dst.col(j), src.m, factors.first);
    if (factors.second != R(1)) MultiplyColumn(dst.col(j), src.m, factors.second);
  }
  return true;
}

}  // namespace

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
  using R = Real<T>;
  return Largest(reinterpret_cast<const R*>(x), n * (kIsComplex<T> ? 2 : 1)) < kInfinityBits<R>;
}

template <class T>
void StorePlain(MatrixView<const T> src, Strided<T> dst) {
  ForEntries(dst.m, dst.n, dst.by_columns(),
             [&](std::int64_t i, std::int64_t j) { dst(i, j) = src(i, j); });
}

template <class T>
bool ScaleColumn(T* x, std::int64_t n, std::int32_t e) {
  MultiplyColumn(x, n, PowerOfTwo<Real<T>>(e));
  return IsFinite(x, n);
}

#define FACTORD_INSTANTIATE(T)                                                    \
  template bool LoadScaled(Strided<const T>, bool, MatrixView<T>, std::int32_t*); \
  template void LoadPlain(Strided<const T>, MatrixView<T>);                       \
  template void StorePlain(MatrixView<const T>, Strided<T>);                      \
  template bool IsFinite(const T*, std::int64_t);                                 \
  template bool ScaleColumn(T*, std::int64_t, std::int32_t);
FACTORD_INSTANTIATE(float)
FACTORD_INSTANTIATE(double)
FACTORD_INSTANTIATE(std::complex<float>)
FACTORD_INSTANTIATE(std::complex<double>)
#undef FACTORD_INSTANTIATE

}  // namespace factord
