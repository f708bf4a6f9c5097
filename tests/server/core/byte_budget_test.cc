#include "server/core/byte_budget.h"

#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace factord {
namespace {

TEST(ByteBudget, TakesUpToTheLimit_AndReturnsWithTheReservation) {
  ByteBudget budget(100);
  auto first = budget.TryTake(60);
  EXPECT_TRUE(first);
  EXPECT_FALSE(budget.TryTake(41));
  EXPECT_EQ(budget.used(), 60);
  EXPECT_TRUE(budget.TryTake(40));  // returned at once
  EXPECT_EQ(budget.used(), 60);
  first.Return();
  first.Return();
  EXPECT_EQ(budget.used(), 0);
}

TEST(ByteBudget, MovedReservation_IsReturnedOnce) {
  ByteBudget budget(100);
  {
    auto first = budget.TryTake(30);
    auto second = budget.TryTake(50);
    second = std::move(first);  // returns its own 50
    EXPECT_EQ(budget.used(), 30);
    const auto third = std::move(second);
    EXPECT_EQ(budget.used(), 30);
  }
  EXPECT_EQ(budget.used(), 0);
}

TEST(ByteBudget, LargestNumbers_DoNotWrap) {
  ByteBudget budget(INT64_MAX);
  const auto all = budget.TryTake(INT64_MAX);
  EXPECT_TRUE(all);
  EXPECT_FALSE(budget.TryTake(1));
  EXPECT_FALSE(budget.TryTake(INT64_MAX));
}

TEST(ByteBudget, ManyThreads_NeverPassTheLimit_AndReturnAll) {
  ByteBudget budget(10);
  std::atomic<std::int64_t> held{0}, most{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20'000; ++i) {
        if (auto taken = budget.TryTake(3)) {
          const std::int64_t now = held.fetch_add(3) + 3;
          std::int64_t seen = most.load();
          while (now > seen && !most.compare_exchange_weak(seen, now)) {
          }
          held.fetch_sub(3);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most.load(), 10);
  EXPECT_GE(most.load(), 3);
  EXPECT_EQ(budget.used(), 0);
}

}  // namespace
}  // namespace factord
