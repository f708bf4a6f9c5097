// The element types and memory orders of factord.v1, as plain C++.
#pragma once

#include <complex>
#include <cstdint>
#include <type_traits>

#include "absl/strings/string_view.h"

namespace factord {

enum class DType : std::uint8_t { kF32, kF64, kC64, kC128 };
inline constexpr int kDTypes = 4;

// Of one matrix; batch dims are always row-major.
enum class Layout : std::uint8_t { kRowMajor, kColumnMajor };

enum class Backend : std::uint8_t { kCpu, kGpu };
inline constexpr int kBackends = 2;

// Bytes of one element.
constexpr std::int64_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 4;
    case DType::kF64:
      return 8;
    case DType::kC64:
      return 8;
    case DType::kC128:
      return 16;
  }
  return 0;
}

constexpr bool IsComplex(DType dtype) { return dtype == DType::kC64 || dtype == DType::kC128; }

// The type of |x| for an x of `dtype`.
constexpr DType RealOf(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kC64 ? DType::kF32 : DType::kF64;
}

constexpr absl::string_view Name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kF64:
      return "f64";
    case DType::kC64:
      return "c64";
    case DType::kC128:
      return "c128";
  }
  return "";
}

constexpr absl::string_view Name(Backend backend) {
  return backend == Backend::kCpu ? "cpu" : "gpu";
}

// Calls f with a value-initialized element of the C++ type of `dtype`.
template <typename F>
decltype(auto) Visit(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF32:
      return f(float{});
    case DType::kF64:
      return f(double{});
    case DType::kC64:
      return f(std::complex<float>{});
    case DType::kC128:
      break;
  }
  return f(std::complex<double>{});
}

}  // namespace factord
