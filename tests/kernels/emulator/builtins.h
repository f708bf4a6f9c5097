// CUDA's language extensions and device functions. Warp primitives know the full mask only: all
// lanes of the warp, in a block's last warp those that exist.
#pragma once

#include <math.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "vectors.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(n) alignas(n)

namespace emulator {

enum class Shuffle { kIndex, kUp, kDown, kXor };
std::uint64_t ShuffleWord(Shuffle kind, unsigned mask, std::uint64_t value, int lane, int width);

// The values of all lanes of a warp, in the lanes' order.
struct WarpValues {
  std::uint32_t values[32];
  int count;
};
WarpValues GatherWarp(const char* operation, unsigned mask, std::uint32_t value);

void SyncWarp(unsigned mask);
void SyncBlock();
int SyncBlockAndCount(bool predicate);

void FenceBlock();
void FenceDevice();

// What an atomic operation or a flag did to memory: a change lets others go on; without one a loop
// may be waiting.
void NoteAtomic(bool changed);

void Sleep();

template <class T>
auto ShuffleValue(Shuffle kind, unsigned mask, T value, int lane, int width) {
  using Value = decltype(+value);
  static_assert(sizeof(Value) == 4 || sizeof(Value) == 8, "CUDA has no shuffle of this type");
  std::uint64_t word = 0;
  const Value promoted = value;
  std::memcpy(&word, &promoted, sizeof promoted);
  word = ShuffleWord(kind, mask, word, lane, width);
  Value result;
  std::memcpy(&result, &word, sizeof result);
  return result;
}

// The atomic operations are relaxed, as CUDA's.
template <class T, class Change>
T AtomicUpdate(T* p, Change change) {
  std::atomic_ref<T> ref(*p);
  T old = ref.load(std::memory_order_relaxed);
  T now = change(old);
  while (!ref.compare_exchange_weak(old, now, std::memory_order_relaxed)) now = change(old);
  NoteAtomic(std::memcmp(&old, &now, sizeof old) != 0);
  return old;
}

}  // namespace emulator

// Of the CUDA thread that runs on this OS thread.
extern constinit thread_local uint3 threadIdx, blockIdx;
extern constinit thread_local dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

// ---- barriers and fences
inline void __syncthreads() { emulator::SyncBlock(); }
inline int __syncthreads_count(int predicate) {
  return emulator::SyncBlockAndCount(predicate != 0);
}
inline int __syncthreads_or(int predicate) {
  return emulator::SyncBlockAndCount(predicate != 0) > 0;
}
inline int __syncthreads_and(int predicate) {
  return emulator::SyncBlockAndCount(predicate == 0) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffu) { emulator::SyncWarp(mask); }
inline void __threadfence_block() { emulator::FenceBlock(); }
inline void __threadfence() { emulator::FenceDevice(); }
inline void __threadfence_system() { emulator::FenceDevice(); }
inline void __nanosleep(unsigned) { emulator::Sleep(); }

// ---- warp primitives
template <class T>
auto __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  return emulator::ShuffleValue(emulator::Shuffle::kIndex, mask, value, lane, width);
}
template <class T>
auto __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  return emulator::ShuffleValue(emulator::Shuffle::kUp, mask, value, static_cast<int>(delta),
                                width);
}
template <class T>
auto __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  return emulator::ShuffleValue(emulator::Shuffle::kDown, mask, value, static_cast<int>(delta),
                                width);
}
template <class T>
auto __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
  return emulator::ShuffleValue(emulator::Shuffle::kXor, mask, value, lane_mask, width);
}

inline unsigned __ballot_sync(unsigned mask, int predicate) {
  const emulator::WarpValues warp = emulator::GatherWarp("__ballot_sync", mask, predicate != 0);
  unsigned ballot = 0;
  for (int i = 0; i < warp.count; ++i) ballot |= warp.values[i] << i;
  return ballot;
}
inline int __any_sync(unsigned mask, int predicate) {
  const emulator::WarpValues warp = emulator::GatherWarp("__any_sync", mask, predicate != 0);
  unsigned any = 0;
  for (int i = 0; i < warp.count; ++i) any |= warp.values[i];
  return any != 0;
}
inline int __all_sync(unsigned mask, int predicate) {
  const emulator::WarpValues warp = emulator::GatherWarp("__all_sync", mask, predicate != 0);
  unsigned all = 1;
  for (int i = 0; i < warp.count; ++i) all &= warp.values[i];
  return all != 0;
}

#define EMULATOR_REDUCE(name, type, expression)                                             \
  inline type name(unsigned mask, type value) {                                             \
    const auto warp = emulator::GatherWarp(#name, mask, static_cast<std::uint32_t>(value)); \
    type a = static_cast<type>(warp.values[0]);                                             \
    for (int i = 1; i < warp.count; ++i) {                                                  \
      const type b = static_cast<type>(warp.values[i]);                                     \
      a = (expression);                                                                     \
    }                                                                                       \
    return a;                                                                               \
  }
EMULATOR_REDUCE(__reduce_add_sync, unsigned, a + b)
EMULATOR_REDUCE(__reduce_max_sync, unsigned, a < b ? b : a)
EMULATOR_REDUCE(__reduce_min_sync, unsigned, b < a ? b : a)
EMULATOR_REDUCE(__reduce_or_sync, unsigned, a | b)
EMULATOR_REDUCE(__reduce_and_sync, unsigned, a& b)
EMULATOR_REDUCE(__reduce_xor_sync, unsigned, a ^ b)
EMULATOR_REDUCE(__reduce_add_sync, int,
                static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b)))
EMULATOR_REDUCE(__reduce_max_sync, int, a < b ? b : a)
EMULATOR_REDUCE(__reduce_min_sync, int, b < a ? b : a)
#undef EMULATOR_REDUCE

// ---- atomic operations, with CUDA's types
#define EMULATOR_ATOMIC(name, type, expression)                                           \
  inline type name(type* p, type value) {                                                 \
    return emulator::AtomicUpdate(p, [value](type old) -> type { return (expression); }); \
  }
#define EMULATOR_ATOMIC_INTEGERS(name, expression) \
  EMULATOR_ATOMIC(name, int, expression)           \
  EMULATOR_ATOMIC(name, unsigned, expression)      \
  EMULATOR_ATOMIC(name, unsigned long long, expression)
EMULATOR_ATOMIC_INTEGERS(atomicAdd, old + value)
EMULATOR_ATOMIC(atomicAdd, float, old + value)
EMULATOR_ATOMIC(atomicAdd, double, old + value)
EMULATOR_ATOMIC(atomicSub, int, old - value)
EMULATOR_ATOMIC(atomicSub, unsigned, old - value)
EMULATOR_ATOMIC_INTEGERS(atomicMax, old < value ? value : old)
EMULATOR_ATOMIC(atomicMax, long long, old < value ? value : old)
EMULATOR_ATOMIC_INTEGERS(atomicMin, value < old ? value : old)
EMULATOR_ATOMIC(atomicMin, long long, value < old ? value : old)
EMULATOR_ATOMIC_INTEGERS(atomicOr, old | value)
EMULATOR_ATOMIC_INTEGERS(atomicAnd, old& value)
EMULATOR_ATOMIC_INTEGERS(atomicXor, old ^ value)
EMULATOR_ATOMIC_INTEGERS(atomicExch, (void(old), value))
EMULATOR_ATOMIC(atomicExch, float, (void(old), value))
#undef EMULATOR_ATOMIC
#undef EMULATOR_ATOMIC_INTEGERS

#define EMULATOR_ATOMIC_CAS(type)                                                                  \
  inline type atomicCAS(type* p, type compare, type value) {                                       \
    return emulator::AtomicUpdate(p,                                                               \
                                  [=](type old) -> type { return old == compare ? value : old; }); \
  }
EMULATOR_ATOMIC_CAS(int)
EMULATOR_ATOMIC_CAS(unsigned)
EMULATOR_ATOMIC_CAS(unsigned long long)
#undef EMULATOR_ATOMIC_CAS

// ---- bits
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline int __double2hiint(double x) { return static_cast<int>(__double_as_longlong(x) >> 32); }
inline int __double2loint(double x) { return static_cast<int>(__double_as_longlong(x)); }
inline double __hiloint2double(int high, int low) {
  return std::bit_cast<double>(std::uint64_t{static_cast<std::uint32_t>(high)} << 32 |
                               static_cast<std::uint32_t>(low));
}
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }

// ---- loads and stores with hints
template <class T>
T __ldg(const T* p) {
  return *p;
}
template <class T>
T __ldcg(const T* p) {
  return *p;
}
template <class T>
T __ldcs(const T* p) {
  return *p;
}
template <class T>
void __stcg(T* p, T value) {
  *p = value;
}
template <class T>
void __stcs(T* p, T value) {
  *p = value;
}

// ---- arithmetic, to the nearest
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1 / a; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __drcp_rn(double a) { return 1 / a; }
inline double __dsqrt_rn(double a) { return std::sqrt(a); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline float rsqrtf(float a) { return 1 / std::sqrt(a); }
inline float rsqrt(float a) { return 1 / std::sqrt(a); }
inline double rsqrt(double a) { return 1 / std::sqrt(a); }

// min and max: of the common type, floating-point NaNs ignored.
namespace emulator {
template <class A, class B>
concept Arithmetic = std::is_arithmetic_v<A> && std::is_arithmetic_v<B>;
template <class T>
constexpr T Min(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return __builtin_fmin(a, b);
  return b < a ? b : a;
}
template <class T>
constexpr T Max(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return __builtin_fmax(a, b);
  return a < b ? b : a;
}
}  // namespace emulator
template <class A, class B>
requires emulator::Arithmetic<A, B>
constexpr auto min(A a, B b) {
  using T = std::common_type_t<A, B>;
  return emulator::Min<T>(static_cast<T>(a), static_cast<T>(b));
}
template <class A, class B>
requires emulator::Arithmetic<A, B>
constexpr auto max(A a, B b) {
  using T = std::common_type_t<A, B>;
  return emulator::Max<T>(static_cast<T>(a), static_cast<T>(b));
}
