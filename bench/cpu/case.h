// What is measured: an operation on m x n matrices of one type, many at a time or each alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace factord::bench::cpu {

enum class Operation : std::uint8_t {
  kGeqrf,  // A to packed reflectors and tau
  kOrgqr,  // these to Q (m x n); m >= n
  kOrmqr,  // these and C (m x n) to Q^H C; m >= n
  kQr,     // A to Q (m x k) and R (k x n), k = min(m, n)
};

enum class Type : std::uint8_t { kF32, kF64, kC64, kC128 };

struct Case {
  Operation operation = Operation::kGeqrf;
  Type type = Type::kF32;
  // Alone: a call a matrix, its input in cache where it fits. Otherwise all in one call, about 8 MB
  // of them: beyond the L2 cache.
  bool alone = false;
  int threads = 1;
  int m = 0, n = 0;

  int k() const { return m < n ? m : n; }
  std::int64_t count() const;  // matrices that are timed together
  std::string Name() const;    // "geqrf/f32/batch/32x32/1": the last, threads
  double Flops() const;        // of one matrix, as LAPACK counts them; complex ones are 4
};

const char* Name(Operation operation);
const char* Name(Type type);

// Every operation and type on its shapes; quick: on a few.
std::vector<Case> AllCases(bool quick);

}  // namespace factord::bench::cpu
