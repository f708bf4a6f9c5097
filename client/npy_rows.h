#ifndef FACTORD_CLIENT_NPY_ROWS_H_
#define FACTORD_CLIENT_NPY_ROWS_H_

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/npy_type.h"
#include "client/tensor.h"

namespace factord::client {

// The rows of a two-dimensional .npy file, some at a time: the memory does not depend on how many
// there are. Types as ReadNpy's; both of NumPy's orders. Not thread-safe.
class NpyRows {
 public:
  // INVALID_ARGUMENT for what is no such file; the system's error where it can not be read.
  static absl::StatusOr<std::unique_ptr<NpyRows>> Open(const std::string& path);

  v1::DType dtype() const { return type_->dtype; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }

  // Rows [first, first + count), which must be there, row-major.
  absl::StatusOr<Matrices> Read(int64_t first, int64_t count);

 private:
  NpyRows(std::string path, std::ifstream stream, int64_t bytes);

  absl::Status ReadHeader();
  // Adds `count` elements from element `index` of the data on.
  absl::Status ReadElements(int64_t index, int64_t count, std::string* data);

  const std::string path_;
  std::ifstream stream_;
  const int64_t bytes_;  // the whole file's
  const NpyType* type_ = nullptr;
  bool fortran_order_ = false;
  int64_t rows_ = 0;
  int64_t columns_ = 0;
  int64_t data_offset_ = 0;
};

}  // namespace factord::client

#endif  // FACTORD_CLIENT_NPY_ROWS_H_
