// What is measured: an operation on a batch of m x n matrices (m >= n), and the least time that the
// device could take for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/problem.h"

namespace factord::bench {

enum class Operation : std::uint8_t {
  kGeqrf,  // A to packed reflectors and tau
  kOrgqr,  // these to Q (m x n)
  kQr,     // A to Q (m x n) and R
  kR,      // A to R, of tall, skinny ones
};

struct Case {
  Operation operation = Operation::kGeqrf;
  kernels::Dtype dtype = kernels::Dtype::kF32;
  std::int64_t batch = 0;
  int m = 0, n = 0;

  std::string Name() const;  // "geqrf/f32/640x512x512"
};

const char* Name(Operation operation);
const char* Name(kernels::Dtype dtype);

// Every operation and type on every shape that it is for.
std::vector<Case> AllCases();

// The larger of the bytes that must be read and written at kCopyBandwidth, and LAPACK's count of
// operations at the type's rate: both measured on an H200. kR: the bytes alone.
inline constexpr double kCopyBandwidth = 4.18e12;  // bytes/s
inline constexpr double kFlopsF32 = 51e12;         // 1/s, plain FMA
inline constexpr double kFlopsF64 = 60e12;         // 1/s, tensor cores
double FloorSeconds(const Case& c);

}  // namespace factord::bench
