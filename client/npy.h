#ifndef FACTORD_CLIENT_NPY_H_
#define FACTORD_CLIENT_NPY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/tensor.h"

namespace factord::client {

// NumPy's .npy files, versions 1 to 3, C and Fortran order.
//
// Types: <f4, <f8, <c8 and <c16 as they are; integers and booleans become F64, as NumPy's own
// linear algebra does (integers beyond 2^53 are rounded). A Fortran-ordered array of two dims is
// column-major; one of more dims, whose batch dims are reversed too, is copied into row-major.

// INVALID_ARGUMENT names `file`, the byte offset and what was expected there.
absl::StatusOr<Matrices> ParseNpy(absl::string_view file, absl::string_view contents);
absl::StatusOr<Matrices> ReadNpy(const std::string& path);

// Version 1. A column-major batch of more than one matrix is written in C order: .npy has no such
// layout.
std::string FormatNpy(const Matrices& matrices);
absl::Status WriteNpy(const std::string& path, const Matrices& matrices);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_NPY_H_
