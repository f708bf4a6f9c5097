// One tensor of a request: its shape, checked. Part of the codec.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "factord/v1/factord.pb.h"
#include "server/core/types.h"
#include "server/rpc/codec.h"

namespace factord {

struct TensorShape {
  DType dtype = DType::kF32;
  Layout layout = Layout::kRowMajor;
  std::vector<std::int64_t> batch_dims;
  std::int64_t count = 0;  // product of batch_dims
  std::int64_t rows = 0;   // the last two dims; a vector is one column
  std::int64_t cols = 1;
  std::int64_t bytes = 0;
  std::int64_t payload = -1;
};

// How many of the last dims are one matrix.
enum class TensorRank { kVector = 1, kMatrix = 2 };

// INVALID_ARGUMENT naming "path.dtype" where it is not set, or unknown.
absl::StatusOr<DType> DecodeDType(v1::DType dtype, absl::string_view path);

// INVALID_ARGUMENT naming `path` where dims are negative, missing, or their product passes the
// limits or 64 bits; where the type or layout is unknown; where the data's size is not what the
// dims say.
absl::StatusOr<TensorShape> DecodeTensor(const v1::Tensor& tensor, absl::string_view path,
                                         TensorRank rank, DataMode mode,
                                         std::span<const std::int64_t> payload_sizes,
                                         const Limits& limits);

// "4x3", "2x5x4x3".
std::string DimsText(std::span<const std::int64_t> dims);

v1::DType ToProto(DType dtype);
v1::Layout ToProto(Layout layout);

// a * b, or nullopt where it passes 64 bits. Both >= 0.
std::optional<std::int64_t> CheckedMultiply(std::int64_t a, std::int64_t b);

}  // namespace factord
