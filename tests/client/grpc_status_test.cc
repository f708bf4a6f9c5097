#include "client/grpc_status.h"

#include <grpcpp/support/status.h>
#include <gtest/gtest.h>

#include "google/rpc/error_details.pb.h"

namespace factord::client {
namespace {

google::rpc::Status Refusal() {
  google::rpc::BadRequest bad_request;
  bad_request.add_field_violations()->set_field("a[0].dims");
  google::rpc::RetryInfo retry_info;
  retry_info.mutable_retry_delay()->set_nanos(1'500'000);
  google::rpc::Status status;
  status.set_code(3);
  status.set_message("a[0].dims: no");
  status.add_details()->PackFrom(bad_request);
  status.add_details()->PackFrom(retry_info);
  return status;
}

grpc::Status ToGrpc(const google::rpc::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), status.message(),
                      status.SerializeAsString());
}

TEST(GrpcStatus, OkIsOk) { EXPECT_TRUE(ToAbslStatus(grpc::Status::OK).ok()); }

TEST(GrpcStatus, EveryCodeKeepsItsNumber) {
  for (int code = 1; code <= 16; ++code) {
    EXPECT_EQ(ToAbslStatus(grpc::Status(static_cast<grpc::StatusCode>(code), "why")),
              absl::Status(static_cast<absl::StatusCode>(code), "why"));
  }
}

TEST(GrpcStatus, MessageIsKept) {
  EXPECT_EQ(ToAbslStatus(ToGrpc(Refusal())).message(), "a[0].dims: no");
}

TEST(GrpcStatus, RefusedFieldIsKept) {
  EXPECT_EQ(RefusedField(ToAbslStatus(ToGrpc(Refusal()))), "a[0].dims");
}

TEST(GrpcStatus, RetryDelayIsKept) {
  EXPECT_EQ(RetryDelay(ToAbslStatus(ToGrpc(Refusal()))), absl::Microseconds(1500));
}

TEST(GrpcStatus, InBandStatusIsTheSame) {
  EXPECT_EQ(ToAbslStatus(Refusal()), ToAbslStatus(ToGrpc(Refusal())));
}

TEST(GrpcStatus, NoDetails_NothingIsNamed) {
  const absl::Status status = ToAbslStatus(grpc::Status(grpc::StatusCode::INTERNAL, "x"));
  EXPECT_FALSE(RefusedField(status).has_value());
  EXPECT_FALSE(RetryDelay(status).has_value());
}

TEST(GrpcStatus, UnparsableDetails_KeepCodeAndMessage) {
  EXPECT_EQ(ToAbslStatus(grpc::Status(grpc::StatusCode::INTERNAL, "x", "\xff\xff")),
            absl::InternalError("x"));
}

}  // namespace
}  // namespace factord::client
