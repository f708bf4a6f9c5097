#include "server/rpc/grpc_status.h"

#include "google/rpc/error_details.pb.h"
#include "gtest/gtest.h"
#include "server/core/errors.h"

namespace factord {
namespace {

TEST(ToGrpcStatus, InvalidField_CarriesABadRequest) {
  const grpc::Status status = ToGrpcStatus(InvalidField("a[0].dims", "is -1"));

  google::rpc::Status details;
  google::rpc::BadRequest bad_request;
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  ASSERT_TRUE(details.details(0).UnpackTo(&bad_request));
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "a[0].dims: is -1");
  EXPECT_EQ(bad_request.field_violations(0).field(), "a[0].dims");
}

TEST(ToGrpcStatus, Overloaded_CarriesARetryDelayAndAReason) {
  const google::rpc::Status status =
      ToRpcStatus(Overloaded("QUEUE_FULL", "full", absl::Milliseconds(1500)));

  google::rpc::RetryInfo retry;
  google::rpc::ErrorInfo info;
  ASSERT_EQ(status.details_size(), 2);
  ASSERT_TRUE(status.details(0).UnpackTo(&retry));
  ASSERT_TRUE(status.details(1).UnpackTo(&info));
  EXPECT_EQ(status.code(), grpc::UNAVAILABLE);
  EXPECT_EQ(retry.retry_delay().seconds(), 1);
  EXPECT_EQ(retry.retry_delay().nanos(), 500'000'000);
  EXPECT_EQ(info.reason(), "QUEUE_FULL");
}

TEST(ToGrpcStatus, LongMessage_IsCut) {
  EXPECT_EQ(ToGrpcStatus(absl::InternalError(std::string(5000, 'x'))).error_message().size(), 1024);
}

}  // namespace
}  // namespace factord
