#include "server/rpc/codec_tensor.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/core/errors.h"
#include "server/core/status_macros.h"
#include "server/rpc/wire.h"

namespace factord {
namespace {

constexpr int kMaxDims = 32;  // NumPy's limit

absl::StatusOr<Layout> DecodeLayout(v1::Layout layout, absl::string_view path) {
  switch (layout) {
    case v1::LAYOUT_UNSPECIFIED:
    case v1::LAYOUT_ROW_MAJOR:
      return Layout::kRowMajor;
    case v1::LAYOUT_COLUMN_MAJOR:
      return Layout::kColumnMajor;
    default:
      return InvalidField(absl::StrCat(path, ".layout"), absl::StrCat("unknown value ", layout));
  }
}

absl::Status CheckDims(std::span<const std::int64_t> dims, absl::string_view path,
                       TensorRank rank) {
  const auto least = static_cast<std::size_t>(rank);
  if (dims.size() < least || dims.size() > kMaxDims) {
    return InvalidField(
        absl::StrCat(path, ".dims"),
        absl::StrCat("has ", dims.size(), " dims; must have ", least, " to ", kMaxDims));
  }
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0) {
      return InvalidField(absl::StrCat(path, ".dims[", i, "]"),
                          absl::StrCat("is ", dims[i], "; must be >= 0"));
    }
  }
  return absl::OkStatus();
}

// Product of dims; one zero makes it zero, however large the others.
std::optional<std::int64_t> Product(std::span<const std::int64_t> dims) {
  for (std::int64_t dim : dims) {
    if (dim == 0) return 0;
  }
  std::optional<std::int64_t> product = 1;
  for (std::int64_t dim : dims) {
    if (product) product = CheckedMultiply(*product, dim);
  }
  return product;
}

absl::Status CheckData(const v1::Tensor& tensor, absl::string_view path, DataMode mode,
                       std::span<const std::int64_t> payload_sizes, TensorShape& shape) {
  const std::int64_t index = IndexOf(tensor.data());
  const std::int64_t size = index < 0 ? 0 : payload_sizes[static_cast<std::size_t>(index)];
  const std::string field = absl::StrCat(path, ".data");
  if (mode == DataMode::kShapeOnly) {
    if (size != 0)
      return InvalidField(field, absl::StrCat("has ", size, " bytes; must be empty here"));
    return absl::OkStatus();
  }
  if (mode == DataMode::kStreamed && size == 0) return absl::OkStatus();
  if (size != shape.bytes) {
    return InvalidField(
        field,
        absl::StrCat("has ", size, " bytes; dims ",
                     DimsText({tensor.dims().data(), static_cast<std::size_t>(tensor.dims_size())}),
                     " of ", Name(shape.dtype), " need ", shape.bytes));
  }
  shape.payload = index;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DType> DecodeDType(v1::DType dtype, absl::string_view path) {
  switch (dtype) {
    case v1::DTYPE_F32:
      return DType::kF32;
    case v1::DTYPE_F64:
      return DType::kF64;
    case v1::DTYPE_C64:
      return DType::kC64;
    case v1::DTYPE_C128:
      return DType::kC128;
    case v1::DTYPE_UNSPECIFIED:
      return InvalidField(absl::StrCat(path, ".dtype"),
                          "is not set; must be one of F32, F64, C64, C128");
    default:
      return InvalidField(absl::StrCat(path, ".dtype"), absl::StrCat("unknown value ", dtype));
  }
}

std::optional<std::int64_t> CheckedMultiply(std::int64_t a, std::int64_t b) {
  std::int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

std::string DimsText(std::span<const std::int64_t> dims) { return absl::StrJoin(dims, "x"); }

absl::StatusOr<TensorShape> DecodeTensor(const v1::Tensor& tensor, absl::string_view path,
                                         TensorRank rank, DataMode mode,
                                         std::span<const std::int64_t> payload_sizes,
                                         const Limits& limits) {
  const std::span<const std::int64_t> dims(tensor.dims().data(),
                                           static_cast<std::size_t>(tensor.dims_size()));
  TensorShape shape;
  ASSIGN_OR_RETURN(shape.dtype, DecodeDType(tensor.dtype(), path));
  ASSIGN_OR_RETURN(shape.layout, DecodeLayout(tensor.layout(), path));
  RETURN_IF_ERROR(CheckDims(dims, path, rank));

  const auto matrix_dims = dims.last(static_cast<std::size_t>(rank));
  const auto batch_dims = dims.first(dims.size() - matrix_dims.size());
  shape.batch_dims.assign(batch_dims.begin(), batch_dims.end());
  shape.rows = matrix_dims[0];
  shape.cols = rank == TensorRank::kMatrix ? matrix_dims[1] : 1;

  // LAPACK takes 32-bit dimensions even where the other one is 0.
  const auto elements = Product(matrix_dims);
  if (!elements || *elements > limits.max_matrix_elements || shape.rows > INT32_MAX ||
      shape.cols > INT32_MAX) {
    return InvalidField(absl::StrCat(path, ".dims"),
                        absl::StrCat("a matrix of ", DimsText(matrix_dims),
                                     " elements; the limit is ", limits.max_matrix_elements));
  }
  const auto count = Product(batch_dims);
  const auto total = count ? CheckedMultiply(*count, *elements) : std::nullopt;
  const auto bytes = total ? CheckedMultiply(*total, SizeOf(shape.dtype)) : std::nullopt;
  if (!bytes) {
    return InvalidField(
        absl::StrCat(path, ".dims"),
        absl::StrCat(DimsText(dims), " of ", Name(shape.dtype), " is more than 2^63-1 bytes"));
  }
  shape.count = *count;
  shape.bytes = *bytes;
  RETURN_IF_ERROR(CheckData(tensor, path, mode, payload_sizes, shape));
  return shape;
}

v1::DType ToProto(DType dtype) {
  static constexpr v1::DType kProto[] = {v1::DTYPE_F32, v1::DTYPE_F64, v1::DTYPE_C64,
                                         v1::DTYPE_C128};
  return kProto[static_cast<std::size_t>(dtype)];
}

v1::Layout ToProto(Layout layout) {
  return layout == Layout::kRowMajor ? v1::LAYOUT_ROW_MAJOR : v1::LAYOUT_COLUMN_MAJOR;
}

}  // namespace factord
