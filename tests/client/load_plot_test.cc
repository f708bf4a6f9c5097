#include "client/factorctl/load_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/factorctl/load_report.h"

namespace factord::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// `requests` in a second, each of one matrix and `latency`.
LoadResult RunOf(int requests, absl::Duration latency) {
  LoadResult result;
  for (int i = 0; i < requests; ++i) result.latency.Record(latency);
  result.elapsed = absl::Seconds(1);
  result.succeeded = requests;
  result.matrices = requests;
  result.flops = 1e9 * requests;
  result.batch_matrices = requests;
  return result;
}

LoadOptions Options() {
  LoadOptions options;
  options.shapes = {{8, 8}};
  return options;
}

TEST(PlotSweep, ClientsAndRates_LatencyAgainstLoad) {
  const std::string svg =
      PlotSweep(Options(), {.option = SweptOption::kClients, .values = {1, 2}},
                {RunOf(10, absl::Milliseconds(2)), RunOf(15, absl::Milliseconds(3))});
  EXPECT_THAT(svg, HasSubstr("Latency against load"));
  EXPECT_THAT(svg, HasSubstr("<title>clients 2: p99 3 ms</title>"));
}

TEST(PlotSweep, Batches_ThroughputAgainstBatch) {
  const std::string svg = PlotSweep(Options(), {.option = SweptOption::kBatch, .values = {64}},
                                    {RunOf(10, absl::Milliseconds(2))});
  EXPECT_THAT(svg, HasSubstr("Throughput against batch size"));
  EXPECT_THAT(svg, HasSubstr("<title>batch 64: 10 GFlop/s, 10 matrices/s</title>"));
}

TEST(PlotSweep, ARunWithoutSuccessHasNoPoint) {
  const std::string svg =
      PlotSweep(Options(), {.option = SweptOption::kRate, .values = {1, 7}},
                {RunOf(10, absl::Milliseconds(2)), RunOf(0, absl::ZeroDuration())});
  EXPECT_THAT(svg, Not(HasSubstr("rate 7")));
}

TEST(PlotLoad, LatencyAtEachQuantile) {
  const std::string svg = PlotLoad(Options(), RunOf(1000, absl::Milliseconds(2)));
  EXPECT_THAT(svg, HasSubstr("<title>50 %: 2 ms</title>"));
  EXPECT_THAT(svg, HasSubstr(">99.9 %</text>"));
  EXPECT_THAT(svg, Not(HasSubstr(">99.99 %</text>")));  // 1000 requests do not show it
}

TEST(FormatSweep, IsGolden) {
  EXPECT_EQ(
      FormatSweep(Options(), {.option = SweptOption::kBatch, .values = {1, 64}},
                  {RunOf(10, absl::Milliseconds(2)), RunOf(20, absl::Milliseconds(4))}),
      "shapes     8x8 f32\n\n"
      "     batch   requests/s   matrices/s    GFlop/s        p50        p99      batch   failed\n"
      "         1           10           10         10       2 ms       2 ms          1        0\n"
      "        64           20           20         20       4 ms       4 ms          1        "
      "0\n");
}

TEST(SweepToJson, HasARunForEachValue) {
  const std::string json =
      SweepToJson(Options(), {.option = SweptOption::kBatch, .values = {1, 64}},
                  {RunOf(10, absl::Milliseconds(2)), RunOf(20, absl::Milliseconds(4))});
  EXPECT_THAT(json, HasSubstr("\"sweep\": \"batch\""));
  EXPECT_THAT(json, HasSubstr("\"64x8x8\""));
}

}  // namespace
}  // namespace factord::client
