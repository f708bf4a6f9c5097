#include "server/rpc/explain.h"

#include "grpcpp/support/slice.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/routed_context.h"

namespace factord {
namespace {

grpc::ByteBuffer BytesOf(const google::protobuf::Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

v1::ExplainRequest Request(std::int64_t count) {
  v1::ExplainRequest request;
  v1::Tensor& a = *request.mutable_factorize()->add_a();
  a.set_dtype(v1::DTYPE_F32);
  for (std::int64_t dim : {count, std::int64_t{8}, std::int64_t{4}}) a.add_dims(dim);
  request.mutable_factorize()->mutable_qr()->set_r(true);
  return request;
}

TEST(Explain, TellsWhereWhyAndWhatItRestsOn) {
  testing::RoutedContext routed;
  routed.route.backend = Backend::kGpu;
  routed.route.reason = RouteReason::kPredicted;
  routed.route.times = {absl::Microseconds(300), absl::Microseconds(100), RouteLabel::kEstimated};

  const auto response = Explain(BytesOf(Request(50)), routed.context);

  ASSERT_TRUE(response.ok()) << response.status();
  const v1::Explanation& one = response->explanations(0);
  EXPECT_EQ(one.backend(), v1::BACKEND_GPU);
  EXPECT_EQ(one.path(), "gpu");
  EXPECT_EQ(one.device(), "a GPU");
  EXPECT_EQ(one.label(), v1::ROUTE_LABEL_ESTIMATED);
  EXPECT_EQ(one.cpu_ns(), 300'000);
  EXPECT_EQ(one.gpu_ns(), 100'000);
  EXPECT_EQ(one.reason(), "the gpu is predicted to be 3 times as fast as the cpu (estimated)");
  EXPECT_EQ(one.predicted_ns(), 100'000);
  EXPECT_FALSE(one.measured());
  EXPECT_EQ(routed.asked.count, 50);
  EXPECT_TRUE(routed.asked.explain);
}

TEST(Explain, PredictsFromWhatRanHere) {
  testing::RoutedContext routed;
  routed.route.times = {absl::Microseconds(300), absl::ZeroDuration(), RouteLabel::kDefault};
  ASSERT_TRUE(Explain(BytesOf(Request(50)), routed.context).ok());
  routed.costs[static_cast<std::size_t>(Backend::kCpu)].Observe(routed.asked.spec, 50,
                                                                absl::Milliseconds(7));

  const auto response = Explain(BytesOf(Request(50)), routed.context);

  ASSERT_TRUE(response.ok()) << response.status();
  const v1::Explanation& one = response->explanations(0);
  EXPECT_TRUE(one.measured());
  EXPECT_NEAR(static_cast<double>(one.predicted_ns()), 7e6, 0.1e6);
}

TEST(Explain, HandsTheRouterWhatTheRequestSays) {
  testing::RoutedContext routed;
  v1::ExplainRequest request = Request(0);
  request.mutable_factorize()->mutable_run()->set_backend(v1::BACKEND_GPU);
  request.mutable_factorize()->mutable_run()->set_reproducible(true);

  ASSERT_TRUE(Explain(BytesOf(request), routed.context).ok());

  EXPECT_EQ(routed.asked.backend, Backend::kGpu);
  EXPECT_TRUE(routed.asked.reproducible);
  EXPECT_EQ(routed.asked.count, 0);
}

TEST(GetServerInfo, TellsEachDevicesHealthAsItIs) {
  testing::RoutedContext routed;
  routed.context.routing = RouteLabel::kMeasured;
  routed.context.routing_table = "a CPU, a GPU";
  for (bool healthy : {true, false}) {
    routed.gpu_healthy = healthy;
    const auto info = GetServerInfo(BytesOf(v1::GetServerInfoRequest()), routed.context);
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_TRUE(info->backends(0).healthy());
    EXPECT_EQ(info->backends(1).healthy(), healthy);
    EXPECT_EQ(info->backends(1).driver(), "580.1");
    EXPECT_EQ(info->backends(1).devices(0).healthy(), healthy);
    EXPECT_EQ(info->backends(1).devices(0).name(), "gpu0");
    EXPECT_EQ(info->routing(), v1::ROUTE_LABEL_MEASURED);
    EXPECT_EQ(info->routing_table(), "a CPU, a GPU");
  }
}

}  // namespace
}  // namespace factord
