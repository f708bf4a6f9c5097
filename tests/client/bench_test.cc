#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "client/factorctl/arrivals.h"
#include "client/factorctl/load.h"
#include "client/factorctl/load_report.h"
#include "tests/client/fake_factord.h"

namespace factord::client {
namespace {

using ::testing::Pair;
using ::testing::UnorderedElementsAre;

TEST(PoissonArrivals, HasTheRate) {
  constexpr uint64_t kSeed = 5;
  const std::vector<absl::Duration> arrivals =
      PoissonArrivals(1000, absl::ZeroDuration(), absl::Seconds(100), 0, kSeed);
  // 100000 expected, with a standard deviation of 316.
  EXPECT_NEAR(static_cast<double>(arrivals.size()), 1e5, 5 * 316) << "seed " << kSeed;
}

TEST(PoissonArrivals, IsInOrder) {
  const std::vector<absl::Duration> arrivals =
      PoissonArrivals(1000, absl::ZeroDuration(), absl::Seconds(1), 0, 6);
  EXPECT_TRUE(std::is_sorted(arrivals.begin(), arrivals.end()));
}

TEST(PoissonArrivals, SameSeedGivesTheSameTimes) {
  EXPECT_EQ(PoissonArrivals(10, absl::ZeroDuration(), absl::Seconds(9), 0, 7),
            PoissonArrivals(10, absl::ZeroDuration(), absl::Seconds(9), 0, 7));
}

TEST(PoissonArrivals, CountsOnlyAfterTheWarmUp) {
  const absl::Duration warmup = absl::Seconds(1);
  const std::vector<absl::Duration> arrivals =
      PoissonArrivals(1000, warmup, absl::InfiniteDuration(), 50, 8);
  EXPECT_EQ(std::count_if(arrivals.begin(), arrivals.end(),
                          [&](absl::Duration at) { return at >= warmup; }),
            50);
}

class LoadTest : public ::testing::Test {
 protected:
  LoadOptions Options() {
    LoadOptions options;
    options.client.target = fake_.target();
    options.client.retry.max_attempts = 1;
    options.shapes = {{3, 4, 2}};
    options.qr.set_r(true);
    options.clients = 2;
    options.warmup = absl::ZeroDuration();
    options.duration = absl::InfiniteDuration();
    options.requests = 20;
    return options;
  }

  FakeFactord fake_;
};

TEST_F(LoadTest, ClosedLoop_SendsExactlyTheRequests) {
  const absl::StatusOr<LoadResult> result = RunLoad(Options(), nullptr);

  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->succeeded, 20);
  EXPECT_EQ(result->matrices, 60);
  EXPECT_EQ(result->latency.count(), 20);
  EXPECT_EQ(fake_.unary_calls(), 20);
}

TEST_F(LoadTest, SumsWhatTheReportsSay) {
  const absl::StatusOr<LoadResult> result = RunLoad(Options(), nullptr);

  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->batch_matrices, 20 * 3);
  EXPECT_EQ(result->compute, absl::Milliseconds(20 * 4));
  EXPECT_EQ(result->sent_bytes, 20 * 3 * 8 * 4);
  EXPECT_EQ(result->received_bytes, 20 * 3 * 4 * 4);
}

TEST_F(LoadTest, OpenLoop_SendsExactlyTheRequests) {
  LoadOptions options = Options();
  options.rate = 1e5;

  const absl::StatusOr<LoadResult> result = RunLoad(options, nullptr);

  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->succeeded, 20);
}

// Coordinated omission: all arrive at once, so the last one's latency is nearly the whole run's
// length, though each request by itself takes a small part of it.
TEST_F(LoadTest, OpenLoop_LatencyCountsFromTheIntendedStart) {
  LoadOptions options = Options();
  options.rate = 1e9;
  options.clients = 1;

  const absl::StatusOr<LoadResult> result = RunLoad(options, nullptr);

  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_GT(result->latency.Max(), 0.9 * result->elapsed);
}

TEST_F(LoadTest, ErrorsAreCountedByCode) {
  google::rpc::Status failure;
  failure.set_code(static_cast<int>(absl::StatusCode::kUnavailable));
  fake_.FailNext(failure, 3);

  const absl::StatusOr<LoadResult> result = RunLoad(Options(), nullptr);

  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->succeeded, 17);
  EXPECT_THAT(result->errors, UnorderedElementsAre(Pair(absl::StatusCode::kUnavailable, 3)));
}

TEST_F(LoadTest, OwnChannels_WorkToo) {
  LoadOptions options = Options();
  options.own_channels = true;
  EXPECT_EQ(RunLoad(options, nullptr)->succeeded, 20);
}

TEST_F(LoadTest, NoServer_IsAnError) {
  LoadOptions options = Options();
  options.client.target = "unix:/nowhere/factord.socket";
  EXPECT_TRUE(absl::IsUnavailable(RunLoad(options, nullptr).status()));
}

// A result with round numbers.
LoadResult Result() {
  LoadResult result;
  result.latency.Record(absl::Milliseconds(2));
  result.elapsed = absl::Seconds(4);
  result.succeeded = 8;
  result.errors[absl::StatusCode::kUnavailable] = 3;
  result.unsent = 1;
  result.matrices = 80;
  result.matrices_not_ok = 2;
  result.flops = 8e9;
  result.sent_bytes = 4e6;
  result.received_bytes = 2e6;
  result.batch_matrices = 80;
  result.queue = absl::Microseconds(80);
  result.compute = absl::Milliseconds(8);
  return result;
}

LoadOptions ReportOptions() {
  LoadOptions options;
  options.shapes = {{10, 4, 2}, {3, 3}};
  options.rate = 2.5;
  return options;
}

TEST(LoadReport, TextIsGolden) {
  EXPECT_EQ(
      FormatLoad(ReportOptions(), Result()),
      "shapes     10x4x2,3x3 f32\n"
      "load       open loop, 2.5 requests/s, 8 clients, one connection\n"
      "time       4 s after 2 s of warm-up, seed 1\n"
      "requests   8, 2/s; 3 failed, 1 unsent\n"
      "matrices   80, 20/s; 2 not plainly OK\n"
      "rate       2 GFlop/s, 1 MB/s sent, 0.5 MB/s received\n"
      "latency    p50 2 ms, p90 2 ms, p99 2 ms, p99.9 2 ms, max 2 ms (from the intended start)\n"
      "server     mean batch 10 matrices, mean queue 10 us, mean compute 1 ms\n"
      "error      UNAVAILABLE: 3\n");
}

TEST(LoadReport, JsonIsGolden) {
  EXPECT_EQ(LoadToJson(ReportOptions(), Result()), R"({
  "shapes": [
    "10x4x2",
    "3x3"
  ],
  "dtype": "f32",
  "rate": 2.5,
  "clients": 8,
  "own_channels": false,
  "seed": 1,
  "elapsed_seconds": 4,
  "requests": 8,
  "failed": 3,
  "unsent": 1,
  "matrices": 80,
  "matrices_not_ok": 2,
  "requests_per_second": 2,
  "matrices_per_second": 20,
  "gflops": 2,
  "sent_mb_per_second": 1,
  "received_mb_per_second": 0.5,
  "latency_us": {
    "mean": 2000,
    "p50": 2000,
    "p90": 2000,
    "p99": 2000,
    "p99.9": 2000,
    "max": 2000
  },
  "mean_batch_matrices": 10,
  "mean_queue_us": 10,
  "mean_compute_us": 1000,
  "errors": {
    "UNAVAILABLE": 3
  }
}
)");
}

TEST(LoadReport, NothingSucceeded_HasNoDivisionByZero) {
  EXPECT_THAT(FormatLoad(ReportOptions(), LoadResult()),
              ::testing::HasSubstr("requests   0, 0/s; 0 failed"));
}

}  // namespace
}  // namespace factord::client
