// Numbers in vector registers: one real or complex number a lane, compiled once for each
// instruction set. Every sum below is a chain of multiply-adds in a fixed order, so that a number's
// bits depend neither on its lane nor on how many lanes there are.
#if defined(FACTORD_KERNELS_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FACTORD_KERNELS_CPU_SIMD_INL_H_
#undef FACTORD_KERNELS_CPU_SIMD_INL_H_
#else
#define FACTORD_KERNELS_CPU_SIMD_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <utility>

#include "hwy/highway.h"
#include "kernels/cpu/unroll.h"
#include "kernels/householder.h"
#include "kernels/problem.h"

HWY_BEFORE_NAMESPACE();
namespace factord::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#define FACTORD_FORMULA HWY_INLINE
#include "kernels/householder_formulas.inc"
#undef FACTORD_FORMULA

// Vectors that stay in registers at a time: half of the instruction set's.
inline constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64;

// Reflectors of a panel, on every instruction set: a result's bits depend on it.
inline constexpr int kPanel = 8;
// Panels of more rows keep sums over them in four parts, others in two: four hide the latency of
// additions, two are quicker to put together.
inline constexpr int kFewRows = 32;

template <class R>
using Full = hn::ScalableTag<R>;
template <class R>
inline constexpr int kLanes = static_cast<int>(HWY_LANES(R));

// The first `count` lanes from or to memory, nothing else of which is touched; the others are zero.
template <class D>
HWY_INLINE hn::Vec<D> LoadFirst(D d, const hn::TFromD<D>* p, int count) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  return hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(count)), d, p);
#else
  HWY_ALIGN hn::TFromD<D> lanes[hn::MaxLanes(D())] = {};
  for (int l = 0; l < count; ++l) lanes[l] = p[l];
  return hn::Load(d, lanes);
#endif
}
template <class D>
HWY_INLINE void StoreFirst(hn::Vec<D> x, D d, hn::TFromD<D>* p, int count) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  hn::BlendedStore(x, hn::FirstN(d, static_cast<std::size_t>(count)), d, p);
#else
  HWY_ALIGN hn::TFromD<D> lanes[hn::MaxLanes(D())];
  hn::Store(x, d, lanes);
  for (int l = 0; l < count; ++l) p[l] = lanes[l];
#endif
}

// How Larfg reckons with vectors.
template <class D>
struct VectorOps {
  using V = hn::Vec<D>;
  using R = hn::TFromD<D>;
  using M = hn::Mask<D>;
  static HWY_INLINE V Set(double x) { return hn::Set(D(), static_cast<R>(x)); }
  static HWY_INLINE V Negate(V x) { return hn::Neg(x); }
  static HWY_INLINE V Abs(V x) { return hn::Abs(x); }
  static HWY_INLINE V CopySign(V magnitude, V sign) { return hn::CopySign(magnitude, sign); }
  static HWY_INLINE V Multiply(V a, V b) { return hn::Mul(a, b); }
  static HWY_INLINE V Subtract(V a, V b) { return hn::Sub(a, b); }
  static HWY_INLINE V MultiplyAdd(V a, V b, V c) { return hn::MulAdd(a, b, c); }
  static HWY_INLINE V Invert(V x) { return hn::Div(Set(1), x); }
  static HWY_INLINE Root<V> RootOf(V x) {
    const V root = hn::Sqrt(x);
    return {root, Invert(root)};
  }
  static HWY_INLINE M IsZero(V x) { return hn::Eq(x, hn::Zero(D())); }
  static HWY_INLINE M IsLess(V a, V b) { return hn::Lt(a, b); }
  static HWY_INLINE M Or(M a, M b) { return hn::Or(a, b); }
  static HWY_INLINE M And(M a, M b) { return hn::And(a, b); }
  static HWY_INLINE V Select(M yes, V a, V b) { return hn::IfThenElse(yes, a, b); }
};

// The exponent fields of vectors, as integers.
template <class D>
struct Fields {
  using R = hn::TFromD<D>;
  using DI = hn::RebindToSigned<D>;
  using I = hn::Vec<DI>;
  using V = hn::Vec<D>;
  static constexpr int kShift = Ieee<R>::kMantissaBits;

  // |x| as an integer, which orders as |x| does.
  static HWY_INLINE I Magnitude(V x) { return hn::BitCast(DI(), hn::Abs(x)); }
  static HWY_INLINE I Of(I magnitude) { return hn::ShiftRight<kShift>(magnitude); }
  static HWY_INLINE V PowerOfTwo(I field) { return hn::BitCast(D(), hn::ShiftLeft<kShift>(field)); }
  // Lanes of which something is NaN or Inf.
  static HWY_INLINE hn::Mask<DI> IsNonfinite(I magnitude) {
    return hn::Eq(Of(magnitude), hn::Set(DI(), Ieee<R>::kTopField));
  }

  static HWY_INLINE I SubtractFrom(int a, I x) { return hn::Sub(hn::Set(DI(), a), x); }
  static HWY_INLINE I Clamp(I x, int low, int high) {
    return hn::Min(hn::Max(x, hn::Set(DI(), low)), hn::Set(DI(), high));
  }
  static HWY_INLINE V Scale(I magnitude) {
    return PowerOfTwo(ScaleField<R, Fields>(Of(magnitude)));
  }
  // The exact inverse of a power of two that Scale gave.
  static HWY_INLINE V Unscale(V scale) {
    return PowerOfTwo(SubtractFrom(2 * kBias<R>, Of(Magnitude(scale))));
  }
};

template <class D>
struct RealNumber {
  hn::Vec<D> re;
};
template <class D>
struct ComplexNumber {
  hn::Vec<D> re, im;
};

// Numbers of type T in the lanes of D's vectors. In memory the imaginary parts of a vector of
// numbers lie `plane` elements behind its real parts.
template <class T, class D>
struct Numbers;

template <class R, class D>
requires std::is_same_v<R, hn::TFromD<D>>
struct Numbers<R, D> {
  using N = RealNumber<D>;
  using V = hn::Vec<D>;
  static constexpr int kParts = 1;
  static constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));

  static HWY_INLINE N Zero() { return {hn::Zero(D())}; }
  static HWY_INLINE N Real(V re) { return {re}; }
  static HWY_INLINE N Set(const R* x, std::int64_t) { return {hn::Set(D(), x[0])}; }
  static HWY_INLINE N Load(const R* p, std::int64_t) { return {hn::LoadU(D(), p)}; }
  static HWY_INLINE void Store(N a, R* p, std::int64_t) { hn::StoreU(a.re, D(), p); }
  static HWY_INLINE N Conj(N a) { return a; }
  static HWY_INLINE N Add(N a, N b) { return {hn::Add(a.re, b.re)}; }
  static HWY_INLINE N Subtract(N a, N b) { return {hn::Sub(a.re, b.re)}; }
  static HWY_INLINE N Times(N a, V real) { return {hn::Mul(a.re, real)}; }
  static HWY_INLINE N Multiply(N a, N b) { return {hn::Mul(a.re, b.re)}; }
  // a b + c, conj(a) b + c, c - a b.
  static HWY_INLINE N MultiplyAdd(N a, N b, N c) { return {hn::MulAdd(a.re, b.re, c.re)}; }
  static HWY_INLINE N ConjMultiplyAdd(N a, N b, N c) { return MultiplyAdd(a, b, c); }
  static HWY_INLINE N NegMultiplyAdd(N a, N b, N c) { return {hn::NegMulAdd(a.re, b.re, c.re)}; }
  static HWY_INLINE N ConjNegMultiplyAdd(N a, N b, N c) { return NegMultiplyAdd(a, b, c); }
  static HWY_INLINE N Select(hn::Mask<D> yes, N a, N b) {
    return {hn::IfThenElse(yes, a.re, b.re)};
  }
  // Lane j of every part in all lanes.
  using Index = decltype(hn::IndicesFromVec(D(), hn::Zero(hn::RebindToSigned<D>())));
  static HWY_INLINE Index Indices(int j) {
    using DI = hn::RebindToSigned<D>;
    return hn::IndicesFromVec(D(), hn::Set(DI(), static_cast<hn::TFromD<DI>>(j)));
  }
  static HWY_INLINE N Lookup(N a, Index index) { return {hn::TableLookupLanes(a.re, index)}; }
  // The larger of the parts' magnitudes.
  static HWY_INLINE hn::Vec<hn::RebindToSigned<D>> Magnitude(N a) {
    return Fields<D>::Magnitude(a.re);
  }

  struct Householder {
    V beta;
    N tau, scale;
  };
  static HWY_INLINE Householder Larfg(N alpha, N sigma) {
    const Reflector<V> h = LarfgWith<R, VectorOps<D>>(alpha.re, sigma.re);
    return {h.beta, {h.tau}, {h.scale}};
  }
};

template <class R, class D>
struct Numbers<std::complex<R>, D> {
  using N = ComplexNumber<D>;
  using V = hn::Vec<D>;
  static constexpr int kParts = 2;
  static constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));

  static HWY_INLINE N Zero() { return {hn::Zero(D()), hn::Zero(D())}; }
  static HWY_INLINE N Real(V re) { return {re, hn::Zero(D())}; }
  static HWY_INLINE N Set(const R* x, std::int64_t plane) {
    return {hn::Set(D(), x[0]), hn::Set(D(), x[plane])};
  }
  static HWY_INLINE N Load(const R* p, std::int64_t plane) {
    return {hn::LoadU(D(), p), hn::LoadU(D(), p + plane)};
  }
  static HWY_INLINE void Store(N a, R* p, std::int64_t plane) {
    hn::StoreU(a.re, D(), p);
    hn::StoreU(a.im, D(), p + plane);
  }
  static HWY_INLINE N Conj(N a) { return {a.re, hn::Neg(a.im)}; }
  static HWY_INLINE N Add(N a, N b) { return {hn::Add(a.re, b.re), hn::Add(a.im, b.im)}; }
  static HWY_INLINE N Subtract(N a, N b) { return {hn::Sub(a.re, b.re), hn::Sub(a.im, b.im)}; }
  static HWY_INLINE N Times(N a, V real) { return {hn::Mul(a.re, real), hn::Mul(a.im, real)}; }
  static HWY_INLINE N Multiply(N a, N b) {
    return {hn::NegMulAdd(a.im, b.im, hn::Mul(a.re, b.re)),
            hn::MulAdd(a.im, b.re, hn::Mul(a.re, b.im))};
  }
  static HWY_INLINE N MultiplyAdd(N a, N b, N c) {
    return {hn::NegMulAdd(a.im, b.im, hn::MulAdd(a.re, b.re, c.re)),
            hn::MulAdd(a.im, b.re, hn::MulAdd(a.re, b.im, c.im))};
  }
  static HWY_INLINE N ConjMultiplyAdd(N a, N b, N c) {
    return {hn::MulAdd(a.im, b.im, hn::MulAdd(a.re, b.re, c.re)),
            hn::NegMulAdd(a.im, b.re, hn::MulAdd(a.re, b.im, c.im))};
  }
  static HWY_INLINE N NegMultiplyAdd(N a, N b, N c) {
    return {hn::MulAdd(a.im, b.im, hn::NegMulAdd(a.re, b.re, c.re)),
            hn::NegMulAdd(a.im, b.re, hn::NegMulAdd(a.re, b.im, c.im))};
  }
  static HWY_INLINE N ConjNegMultiplyAdd(N a, N b, N c) {
    return {hn::NegMulAdd(a.im, b.im, hn::NegMulAdd(a.re, b.re, c.re)),
            hn::MulAdd(a.im, b.re, hn::NegMulAdd(a.re, b.im, c.im))};
  }
  static HWY_INLINE N Select(hn::Mask<D> yes, N a, N b) {
    return {hn::IfThenElse(yes, a.re, b.re), hn::IfThenElse(yes, a.im, b.im)};
  }
  using Index = decltype(hn::IndicesFromVec(D(), hn::Zero(hn::RebindToSigned<D>())));
  static HWY_INLINE Index Indices(int j) {
    using DI = hn::RebindToSigned<D>;
    return hn::IndicesFromVec(D(), hn::Set(DI(), static_cast<hn::TFromD<DI>>(j)));
  }
  static HWY_INLINE N Lookup(N a, Index index) {
    return {hn::TableLookupLanes(a.re, index), hn::TableLookupLanes(a.im, index)};
  }
  static HWY_INLINE hn::Vec<hn::RebindToSigned<D>> Magnitude(N a) {
    return hn::Max(Fields<D>::Magnitude(a.re), Fields<D>::Magnitude(a.im));
  }

  struct Householder {
    V beta;
    N tau, scale;
  };
  static HWY_INLINE Householder Larfg(N alpha, N sigma) {
    const ComplexReflector<V> h = ComplexLarfgWith<R, VectorOps<D>>(alpha.re, alpha.im, sigma.re);
    return {h.beta, {h.tau_re, h.tau_im}, {h.scale_re, h.scale_im}};
  }
};

// x transposed: log2(L) rounds of a perfect shuffle of vectors i with vectors i + L / 2.
template <class Raw, std::size_t... i>
HWY_INLINE Raw ZipLow(Raw a, Raw b, std::index_sequence<i...>) {
  constexpr int kL = sizeof...(i);
  return __builtin_shufflevector(a, b, static_cast<int>(i / 2 + i % 2 * kL)...);
}
template <class Raw, std::size_t... i>
HWY_INLINE Raw ZipHigh(Raw a, Raw b, std::index_sequence<i...>) {
  constexpr int kL = sizeof...(i);
  return __builtin_shufflevector(a, b, static_cast<int>(i / 2 + i % 2 * kL + kL / 2)...);
}
template <class D, int kL>
HWY_INLINE void Transpose(hn::Vec<D> (&x)[kL]) {
  static_assert(kL == hn::MaxLanes(D()));
#if HWY_TARGET == HWY_EMU128  // whose vectors are arrays
  HWY_ALIGN hn::TFromD<D> from[kL * kL], to[kL * kL];
  for (int i = 0; i < kL; ++i) hn::Store(x[i], D(), from + i * kL);
  for (int i = 0; i < kL * kL; ++i) to[i] = from[i % kL * kL + i / kL];
  for (int i = 0; i < kL; ++i) x[i] = hn::Load(D(), to + i * kL);
#else
  if constexpr (kL > 1) {
    using V = hn::Vec<D>;
    constexpr auto kIndices = std::make_index_sequence<kL>();
    V y[kL];
    FACTORD_UNROLL
    for (int round = 1; round < kL; round *= 2) {
      FACTORD_UNROLL
      for (int i = 0; i < kL / 2; ++i) {
        y[2 * i] = V{ZipLow(x[i].raw, x[i + kL / 2].raw, kIndices)};
        y[2 * i + 1] = V{ZipHigh(x[i].raw, x[i + kL / 2].raw, kIndices)};
      }
      FACTORD_UNROLL
      for (int i = 0; i < kL; ++i) x[i] = y[i];
    }
  }
#endif
}

}  // namespace factord::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FACTORD_KERNELS_CPU_SIMD_INL_H_
