#include "server/logging/line_limiter.h"

#include "gtest/gtest.h"

namespace factord {
namespace {

constexpr absl::Duration kWindow = absl::Seconds(10);
const absl::Time kStart = absl::FromUnixSeconds(1'000'000);

TEST(LineLimiter, TheFirstLinesOfAWindowPass_TheRestIsCounted) {
  LineLimiter limiter(2, 3, kWindow);
  int passed = 0;
  for (int i = 0; i < 100; ++i) passed += limiter.Allows(0, kStart) ? 1 : 0;
  EXPECT_EQ(passed, 3);
  EXPECT_TRUE(limiter.Allows(1, kStart));  // another kind

  EXPECT_TRUE(limiter.TakeSuppressed(kStart + kWindow - absl::Nanoseconds(1)).empty());
  const auto suppressed = limiter.TakeSuppressed(kStart + kWindow);
  ASSERT_EQ(suppressed.size(), 1u);
  EXPECT_EQ(suppressed[0].kind, 0u);
  EXPECT_EQ(suppressed[0].count, 97);
  EXPECT_TRUE(limiter.TakeSuppressed(absl::InfiniteFuture()).empty());  // told once
}

TEST(LineLimiter, ANewWindowBeginsWithTheNextLine) {
  LineLimiter limiter(1, 1, kWindow);
  EXPECT_TRUE(limiter.Allows(0, kStart));
  EXPECT_FALSE(limiter.Allows(0, kStart + kWindow - absl::Nanoseconds(1)));
  EXPECT_TRUE(limiter.Allows(0, kStart + kWindow));
  EXPECT_FALSE(limiter.Allows(0, kStart + kWindow));
  // None of those that were left out is lost, whichever window they were in.
  EXPECT_EQ(limiter.TakeSuppressed(absl::InfiniteFuture()).at(0).count, 2);
}

}  // namespace
}  // namespace factord
