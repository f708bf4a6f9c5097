#include "server/rpc/refusal_log.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/core/errors.h"

namespace factord {
namespace {

const absl::Time kNow = absl::UnixEpoch() + absl::Hours(1);

TEST(RefusalLog, KeepsTheNewest) {
  RefusalLog log;
  for (int i = 0; i < 70; ++i) {
    log.Add(Rpc::kSolve, absl::InvalidArgumentError(absl::StrCat(i)), kNow + absl::Seconds(i));
  }
  const auto recent = log.Recent();
  ASSERT_EQ(recent.size(), RefusalLog::kKept);
  EXPECT_EQ(recent.front().message, "69");
  EXPECT_EQ(recent.front().time, kNow + absl::Seconds(69));
  EXPECT_EQ(recent.front().rpc, Rpc::kSolve);
  EXPECT_EQ(recent.back().message, "20");
}

TEST(RefusalLog, NamesReasonsAsTheMetricsDo) {
  const auto reason_of = [](const absl::Status& status) {
    RefusalLog log;
    log.Add(Rpc::kFactorize, status, kNow);
    return log.Recent().front().reason;
  };
  EXPECT_EQ(reason_of(InvalidField("a", "is not set")), "invalid");
  EXPECT_EQ(reason_of(absl::ResourceExhaustedError("")), "too_large");
  EXPECT_EQ(reason_of(Overloaded("QUEUE_FULL", "", absl::Seconds(1))), "queue_full");
  EXPECT_EQ(reason_of(Overloaded("MEMORY_BUDGET_FULL", "", absl::Seconds(1))), "budget_full");
  EXPECT_EQ(reason_of(Overloaded("DRAINING", "", absl::Seconds(1))), "draining");
  EXPECT_EQ(reason_of(absl::FailedPreconditionError("")), "no_backend");
  EXPECT_EQ(reason_of(absl::CancelledError()), "cancelled");
  EXPECT_EQ(reason_of(absl::DeadlineExceededError("")), "deadline");
  EXPECT_EQ(reason_of(absl::InternalError("")), "internal");
}

TEST(RefusalLog, ForgetsSuccessAndCutsLongMessages) {
  RefusalLog log;
  log.Add(Rpc::kFactorize, absl::OkStatus(), kNow);
  EXPECT_TRUE(log.Recent().empty());
  log.Add(Rpc::kFactorize, absl::InvalidArgumentError(std::string(5000, 'x')), kNow);
  EXPECT_EQ(log.Recent().front().message.size(), RefusalLog::kMaxMessageBytes);
}

}  // namespace
}  // namespace factord
