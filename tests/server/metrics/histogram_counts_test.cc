#include "server/metrics/histogram_counts.h"

#include "gtest/gtest.h"

namespace factord {
namespace {

TEST(HistogramCounts, WithNothingObservedThereIsNoQuantile) {
  EXPECT_EQ(HistogramCounts{}.Quantile(0.5), std::nullopt);
  EXPECT_EQ((HistogramCounts{{1, 2}, {0, 0, 0}}.Quantile(0.5)), std::nullopt);
}

TEST(HistogramCounts, QuantilesAreLinearWithinABucket) {
  const HistogramCounts counts{{1, 2, 4}, {10, 0, 10, 0}};
  EXPECT_DOUBLE_EQ(*counts.Quantile(0.25), 0.5);
  EXPECT_DOUBLE_EQ(*counts.Quantile(0.5), 1);
  EXPECT_DOUBLE_EQ(*counts.Quantile(0.75), 3);
  EXPECT_DOUBLE_EQ(*counts.Quantile(1), 4);
}

TEST(HistogramCounts, BeyondTheLastBoundIsTheLastBound) {
  EXPECT_DOUBLE_EQ((*HistogramCounts{{1, 2}, {0, 0, 5}}.Quantile(0.5)), 2);
}

TEST(HistogramCounts, SinceTakesAwayWhatWasThere) {
  const HistogramCounts earlier{{1, 2}, {5, 1, 0}}, later{{1, 2}, {5, 4, 2}};
  EXPECT_EQ(later.Since(earlier).counts, (std::vector<std::uint64_t>{0, 3, 2}));
  EXPECT_EQ(later.Since(HistogramCounts{}).total(), 11);
}

}  // namespace
}  // namespace factord
