// Test matrices: the kinds on which QR codes are known to fail. Column-major, reproducible from a
// seed.
#pragma once

#include <complex>
#include <cstdint>
#include <random>
#include <string_view>
#include <type_traits>
#include <vector>

namespace factord::testing {

enum class Kind {
  kNormal,
  kIdentity,
  kZero,
  kZeroColumn,
  kRankOne,
  kEqualColumns,
  kNearlyDependent,  // one column plus 1e-3 ... 1e-16 (f32: 1e-8) times others
  kGradedColumns,    // 1e-30 ... 1e30 (f64: 1e-300 ... 1e300)
  kGradedRows,       // over the whole exponent range
  kHilbert,
  kUpper,
  kNearOverflow,
  kSmallestNormal,
  kSubnormal,
  kPermutation,
  kLastUnit,          // every column e_m
  kZeroDiagonal,      // in complex types also the real part only
  kTinyTails,         // below the diagonal far under eps times the column, some of it subnormal
  kNegativeIdentity,  // -3e12 I with small couplings
  kTinyBlock,  // the first row alone of normal size: what is left after one reflector is subnormal
};
inline constexpr Kind kKinds[] = {
    Kind::kNormal,           Kind::kIdentity,      Kind::kZero,
    Kind::kZeroColumn,       Kind::kRankOne,       Kind::kEqualColumns,
    Kind::kNearlyDependent,  Kind::kGradedColumns, Kind::kGradedRows,
    Kind::kHilbert,          Kind::kUpper,         Kind::kNearOverflow,
    Kind::kSmallestNormal,   Kind::kSubnormal,     Kind::kPermutation,
    Kind::kLastUnit,         Kind::kZeroDiagonal,  Kind::kTinyTails,
    Kind::kNegativeIdentity, Kind::kTinyBlock,
};
std::string_view Name(Kind kind);

// m x n.
template <class T>
std::vector<T> Generate(Kind kind, std::int64_t m, std::int64_t n, std::uint64_t seed);

// m x n, entries normal (complex: both parts).
template <class T>
std::vector<T> Normal(std::int64_t m, std::int64_t n, std::uint64_t seed);

// The n x m matrix whose column-major order is A's row-major one.
template <class T>
std::vector<T> Transposed(const std::vector<T>& A, std::int64_t m, std::int64_t n) {
  std::vector<T> result(A.size());
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < m; ++i) {
      result[static_cast<std::size_t>(j + i * n)] = A[static_cast<std::size_t>(i + j * m)];
    }
  }
  return result;
}

// A^H, of an m x n matrix A.
template <class T>
std::vector<T> Adjoint(const std::vector<T>& A, std::int64_t m, std::int64_t n) {
  std::vector<T> result = Transposed(A, m, n);
  if constexpr (!std::is_floating_point_v<T>) {
    for (T& x : result) x = std::conj(x);
  }
  return result;
}

}  // namespace factord::testing
