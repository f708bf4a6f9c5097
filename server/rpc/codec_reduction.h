// ReduceRows' messages. Part of the codec.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "factord/v1/factord.pb.h"
#include "server/reduction/row_reduction.h"
#include "server/rpc/codec.h"
#include "server/rpc/wire.h"

namespace factord {

struct DecodedReduction {
  ReductionOptions options;
  DecodedRequest request;  // its run options; its only item is a block
  std::int64_t progress_rows = 0;
};

// INVALID_ARGUMENT names the field and both numbers; RESOURCE_EXHAUSTED where the result can be
// larger than a message.
absl::StatusOr<DecodedReduction> Decode(const v1::ReduceRowsStart& start, const Limits& limits);

struct DecodedTriangle {
  std::int64_t rows = 0;
  std::int64_t payload = -1;  // as TensorShape's
};

// INVALID_ARGUMENT where it is not what a stream with these options has as its result.
absl::StatusOr<DecodedTriangle> Decode(const v1::ReducedRows& reduced,
                                       std::span<const std::int64_t> payload_sizes,
                                       const ReductionOptions& options, const Limits& limits);

// The last message; its tensors' data are placeholders of `payloads`, whose memory `owner` keeps.
v1::ReduceRowsResponse Encode(const ReductionOptions& options, const Reduced& reduced,
                              const std::shared_ptr<const void>& owner,
                              std::vector<OutPayload>& payloads);

}  // namespace factord
