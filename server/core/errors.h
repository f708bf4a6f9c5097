// Errors as absl::Status, with the facts that clients act on as payloads. rpc/grpc_status turns
// these into google.rpc.BadRequest, RetryInfo and ErrorInfo; nobody else reads them.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace factord {

// INVALID_ARGUMENT about one field of the request, e.g. "a[2].dims". The message is "field:
// problem".
absl::Status InvalidField(absl::string_view field, absl::string_view problem);

// UNAVAILABLE: refused now, worth another try after `retry_delay`. `reason` is UPPER_SNAKE_CASE,
// e.g. "QUEUE_FULL".
absl::Status Overloaded(absl::string_view reason, absl::string_view message,
                        absl::Duration retry_delay);

std::optional<std::string> FieldOf(const absl::Status& status);
std::optional<std::string> ReasonOf(const absl::Status& status);
std::optional<absl::Duration> RetryDelayOf(const absl::Status& status);

}  // namespace factord
