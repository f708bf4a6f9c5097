#include "client/tensor.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace factord::client {

int64_t DTypeBytes(v1::DType dtype) {
  switch (dtype) {
    case v1::DTYPE_F32:
      return 4;
    case v1::DTYPE_F64:
    case v1::DTYPE_C64:
      return 8;
    case v1::DTYPE_C128:
      return 16;
    default:
      return 0;
  }
}

absl::string_view DTypeName(v1::DType dtype) {
  switch (dtype) {
    case v1::DTYPE_F32:
      return "f32";
    case v1::DTYPE_F64:
      return "f64";
    case v1::DTYPE_C64:
      return "c64";
    case v1::DTYPE_C128:
      return "c128";
    default:
      return "unspecified";
  }
}

bool IsComplex(v1::DType dtype) { return dtype == v1::DTYPE_C64 || dtype == v1::DTYPE_C128; }

double UnitRoundoff(v1::DType dtype) {
  const bool is_single = dtype == v1::DTYPE_F32 || dtype == v1::DTYPE_C64;
  return std::ldexp(1.0, is_single ? -24 : -53);
}

std::string DimsName(const std::vector<int64_t>& dims) {
  return dims.empty() ? "scalar" : absl::StrJoin(dims, "x");
}

absl::StatusOr<int64_t> TensorBytes(v1::DType dtype, const std::vector<int64_t>& dims) {
  int64_t bytes = DTypeBytes(dtype);
  if (bytes == 0) {
    return absl::InvalidArgumentError(absl::StrCat("unknown dtype ", static_cast<int>(dtype)));
  }
  bool is_empty = false;
  for (int64_t dim : dims) {
    if (dim < 0) return absl::InvalidArgumentError(absl::StrCat("dims hold ", dim, ", below 0"));
    is_empty |= dim == 0;
  }
  if (is_empty) return 0;
  for (int64_t dim : dims) {
    if (dim > std::numeric_limits<int64_t>::max() / bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("a tensor of ", DimsName(dims), " has more than 2^63 - 1 bytes"));
    }
    bytes *= dim;
  }
  return bytes;
}

void SetTensorShape(const TensorView& view, v1::Tensor* tensor) {
  tensor->set_dtype(view.dtype);
  tensor->set_layout(view.layout);
  tensor->mutable_dims()->Assign(view.dims.begin(), view.dims.end());
}

absl::StatusOr<Matrices> TakeMatrices(v1::Tensor* tensor) {
  Matrices result;
  result.dtype = tensor->dtype();
  result.dims.assign(tensor->dims().begin(), tensor->dims().end());
  // The one place where the default layout gets its name, so that callers need not know it.
  result.layout =
      tensor->layout() == v1::LAYOUT_UNSPECIFIED ? v1::LAYOUT_ROW_MAJOR : tensor->layout();
  const absl::StatusOr<int64_t> bytes = TensorBytes(result.dtype, result.dims);
  if (!bytes.ok()) {
    return absl::InternalError(absl::StrCat("the server's reply: ", bytes.status().message()));
  }
  if (static_cast<int64_t>(tensor->data().size()) != *bytes) {
    return absl::InternalError(absl::StrCat(
        "the server's reply: a tensor of ", DimsName(result.dims), " ", DTypeName(result.dtype),
        " has ", tensor->data().size(), " bytes, not ", *bytes));
  }
  result.data = std::move(*tensor->mutable_data());
  return result;
}

BatchShape ShapeOf(const std::vector<int64_t>& dims) {
  BatchShape shape;
  shape.m = dims[dims.size() - 2];
  shape.n = dims[dims.size() - 1];
  for (size_t i = 0; i + 2 < dims.size(); ++i) shape.batch_count *= dims[i];
  return shape;
}

}  // namespace factord::client
