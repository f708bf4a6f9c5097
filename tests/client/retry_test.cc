#include "client/retry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "client/grpc_status.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace factord::client {
namespace {

using ::testing::ElementsAre;

// A clock that only sleeping moves.
class FakeTime {
 public:
  RetryEnvironment Environment(double uniform) {
    return {
        .now = [this] { return now_; },
        .sleep =
            [this](absl::Duration duration) {
              sleeps_.push_back(duration);
              now_ += duration;
            },
        .uniform = [uniform] { return uniform; },
    };
  }

  absl::Time now_ = absl::UnixEpoch();
  std::vector<absl::Duration> sleeps_;
};

constexpr RetryPolicy kPolicy = {.max_attempts = 5,
                                 .initial_backoff = absl::Milliseconds(100),
                                 .max_backoff = absl::Milliseconds(300)};

// Fails `failures` times with `status`, then succeeds.
struct Attempts {
  int failures;
  absl::Status status = absl::UnavailableError("busy");
  int count = 0;

  absl::Status operator()() { return ++count <= failures ? status : absl::OkStatus(); }
};

absl::Status RunAttempts(const RetryPolicy& policy, absl::Time deadline,
                         const RetryEnvironment& environment, Attempts* attempts) {
  return RunWithRetries(policy, deadline, environment, [&] { return (*attempts)(); });
}

absl::Status UnavailableFor(int seconds) {
  google::rpc::RetryInfo info;
  info.mutable_retry_delay()->set_seconds(seconds);
  google::rpc::Status status;
  status.set_code(static_cast<int>(absl::StatusCode::kUnavailable));
  status.add_details()->PackFrom(info);
  return ToAbslStatus(status);
}

TEST(Retry, SuccessIsNotRetried) {
  FakeTime time;
  Attempts attempts{0};
  EXPECT_TRUE(RunAttempts(kPolicy, absl::InfiniteFuture(), time.Environment(0), &attempts).ok());
  EXPECT_EQ(attempts.count, 1);
}

TEST(Retry, UnavailableIsRetriedUntilItSucceeds) {
  FakeTime time;
  Attempts attempts{2};
  EXPECT_TRUE(RunAttempts(kPolicy, absl::InfiniteFuture(), time.Environment(0), &attempts).ok());
  EXPECT_EQ(attempts.count, 3);
}

TEST(Retry, OtherCodesAreNotRetried) {
  for (int code = 1; code <= 16; ++code) {
    if (code == static_cast<int>(absl::StatusCode::kUnavailable)) continue;
    FakeTime time;
    Attempts attempts{9, absl::Status(static_cast<absl::StatusCode>(code), "no")};
    EXPECT_EQ(RunAttempts(kPolicy, absl::InfiniteFuture(), time.Environment(0), &attempts),
              attempts.status);
    EXPECT_EQ(attempts.count, 1) << "code " << code;
  }
}

TEST(Retry, GivesUpAfterMaxAttempts) {
  FakeTime time;
  Attempts attempts{9};
  EXPECT_EQ(RunAttempts(kPolicy, absl::InfiniteFuture(), time.Environment(0), &attempts),
            attempts.status);
  EXPECT_EQ(attempts.count, 5);
}

TEST(Retry, BackoffDoublesUpToItsMaximum) {
  FakeTime time;
  Attempts attempts{9};
  RunAttempts(kPolicy, absl::InfiniteFuture(), time.Environment(0), &attempts).IgnoreError();
  EXPECT_THAT(time.sleeps_, ElementsAre(absl::Milliseconds(100), absl::Milliseconds(200),
                                        absl::Milliseconds(300), absl::Milliseconds(300)));
}

TEST(Retry, JitterTakesUpToHalf) {
  FakeTime time;
  Attempts attempts{1};
  RunAttempts(kPolicy, absl::InfiniteFuture(), time.Environment(0.5), &attempts).IgnoreError();
  EXPECT_THAT(time.sleeps_, ElementsAre(absl::Milliseconds(75)));
}

TEST(Retry, WaitsAtLeastAsLongAsTheServerAsks) {
  FakeTime time;
  Attempts attempts{1, UnavailableFor(7)};
  RunAttempts(kPolicy, absl::InfiniteFuture(), time.Environment(0), &attempts).IgnoreError();
  EXPECT_THAT(time.sleeps_, ElementsAre(absl::Milliseconds(7025)));
}

TEST(Retry, DoesNotWaitPastTheDeadline) {
  FakeTime time;
  Attempts attempts{9};
  const absl::Time deadline = time.now_ + absl::Milliseconds(250);
  EXPECT_EQ(RunAttempts(kPolicy, deadline, time.Environment(0), &attempts), attempts.status);
  EXPECT_THAT(time.sleeps_, ElementsAre(absl::Milliseconds(100)));
}

TEST(Retry, OneAttemptMeansNoRetry) {
  FakeTime time;
  Attempts attempts{9};
  RetryPolicy policy = kPolicy;
  policy.max_attempts = 1;
  EXPECT_FALSE(RunAttempts(policy, absl::InfiniteFuture(), time.Environment(0), &attempts).ok());
  EXPECT_EQ(attempts.count, 1);
}

TEST(RetryEnvironment, RealUniformIsInRange) {
  const RetryEnvironment environment = RetryEnvironment::Real();
  for (int i = 0; i < 1000; ++i) {
    const double value = environment.uniform();
    EXPECT_GE(value, 0);
    EXPECT_LT(value, 1);
  }
}

}  // namespace
}  // namespace factord::client
