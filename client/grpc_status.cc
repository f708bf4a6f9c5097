#include "client/grpc_status.h"

#include <grpcpp/support/status.h>

#include "absl/strings/cord.h"
#include "google/rpc/error_details.pb.h"

namespace factord::client {
namespace {

constexpr char kTypeUrlPrefix[] = "type.googleapis.com/";

// google.rpc.Code, grpc::StatusCode and absl::StatusCode are one numbering.
static_assert(static_cast<int>(grpc::StatusCode::UNAVAILABLE) ==
              static_cast<int>(absl::StatusCode::kUnavailable));
static_assert(static_cast<int>(grpc::StatusCode::UNAUTHENTICATED) ==
              static_cast<int>(absl::StatusCode::kUnauthenticated));

absl::Status MakeStatus(int code, const std::string& message) {
  // absl maps numbers that it does not know to UNKNOWN, as gRPC does.
  return absl::Status(static_cast<absl::StatusCode>(code), message);
}

void AddDetails(const google::rpc::Status& details, absl::Status* status) {
  for (const google::protobuf::Any& detail : details.details()) {
    status->SetPayload(detail.type_url(), absl::Cord(detail.value()));
  }
}

template <typename Message>
std::optional<Message> FindDetail(const absl::Status& status) {
  const auto payload = status.GetPayload(kTypeUrlPrefix + Message::descriptor()->full_name());
  Message message;
  if (!payload.has_value() || !message.ParseFromString(std::string(*payload))) return std::nullopt;
  return message;
}

}  // namespace

absl::Status ToAbslStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result = MakeStatus(status.error_code(), status.error_message());
  google::rpc::Status details;
  if (details.ParseFromString(status.error_details())) AddDetails(details, &result);
  return result;
}

absl::Status ToAbslStatus(const google::rpc::Status& status) {
  if (status.code() == 0) return absl::OkStatus();
  absl::Status result = MakeStatus(status.code(), status.message());
  AddDetails(status, &result);
  return result;
}

std::optional<std::string> RefusedField(const absl::Status& status) {
  const std::optional<google::rpc::BadRequest> detail = FindDetail<google::rpc::BadRequest>(status);
  if (!detail.has_value() || detail->field_violations().empty()) return std::nullopt;
  return detail->field_violations(0).field();
}

std::optional<absl::Duration> RetryDelay(const absl::Status& status) {
  const std::optional<google::rpc::RetryInfo> detail = FindDetail<google::rpc::RetryInfo>(status);
  if (!detail.has_value() || !detail->has_retry_delay()) return std::nullopt;
  return absl::Seconds(detail->retry_delay().seconds()) +
         absl::Nanoseconds(detail->retry_delay().nanos());
}

}  // namespace factord::client
