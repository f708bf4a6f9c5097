// Which sanitizer the emulator is built with.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define EMULATOR_TSAN
#endif
#if defined(__SANITIZE_ADDRESS__)
#define EMULATOR_ASAN
#endif
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define EMULATOR_TSAN
#endif
#if __has_feature(address_sanitizer)
#define EMULATOR_ASAN
#endif
#endif

#ifdef EMULATOR_TSAN
#include <sanitizer/tsan_interface.h>
#ifdef __clang__
// no_sanitize would still tell of atomics, and inlining would undo this.
#define EMULATOR_NO_TSAN __attribute__((disable_sanitizer_instrumentation, noinline))
#else
#define EMULATOR_NO_TSAN __attribute__((no_sanitize_thread))
#endif
#else
#define EMULATOR_NO_TSAN
#endif
#ifdef EMULATOR_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace emulator {

// What came before TsanRelease of `p` comes, for ThreadSanitizer, before what comes after
// TsanAcquire.
EMULATOR_NO_TSAN inline void TsanRelease([[maybe_unused]] void* p) {
#ifdef EMULATOR_TSAN
  __tsan_release(p);
#endif
}
EMULATOR_NO_TSAN inline void TsanAcquire([[maybe_unused]] void* p) {
#ifdef EMULATOR_TSAN
  __tsan_acquire(p);
#endif
}

#ifdef EMULATOR_TSAN
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif
#ifdef EMULATOR_ASAN
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif

}  // namespace emulator
