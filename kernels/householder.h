// The scalar part of Householder QR, once for every kernel and for the CPU: the reflector's three
// numbers, and the power-of-two scaling of columns that keeps them in range.
//
// QR(A diag(2^e_j)) = (Q, R diag(2^e_j)): scaling a column by a power of two is exact and changes
// neither V nor tau. Each column is scaled on load so that its largest |entry| lies in [1, 2), and
// R is scaled back on store. So no sum of squares overflows, and one that underflows belongs to a
// tail that is nothing next to its own column; there is no slow path.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/simt/qualifiers.h"

namespace factord::kernels {

template <class T>
struct Ieee;
template <>
struct Ieee<float> {
  using Bits = std::uint32_t;
  static constexpr int kMantissaBits = 23;
  static constexpr int kTopField = 255;  // of Inf and NaN
  // A column whose remaining square is below this, 1e-15 of its largest entry, counts as zero.
  static constexpr float kNegligibleSquare = 0x1p-100f;
};
template <>
struct Ieee<double> {
  using Bits = std::uint64_t;
  static constexpr int kMantissaBits = 52;
  static constexpr int kTopField = 2047;
  static constexpr double kNegligibleSquare = 0x1p-900;
};

template <class T>
inline constexpr int kBias = Ieee<T>::kTopField / 2;

// The biased exponent of x, 0 for zeros and subnormals, kTopField for Inf and NaN. The largest
// field of a column says how to scale it, and whether all of it is finite.
template <class T>
FACTORD_HOST_DEVICE inline int ExponentField(T x) {
  using Bits = typename Ieee<T>::Bits;
  return static_cast<int>(std::bit_cast<Bits>(x) >> Ieee<T>::kMantissaBits) & Ieee<T>::kTopField;
}

// 2^(field - bias) as exactly as T's normal numbers allow; field in 1 ... kTopField - 2.
template <class T>
FACTORD_HOST_DEVICE inline T PowerOfTwo(int field) {
  using Bits = typename Ieee<T>::Bits;
  return std::bit_cast<T>(static_cast<Bits>(field) << Ieee<T>::kMantissaBits);
}

#define FACTORD_FORMULA FACTORD_HOST_DEVICE inline
#include "kernels/householder_formulas.inc"
#undef FACTORD_FORMULA

struct IntOps {
  FACTORD_HOST_DEVICE static int SubtractFrom(int a, int x) { return a - x; }
  FACTORD_HOST_DEVICE static int Clamp(int x, int low, int high) {
    return x < low ? low : x > high ? high : x;
  }
};
// ScaleOf(field) is 2^ScaleExponent(field).
template <class T>
FACTORD_HOST_DEVICE inline int ScaleExponent(int field) {
  return ScaleField<T, IntOps>(field) - kBias<T>;
}
template <class T>
FACTORD_HOST_DEVICE inline T ScaleOf(int field) {
  return PowerOfTwo<T>(ScaleField<T, IntOps>(field));
}
template <class T>
FACTORD_HOST_DEVICE inline T UnscaleOf(int field) {
  return PowerOfTwo<T>(UnscaleField<T, IntOps>(field));
}
// a / b of powers of two that ScaleOf gave, a <= b; zero where it is not normal.
template <class T>
FACTORD_HOST_DEVICE inline T RatioOfPowers(T a, T b) {
  const int field = ExponentField(a) - ExponentField(b) + kBias<T>;
  return field > 0 ? PowerOfTwo<T>(field) : T(0);
}

// 1 / sqrt(x) and 1 / x to within an ulp or so, for x well inside the normal range. On the device
// an approximation and a Newton step (float) or a third-order one (double): no special cases, so no
// branch in the middle of the longest chain.
FACTORD_HOST_DEVICE inline float InverseSqrt(float x) {
#ifdef __CUDA_ARCH__
  float r;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
#else
  return 1.0f / std::sqrt(x);
#endif
}
FACTORD_HOST_DEVICE inline double InverseSqrt(double x) {
#ifdef __CUDA_ARCH__
  double r;
  asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(x));
  const double e = fma(-x * r, r, 1.0);
  return fma(r * e, fma(0.375, e, 0.5), r);
#else
  return 1.0 / std::sqrt(x);
#endif
}
FACTORD_HOST_DEVICE inline float Reciprocal(float x) {
#ifdef __CUDA_ARCH__
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return fmaf(fmaf(-x, r, 1.0f), r, r);
#else
  return 1.0f / x;
#endif
}
FACTORD_HOST_DEVICE inline double Reciprocal(double x) {
#ifdef __CUDA_ARCH__
  double r;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(x));
  const double e = fma(-x, r, 1.0);
  return fma(fma(e, e, e), r, r);
#else
  return 1.0 / x;
#endif
}

// What Larfg asks of a number. This one: a float or a double; kernels/cpu has one for vectors of
// them.
template <class T>
struct ScalarOps {
  FACTORD_HOST_DEVICE static T Set(T x) { return x; }
  FACTORD_HOST_DEVICE static T Negate(T x) { return -x; }
  FACTORD_HOST_DEVICE static T Abs(T x) {
    using std::fabs;
    return fabs(x);
  }
  FACTORD_HOST_DEVICE static T CopySign(T magnitude, T sign) {
    using std::copysign;
    return copysign(magnitude, sign);
  }
  FACTORD_HOST_DEVICE static T Multiply(T a, T b) { return a * b; }
  FACTORD_HOST_DEVICE static T Subtract(T a, T b) { return a - b; }
  FACTORD_HOST_DEVICE static T MultiplyAdd(T a, T b, T c) {
    using std::fma;
    return fma(a, b, c);
  }
  FACTORD_HOST_DEVICE static T Invert(T x) { return Reciprocal(x); }
  FACTORD_HOST_DEVICE static Root<T> RootOf(T x) {
    using std::fma;
    const T r = InverseSqrt(x), n = x * r;
    const T root = fma(fma(-n, n, x), T(0.5) * r, n);
    return {root, fma(fma(-root, r, T(1)), r, r)};
  }
  FACTORD_HOST_DEVICE static bool IsZero(T x) { return x == T(0); }
  FACTORD_HOST_DEVICE static bool IsLess(T a, T b) { return a < b; }
  FACTORD_HOST_DEVICE static bool Or(bool a, bool b) { return a || b; }
  FACTORD_HOST_DEVICE static bool And(bool a, bool b) { return a && b; }
  FACTORD_HOST_DEVICE static T Select(bool yes, T a, T b) { return yes ? a : b; }
};

template <class T>
FACTORD_HOST_DEVICE inline Reflector<T> Larfg(T alpha, T sigma) {
  return LarfgWith<T, ScalarOps<T>>(alpha, sigma);
}

}  // namespace factord::kernels
