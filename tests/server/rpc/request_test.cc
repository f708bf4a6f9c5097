#include "server/rpc/request.h"

#include <utility>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/routed_context.h"

namespace factord {
namespace {

DecodedRequest Decoded() {
  v1::FactorizeRequest request;
  v1::Tensor& a = *request.add_a();
  a.set_dtype(v1::DTYPE_F32);
  for (int dim : {3, 2, 2}) a.add_dims(dim);
  request.mutable_qr()->set_r(true);
  return *Decode(request, DataMode::kStreamed, {}, Limits{.memory_budget_bytes = 1 << 30});
}

TEST(Request, ItsJobsGoWhereTheRouterSays) {
  testing::RoutedContext routed;
  Dispatcher dispatcher{BatcherOptions()};
  routed.context.dispatcher = &dispatcher;
  for (Backend backend : {Backend::kGpu, Backend::kCpu}) {
    routed.route.backend = backend;
    routed.route.pinned = backend == Backend::kGpu;
    auto request = Request::Create(Decoded(), routed.context);
    ASSERT_TRUE(request.ok()) << request.status();
    absl::Notification finished;
    ASSERT_TRUE(
        (*request)
            ->Run(Caller(), nullptr, [&](Request&, const absl::Status&) { finished.Notify(); })
            .ok());

    std::optional<Batch> batch = dispatcher.WaitForBatch(backend);

    ASSERT_TRUE(batch);
    Job& job = *batch->jobs[0];
    EXPECT_EQ(job.route, backend);
    EXPECT_EQ(job.pinned, backend == Backend::kGpu);
    EXPECT_EQ(job.predicted, routed.context.CostsOf(backend).Predict(job.spec, job.count).time);
    dispatcher.Finished(1);
    Complete(std::move(batch->jobs[0]), absl::OkStatus());
    finished.WaitForNotification();
  }
  dispatcher.Stop();
}

}  // namespace
}  // namespace factord
