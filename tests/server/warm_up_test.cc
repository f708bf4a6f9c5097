#include "server/warm_up.h"

#include <atomic>
#include <cmath>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace factord {
namespace {

// Remembers what it ran.
class FakeEngine : public Factorizer {
 public:
  absl::Status Run(Batch& batch) override {
    const Job& job = *batch.jobs.front();
    ran.push_back({job.count, job.spec.m, job.spec.n, job.spec.dtype});
    EXPECT_EQ(job.spec.q, QMode::kReduced);
    EXPECT_TRUE(job.spec.r);
    EXPECT_NE(job.at(Operand::kQ), nullptr);
    EXPECT_TRUE(std::isfinite(*job.matrix<float>(Operand::kA, job.count - 1)));
    if (on_run) on_run();
    return answer;
  }
  std::string_view PathOf(const Spec&) const override { return "fake"; }

  std::vector<WarmUpShape> ran;
  std::function<void()> on_run;
  absl::Status answer;
};

class WarmUpTest : public ::testing::Test {
 protected:
  std::unique_ptr<WarmUp> Make(std::vector<WarmUpShape> shapes) {
    return std::make_unique<WarmUp>(
        std::move(shapes),
        [](const Spec& spec, std::int64_t) { return spec.m > 100 ? Backend::kGpu : Backend::kCpu; },
        limits_, budget_);
  }

  BatcherOptions limits_;
  std::shared_ptr<ByteBudget> budget_ = std::make_shared<ByteBudget>(1 << 26);
  FakeEngine engine_;
};

const WarmUpShape kSmall{5, 8, 4, DType::kF32}, kLarge{2, 200, 100, DType::kC64};

TEST_F(WarmUpTest, RunsTheShapesOfItsBackend) {
  const auto warm_up = Make({kSmall, kLarge});
  warm_up->Begin();
  warm_up->Run(Backend::kCpu, engine_);
  EXPECT_EQ(engine_.ran, std::vector<WarmUpShape>{kSmall});
  warm_up->Run(Backend::kGpu, engine_);
  EXPECT_EQ(engine_.ran, (std::vector<WarmUpShape>{kSmall, kLarge}));
  EXPECT_FALSE(warm_up->running());
  EXPECT_EQ(budget_->used(), 0);
}

TEST_F(WarmUpTest, ABatchIsNoLargerThanOneOfRequestsMayBe) {
  limits_.max_batch_matrices = 3;
  const auto warm_up = Make({kSmall});
  warm_up->Begin();
  warm_up->Run(Backend::kCpu, engine_);
  EXPECT_EQ(engine_.ran.front().batch, 3);

  limits_.max_batch_matrices = 1 << 30;
  limits_.max_batch_bytes = 1;
  const auto one_by_one = Make({kSmall});
  one_by_one->Begin();
  one_by_one->Run(Backend::kCpu, engine_);
  EXPECT_EQ(engine_.ran.back().batch, 1);
}

TEST_F(WarmUpTest, WhatFailsOrDoesNotFitIsNoReasonToStop) {
  engine_.answer = absl::ResourceExhaustedError("too large");
  const auto warm_up = Make({{1, 90, 1 << 20, DType::kC128}, kSmall, kSmall});
  warm_up->Begin();
  warm_up->Run(Backend::kCpu, engine_);
  EXPECT_EQ(engine_.ran, (std::vector<WarmUpShape>{kSmall, kSmall}));
}

TEST_F(WarmUpTest, WaitsForTheBegin) {
  const auto warm_up = Make({kSmall});
  std::atomic<bool> begun{false};
  engine_.on_run = [&] { EXPECT_TRUE(begun); };
  std::thread lane([&] { warm_up->Run(Backend::kCpu, engine_); });
  begun = true;
  warm_up->Begin();
  lane.join();
  EXPECT_EQ(engine_.ran.size(), 1);
}

TEST_F(WarmUpTest, CancelledBeforeItBeganItRunsNothing) {
  const auto warm_up = Make({kSmall});
  std::thread lane([&] { warm_up->Run(Backend::kCpu, engine_); });
  warm_up->Cancel();
  warm_up->Begin();
  lane.join();
  EXPECT_TRUE(engine_.ran.empty());
}

TEST_F(WarmUpTest, CancelledItEndsAfterTheBatchThatRuns) {
  const auto warm_up = Make({kSmall, kSmall, kSmall});
  engine_.on_run = [&] {
    EXPECT_TRUE(warm_up->running());
    warm_up->Cancel();
  };
  warm_up->Begin();
  warm_up->Run(Backend::kCpu, engine_);
  EXPECT_EQ(engine_.ran.size(), 1);
  EXPECT_FALSE(warm_up->running());
}

}  // namespace
}  // namespace factord
