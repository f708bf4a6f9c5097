// absl::Status to what a client sees, in one place. The codes of the two are the same numbers.
#pragma once

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/support/status.h"

namespace factord {

// With google.rpc.BadRequest, RetryInfo and ErrorInfo as details where core/errors attached the
// facts.
google::rpc::Status ToRpcStatus(const absl::Status& status);

// The same, as the status of an RPC. The message is cut to 1024 bytes: gRPC carries it in a
// trailer.
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace factord
