#include "client/latency_histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace factord::client {
namespace {

// Log-uniform over the whole range, so that every size of bucket is met.
std::vector<absl::Duration> RandomLatencies(uint64_t seed, int count) {
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<double> exponent(-6, 3);
  std::vector<absl::Duration> latencies;
  for (int i = 0; i < count; ++i) {
    latencies.push_back(absl::Seconds(std::pow(10.0, exponent(generator))));
  }
  return latencies;
}

class LatencyHistogramProperty : public ::testing::TestWithParam<uint64_t> {};

TEST_P(LatencyHistogramProperty, QuantilesAreWithinOnePercent) {
  std::vector<absl::Duration> latencies = RandomLatencies(GetParam(), 5000);
  LatencyHistogram histogram;
  for (absl::Duration latency : latencies) histogram.Record(latency);

  std::sort(latencies.begin(), latencies.end());
  for (double quantile : {0.0, 0.001, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0}) {
    const size_t rank = std::max<size_t>(
        1, static_cast<size_t>(std::ceil(quantile * static_cast<double>(latencies.size()))));
    const double exact = absl::ToDoubleSeconds(latencies[rank - 1]);
    EXPECT_NEAR(absl::ToDoubleSeconds(histogram.Quantile(quantile)), exact, 0.01 * exact)
        << "quantile " << quantile << ", seed " << GetParam();
  }
}

TEST_P(LatencyHistogramProperty, MergeEqualsRecordingAll) {
  const std::vector<absl::Duration> latencies = RandomLatencies(GetParam(), 200);
  LatencyHistogram all;
  LatencyHistogram halves[2];
  for (size_t i = 0; i < latencies.size(); ++i) {
    all.Record(latencies[i]);
    halves[i % 2].Record(latencies[i]);
  }

  halves[0].Merge(halves[1]);

  EXPECT_EQ(halves[0].count(), all.count());
  EXPECT_EQ(halves[0].Max(), all.Max());
  for (double quantile : {0.0, 0.5, 1.0}) {
    EXPECT_EQ(halves[0].Quantile(quantile), all.Quantile(quantile)) << "seed " << GetParam();
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, LatencyHistogramProperty, ::testing::Values(1, 2, 3));

TEST(LatencyHistogram, EmptyIsZero) {
  EXPECT_EQ(LatencyHistogram().Quantile(0.5), absl::ZeroDuration());
}

TEST(LatencyHistogram, OneSampleIsExactAtEveryQuantile) {
  LatencyHistogram histogram;
  histogram.Record(absl::Microseconds(1234));
  EXPECT_EQ(histogram.Quantile(0.999), absl::Microseconds(1234));
}

TEST(LatencyHistogram, MaxIsExact) {
  LatencyHistogram histogram;
  histogram.Record(absl::Nanoseconds(1'234'567));
  histogram.Record(absl::Nanoseconds(2000));
  EXPECT_EQ(histogram.Max(), absl::Nanoseconds(1'234'567));
}

TEST(LatencyHistogram, MeanIsExact) {
  LatencyHistogram histogram;
  histogram.Record(absl::Microseconds(10));
  histogram.Record(absl::Microseconds(30));
  EXPECT_EQ(histogram.Mean(), absl::Microseconds(20));
}

TEST(LatencyHistogram, ShortLatencyCountsAsOneMicrosecond) {
  LatencyHistogram histogram;
  histogram.Record(absl::Nanoseconds(-5));
  EXPECT_EQ(histogram.Max(), absl::Microseconds(1));
}

TEST(LatencyHistogram, LongLatencyCountsAsThousandSeconds) {
  LatencyHistogram histogram;
  histogram.Record(absl::InfiniteDuration());
  EXPECT_EQ(histogram.Quantile(0.5), absl::Seconds(1000));
}

}  // namespace
}  // namespace factord::client
