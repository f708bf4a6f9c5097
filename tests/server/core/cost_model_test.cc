#include "server/core/cost_model.h"

#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace factord {
namespace {

Spec Square(std::int64_t n, Op op = Op::kFactorize) {
  Spec spec;
  spec.op = op;
  spec.m = spec.n = n;
  spec.p = 1;
  return spec;
}

double Micros(absl::Duration duration) { return absl::ToDoubleMicroseconds(duration); }

TEST(CostModel, SaysThatADefaultWasNotMeasured) {
  const CostModel model;

  const Prediction prediction = model.Predict(Square(32), 10);

  EXPECT_FALSE(prediction.measured);
  EXPECT_GT(prediction.time, absl::ZeroDuration());
}

TEST(CostModel, ByDefaultAGpuIsFaster) {
  EXPECT_LT(CostModel(Backend::kGpu).Predict(Square(64), 10).time,
            CostModel(Backend::kCpu).Predict(Square(64), 10).time / 10);
}

TEST(CostModel, EvenEmptyMatricesCost) {
  EXPECT_GT(CostModel().Predict(Square(0), 1).time, absl::ZeroDuration());
}

TEST(CostModel, ScalesWithTheCountAndGrowsWithTheSize) {
  const CostModel model;
  const absl::Duration one = model.Predict(Square(32), 1).time;

  EXPECT_NEAR(Micros(model.Predict(Square(32), 1000).time), 1000 * Micros(one), 1);
  EXPECT_GT(model.Predict(Square(64), 1).time, 4 * one);
  EXPECT_EQ(model.Predict(Square(32), 0).time, absl::ZeroDuration());
}

TEST(CostModel, LearnsFromTheFirstRun) {
  CostModel model;

  model.Observe(Square(64), 100, absl::Milliseconds(50));

  const Prediction prediction = model.Predict(Square(64), 200);
  EXPECT_TRUE(prediction.measured);
  EXPECT_NEAR(Micros(prediction.time), 100'000, 1'000);
}

TEST(CostModel, FollowsAChange) {
  CostModel model;
  model.Observe(Square(64), 100, absl::Milliseconds(50));

  for (int i = 0; i < 30; ++i) model.Observe(Square(64), 100, absl::Milliseconds(200));

  EXPECT_NEAR(Micros(model.Predict(Square(64), 100).time), 200'000, 2'000);
}

TEST(CostModel, KeepsOperationsTypesAndSizesApart) {
  CostModel model;
  model.Observe(Square(64), 1, absl::Seconds(1));

  Spec f64 = Square(64);
  f64.dtype = DType::kF64;
  EXPECT_FALSE(model.Predict(f64, 1).measured);
  EXPECT_FALSE(model.Predict(Square(64, Op::kSolve), 1).measured);
  EXPECT_FALSE(model.Predict(Square(256), 1).measured);
  EXPECT_TRUE(model.Predict(Square(65), 1).measured);
}

TEST(CostModel, IgnoresBatchesOfNothing) {
  CostModel model;
  model.Observe(Square(64), 0, absl::Seconds(1));
  EXPECT_FALSE(model.Predict(Square(64), 1).measured);
}

TEST(CostModel, CoversTheLargestSizes) {
  CostModel model;
  const Spec largest = Square(std::int64_t{1} << 31);

  model.Observe(largest, 1, absl::Hours(1));

  EXPECT_NEAR(absl::ToDoubleSeconds(model.Predict(largest, 1).time), 3600, 1);
}

TEST(CostModel, IsThreadSafe) {
  CostModel model;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&model] {
      for (int j = 0; j < 1000; ++j) {
        model.Observe(Square(64), 100, absl::Milliseconds(50));
        ASSERT_GT(model.Predict(Square(64), 1).time, absl::ZeroDuration());
      }
    });
  }
  for (auto& thread : threads) thread.join();

  EXPECT_NEAR(Micros(model.Predict(Square(64), 100).time), 50'000, 500);
}

}  // namespace
}  // namespace factord
