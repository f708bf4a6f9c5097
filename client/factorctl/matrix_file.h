#ifndef FACTORD_CLIENT_FACTORCTL_MATRIX_FILE_H_
#define FACTORD_CLIENT_FACTORCTL_MATRIX_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/tensor.h"

namespace factord::client {

// Reads .npy, .mtx or .csv, by the name's end. INVALID_ARGUMENT for another end; else the reader's
// errors.
absl::StatusOr<Matrices> ReadMatrixFile(const std::string& path);

// Writes .npy or .mtx, by the name's end.
absl::Status WriteMatrixFile(const std::string& path, const Matrices& matrices);

// OK if WriteMatrixFile knows the name's end, or `path` is empty; else a usage error. To be asked
// before the work.
absl::Status CheckOutputPath(const std::string& path);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_FACTORCTL_MATRIX_FILE_H_
