#ifndef FACTORD_CLIENT_NPY_HEADER_H_
#define FACTORD_CLIENT_NPY_HEADER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace factord::client {

// What stands before an .npy file's data.
struct NpyHeader {
  std::string descr;  // NumPy's type string, e.g. "<f8"
  bool fortran_order = false;
  std::vector<int64_t> shape;
  int64_t data_offset = 0;  // bytes from the file's start
};

// INVALID_ARGUMENT names `file`, the byte offset and what was expected there.
absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view file, absl::string_view contents);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_NPY_HEADER_H_
