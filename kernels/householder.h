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

// A column whose largest exponent field is `field` is multiplied by 2^ScaleExponent on load: its
// largest |entry| comes into [1, 2); [2, 4) for the very largest, below 1 for subnormal ones, which
// all the same end far above kNegligibleSquare.
template <class T>
FACTORD_HOST_DEVICE inline int ScaleExponent(int field) {
  constexpr int kBias = Ieee<T>::kTopField / 2;
  const int exponent = kBias - field;
  return exponent < 1 - kBias ? 1 - kBias : exponent > kBias - 1 ? kBias - 1 : exponent;
}
template <class T>
FACTORD_HOST_DEVICE inline T ScaleOf(int field) {
  return PowerOfTwo<T>(Ieee<T>::kTopField / 2 + ScaleExponent<T>(field));
}
// The exact inverse, by which R is multiplied on store.
template <class T>
FACTORD_HOST_DEVICE inline T UnscaleOf(int field) {
  return PowerOfTwo<T>(Ieee<T>::kTopField / 2 - ScaleExponent<T>(field));
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

// H = I - tau v v^T with v = [1; scale * tail] maps [alpha; tail] to [beta; 0].
template <class T>
struct Reflector {
  T beta, tau, scale;
};

// LAPACK's larfg, without its slow path: sigma = ||tail||^2 of a column that was scaled as above.
// beta = -sign(alpha)
// ||[alpha; tail]||, tau = (beta - alpha) / beta, scale = 1 / (alpha - beta). tau = 0, H = I and
// beta = alpha where the tail is zero, or where all that is left of the column is negligible.
template <class T>
FACTORD_HOST_DEVICE inline Reflector<T> Larfg(T alpha, T sigma) {
  using std::copysign;
  using std::fabs;
  using std::fma;
  const T square = fma(alpha, alpha, sigma);
  const T r = InverseSqrt(square), n = square * r;
  const T norm = fma(fma(-n, n, square), T(0.5) * r, n);
  const T beta = -copysign(norm, alpha);
  const T tau = fma(fabs(alpha), fma(fma(-norm, r, T(1)), r, r), T(1));  // 1 + |alpha| / norm
  const T scale = Reciprocal(alpha - beta);
  const bool identity = sigma == T(0) || square < Ieee<T>::kNegligibleSquare;
  return {identity ? alpha : beta, identity ? T(0) : tau, identity ? T(0) : scale};
}

}  // namespace factord::kernels
