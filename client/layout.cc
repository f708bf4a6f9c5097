#include "client/layout.h"

#include <cstring>
#include <utility>
#include <vector>

namespace factord::client {

Matrices ToRowMajor(Matrices matrices) {
  if (matrices.layout != v1::LAYOUT_COLUMN_MAJOR) return matrices;
  if (matrices.dims.size() >= 2) {
    const BatchShape shape = ShapeOf(matrices.dims);
    const int64_t bytes = DTypeBytes(matrices.dtype);
    std::string data(matrices.data.size(), '\0');
    const char* from = matrices.data.data();
    for (int64_t batch = 0; batch < shape.batch_count; ++batch) {
      char* to = data.data() + batch * shape.m * shape.n * bytes;
      for (int64_t j = 0; j < shape.n; ++j) {
        for (int64_t i = 0; i < shape.m; ++i, from += bytes) {
          std::memcpy(to + (i * shape.n + j) * bytes, from, bytes);
        }
      }
    }
    matrices.data = std::move(data);
  }
  matrices.layout = v1::LAYOUT_ROW_MAJOR;
  return matrices;
}

std::string FortranToRowMajor(absl::string_view data, const std::vector<int64_t>& dims,
                              int64_t element_bytes) {
  std::string result(data.size(), '\0');
  if (data.empty()) return result;
  // Walk the input in order, counting the indices up with the first one fastest.
  std::vector<int64_t> strides(dims.size(), element_bytes);
  for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  std::vector<int64_t> index(dims.size(), 0);
  int64_t offset = 0;
  for (size_t from = 0; from < data.size(); from += element_bytes) {
    std::memcpy(result.data() + offset, data.data() + from, element_bytes);
    for (size_t d = 0; d < dims.size(); ++d) {
      offset += strides[d];
      if (++index[d] < dims[d]) break;
      offset -= strides[d] * dims[d];
      index[d] = 0;
    }
  }
  return result;
}

}  // namespace factord::client
