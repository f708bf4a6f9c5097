#ifndef FACTORD_CLIENT_MATRIX_MARKET_H_
#define FACTORD_CLIENT_MATRIX_MARKET_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/tensor.h"

namespace factord::client {

// The largest dense matrix that a Matrix Market file is unfolded into: a few bytes of a coordinate
// file can name any size.
inline constexpr int64_t kMaxDenseBytes = int64_t{16} << 30;

// Matrix Market files (.mtx): coordinate and array; real, integer, pattern and complex; general,
// symmetric, skew-symmetric and hermitian. The result is one dense column-major matrix of F64 or
// C128 with both triangles filled. Entries given twice are added up, as SciPy does; pattern entries
// are 1.

// INVALID_ARGUMENT names `file`, the line and what was expected there.
absl::StatusOr<Matrices> ParseMatrixMarket(absl::string_view file, absl::string_view contents);
absl::StatusOr<Matrices> ReadMatrixMarket(const std::string& path);

// An array file, general. Takes one matrix (all batch dims 1) of any type; numbers are written so
// that they read back the same. INVALID_ARGUMENT for a batch.
absl::StatusOr<std::string> FormatMatrixMarket(const Matrices& matrix);
absl::Status WriteMatrixMarket(const std::string& path, const Matrices& matrix);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_MATRIX_MARKET_H_
