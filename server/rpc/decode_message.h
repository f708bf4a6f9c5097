// A received message, as its skeleton parsed and its bulk set aside.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/core/status_macros.h"
#include "server/rpc/wire.h"

namespace factord {

template <typename Proto>
struct ReceivedMessage {
  Proto proto;  // its bulk fields hold indices into payloads
  SplitMessage split;
  std::vector<std::int64_t> payload_sizes;
};

// INVALID_ARGUMENT where the bytes are no such message, or pass the limits.
template <typename Proto>
absl::StatusOr<ReceivedMessage<Proto>> DecodeMessage(const grpc::ByteBuffer& buffer,
                                                     const WireLimits& limits) {
  ReceivedMessage<Proto> message;
  ASSIGN_OR_RETURN(message.split, SplitBulk(buffer, *Proto::descriptor(), limits));
  if (!message.proto.ParseFromString(message.split.skeleton)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the request is not a valid ", Proto::descriptor()->full_name(), " message"));
  }
  for (const Payload& payload : message.split.payloads) {
    message.payload_sizes.push_back(payload.size());
  }
  return message;
}

}  // namespace factord
