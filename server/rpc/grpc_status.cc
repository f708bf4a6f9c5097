#include "server/rpc/grpc_status.h"

#include <string>

#include "google/rpc/error_details.pb.h"
#include "server/core/errors.h"

namespace factord {
namespace {

constexpr std::size_t kMaxMessageBytes = 1024;
constexpr char kErrorDomain[] = "factord";

static_assert(static_cast<int>(absl::StatusCode::kInvalidArgument) == grpc::INVALID_ARGUMENT);
static_assert(static_cast<int>(absl::StatusCode::kDeadlineExceeded) == grpc::DEADLINE_EXCEEDED);
static_assert(static_cast<int>(absl::StatusCode::kResourceExhausted) == grpc::RESOURCE_EXHAUSTED);
static_assert(static_cast<int>(absl::StatusCode::kFailedPrecondition) == grpc::FAILED_PRECONDITION);
static_assert(static_cast<int>(absl::StatusCode::kUnimplemented) == grpc::UNIMPLEMENTED);
static_assert(static_cast<int>(absl::StatusCode::kUnavailable) == grpc::UNAVAILABLE);
static_assert(static_cast<int>(absl::StatusCode::kUnauthenticated) == grpc::UNAUTHENTICATED);

}  // namespace

google::rpc::Status ToRpcStatus(const absl::Status& status) {
  google::rpc::Status proto;
  proto.set_code(static_cast<int>(status.code()));
  proto.set_message(std::string(status.message().substr(0, kMaxMessageBytes)));
  if (const auto field = FieldOf(status)) {
    google::rpc::BadRequest bad_request;
    auto& violation = *bad_request.add_field_violations();
    violation.set_field(*field);
    violation.set_description(proto.message());
    proto.add_details()->PackFrom(bad_request);
  }
  if (const auto delay = RetryDelayOf(status)) {
    google::rpc::RetryInfo retry;
    const timespec time = absl::ToTimespec(*delay);
    retry.mutable_retry_delay()->set_seconds(time.tv_sec);
    retry.mutable_retry_delay()->set_nanos(static_cast<std::int32_t>(time.tv_nsec));
    proto.add_details()->PackFrom(retry);
  }
  if (const auto reason = ReasonOf(status)) {
    google::rpc::ErrorInfo info;
    info.set_reason(*reason);
    info.set_domain(kErrorDomain);
    proto.add_details()->PackFrom(info);
  }
  return proto;
}

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const google::rpc::Status proto = ToRpcStatus(status);
  return grpc::Status(static_cast<grpc::StatusCode>(proto.code()), proto.message(),
                      proto.details_size() > 0 ? proto.SerializeAsString() : "");
}

}  // namespace factord
