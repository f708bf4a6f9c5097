#ifndef FACTORD_CLIENT_GRPC_STATUS_H_
#define FACTORD_CLIENT_GRPC_STATUS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "google/rpc/status.pb.h"

namespace grpc {
class Status;
}

namespace factord::client {

// The one place where an error from the wire becomes an absl::Status. Code and message are kept;
// every detail that the server sent is kept as a payload under its type URL, so that the accessors
// below (and callers) can read it.
absl::Status ToAbslStatus(const grpc::Status& status);
absl::Status ToAbslStatus(const google::rpc::Status& status);

// The field that the server refused (google.rpc.BadRequest, the first violation), e.g. "a[0].dims".
// Nothing if it named none.
std::optional<std::string> RefusedField(const absl::Status& status);

// How long the server asks to wait before the next try (google.rpc.RetryInfo). Nothing if it did
// not say.
std::optional<absl::Duration> RetryDelay(const absl::Status& status);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_GRPC_STATUS_H_
