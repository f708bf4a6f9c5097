// Least squares over rows of which only the triangle is left.
//
// With (A B) = Q (R C ; 0 S), R upper triangular n x n: ||A x - b_j|| is least where ||R x - c_j||
// is, and
//   ||A x - b_j||_2^2 = ||R x - c_j||_2^2 + ||s_j||_2^2
// The covariance of x_j is sigma_j^2 (A^T A)^-1 = sigma_j^2 R^-1 R^-T, so that its i-th entry has
// the standard error
//   sigma_j ||row i of R^-1||_2,  sigma_j = ||A x - b_j||_2 / sqrt(rows - n)
// Fewer rows than n leave a wide problem (R has `rows` rows), solved by the same rules.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "server/core/job.h"
#include "server/reduction/reduction_options.h"

namespace factord {

// Where results go, row-major.
struct SolutionMemory {
  std::byte* x = nullptr;                // n x nrhs
  std::byte* residual_norm = nullptr;    // nrhs, real
  std::byte* standard_errors = nullptr;  // n x nrhs, where asked for
};

// Plain data: the problem, once the number of rows is known.
class TriangleSolve {
 public:
  // The default rcond is 2 max(m, n) eps, m the rows that one factorization sees: all of them, or a
  // block's. Errors of a tree of blocks grow with that, not with the number of blocks; and with all
  // of 10^7 rows the limit would pass 1 in float32.
  TriangleSolve(const ReductionOptions& options, std::int64_t rows);

  const Spec& spec() const { return spec_; }

  // What LoadJob and Store need, of each solve and of the largest one for these options.
  std::int64_t scratch_bytes() const;
  static std::int64_t MaxScratchBytes(const ReductionOptions& options);

  // Copies the problem out of `triangle`, min(rows, n + nrhs) x (n + nrhs), to `scratch`.
  void LoadJob(const std::byte* triangle, std::byte* scratch, Job& job) const;

  // After the job. False: something exceeds the type's range, and is Inf or NaN.
  bool Store(const std::byte* triangle, const Job& job, const SolutionMemory& out) const;

 private:
  bool with_identity() const { return spec_.p > options_.nrhs; }

  const ReductionOptions options_;
  const std::int64_t rows_;
  Spec spec_;
};

}  // namespace factord
