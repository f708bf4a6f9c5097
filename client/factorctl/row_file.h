#ifndef FACTORD_CLIENT_FACTORCTL_ROW_FILE_H_
#define FACTORD_CLIENT_FACTORCTL_ROW_FILE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/tensor.h"

namespace factord::client {

// A file with a matrix, to be read some rows at a time. An .npy file stays where it is; others are
// in memory.
struct RowFile {
  std::string path;
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<std::string> names;  // of the columns; empty where they have none
  // Rows [first, first + count), which must be there, row-major.
  std::function<absl::StatusOr<Matrices>(int64_t first, int64_t count)> read;
};

// .npy, .mtx or .csv, by the name's end. The readers' errors.
absl::StatusOr<RowFile> OpenRowFile(const std::string& path);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_FACTORCTL_ROW_FILE_H_
