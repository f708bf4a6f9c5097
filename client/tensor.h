#ifndef FACTORD_CLIENT_TENSOR_H_
#define FACTORD_CLIENT_TENSOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "factord/v1/factord.pb.h"

namespace factord::client {

// A batch of equal-sized matrices in memory that somebody else owns: densely packed, little-endian,
// laid out as `layout` says (see Tensor in factord.proto). A plain value; copying it copies no
// matrix. The memory must stay valid and unchanged for as long as a call that was given the view
// runs.
struct TensorView {
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  std::vector<int64_t> dims;  // batch dims, then m, n
  v1::Layout layout = v1::LAYOUT_ROW_MAJOR;
  absl::string_view data;  // product(dims) * DTypeBytes(dtype) bytes
};

// As TensorView, but owns its memory. A plain value.
struct Matrices {
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  std::vector<int64_t> dims;
  v1::Layout layout = v1::LAYOUT_ROW_MAJOR;
  std::string data;

  // Valid until this object is changed, moved or destroyed.
  TensorView View() const { return {dtype, dims, layout, data}; }
};

// Bytes of one element; 0 for a type this library does not know.
int64_t DTypeBytes(v1::DType dtype);

// "f32", "f64", "c64", "c128"; "unspecified" for anything else.
absl::string_view DTypeName(v1::DType dtype);

bool IsComplex(v1::DType dtype);

// The unit roundoff: 2^-24 for F32 and C64, 2^-53 for F64 and C128.
double UnitRoundoff(v1::DType dtype);

// "1000x32x32"; "scalar" for no dims.
std::string DimsName(const std::vector<int64_t>& dims);

// product(dims) * DTypeBytes(dtype). INVALID_ARGUMENT for an unknown type, a negative dim or a
// product above 2^63 - 1.
absl::StatusOr<int64_t> TensorBytes(v1::DType dtype, const std::vector<int64_t>& dims);

// Sets everything but the data, which is not read.
void SetTensorShape(const TensorView& view, v1::Tensor* tensor);

// Moves the tensor's data out. INTERNAL if the data do not have the size that dims and dtype say.
absl::StatusOr<Matrices> TakeMatrices(v1::Tensor* tensor);

// The shape of `dims` as a batch of matrices. Needs at least two dims.
struct BatchShape {
  int64_t batch_count = 1;
  int64_t m = 0;
  int64_t n = 0;
};
BatchShape ShapeOf(const std::vector<int64_t>& dims);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_TENSOR_H_
