// The rules of the batcher, one at a time.
#include "server/batching/batcher.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/errors.h"
#include "tests/server/batching/make_job.h"

namespace factord {
namespace {

using absl::Milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::int64_t> TakeIds(Batcher& batcher, absl::Time now) {
  const auto batch = batcher.TakeReady(now);
  return batch ? IdsOf(*batch) : std::vector<std::int64_t>{};
}

// ---- what goes together

TEST(Batcher, TakesALoneJobAtOnce) {
  Batcher batcher({});
  batcher.Add(MakeJob({.id = 1}), kStart);

  const auto batch = batcher.TakeReady(kStart + Milliseconds(3));

  ASSERT_TRUE(batch.has_value());
  EXPECT_THAT(IdsOf(*batch), ElementsAre(1));
  EXPECT_EQ(batch->reason, CloseReason::kIdle);
  EXPECT_EQ(batch->jobs[0]->queued, kStart);
  EXPECT_EQ(batch->jobs[0]->times.queue, Milliseconds(3));
  EXPECT_FALSE(batcher.TakeReady(kStart + Milliseconds(3)).has_value());
}

TEST(Batcher, KnowsWhichJobHasWaitedLongest) {
  Batcher batcher({});
  EXPECT_EQ(batcher.oldest(), absl::InfiniteFuture());

  batcher.Add(MakeJob({.id = 1, .size = 64, .priority = Priority::kLow}), kStart);
  batcher.Add(MakeJob({.id = 2}), kStart + Milliseconds(5));
  EXPECT_EQ(batcher.oldest(), kStart);
  EXPECT_THAT(TakeIds(batcher, kStart + Milliseconds(6)), ElementsAre(2));
  EXPECT_EQ(batcher.oldest(), kStart);
  batcher.Add(MakeJob({.id = 3}), kStart + Milliseconds(7));
  EXPECT_THAT(TakeIds(batcher, kStart + Milliseconds(8)), ElementsAre(3));
  EXPECT_THAT(TakeIds(batcher, kStart + Milliseconds(9)), ElementsAre(1));

  EXPECT_EQ(batcher.oldest(), absl::InfiniteFuture());
}

TEST(Batcher, BatchesOneBucketOnly) {
  Batcher batcher({});
  batcher.Add(MakeJob({.id = 1, .size = 32}), kStart);
  batcher.Add(MakeJob({.id = 2, .size = 64}), kStart);
  batcher.Add(MakeJob({.id = 3, .size = 31}), kStart);

  EXPECT_THAT(TakeIds(batcher, kStart), ElementsAre(1, 3));
  EXPECT_THAT(TakeIds(batcher, kStart), ElementsAre(2));
}

TEST(Batcher, ClosesWhenFullByMatrices) {
  Batcher batcher({.max_batch_matrices = 10});
  for (int id = 1; id <= 3; ++id) batcher.Add(MakeJob({.id = id, .count = 5}), kStart);

  const auto batch = batcher.TakeReady(kStart);

  EXPECT_THAT(IdsOf(*batch), ElementsAre(1, 2));
  EXPECT_EQ(batch->reason, CloseReason::kFull);
}

TEST(Batcher, ClosesWhenFullByBytes) {
  const std::int64_t bytes = MakeJob({})->bytes();
  Batcher batcher({.max_batch_bytes = 3 * bytes - 1});
  for (int id = 1; id <= 3; ++id) batcher.Add(MakeJob({.id = id}), kStart);

  const auto batch = batcher.TakeReady(kStart);

  EXPECT_THAT(IdsOf(*batch), ElementsAre(1, 2));
  EXPECT_EQ(batch->reason, CloseReason::kFull);
}

TEST(Batcher, ClosesWhenFullByPredictedCost) {
  Batcher batcher({.max_batch_cost = Milliseconds(5)});
  for (int id = 1; id <= 3; ++id) {
    batcher.Add(MakeJob({.id = id, .predicted = Milliseconds(2)}), kStart);
  }

  const auto batch = batcher.TakeReady(kStart);

  EXPECT_THAT(IdsOf(*batch), ElementsAre(1, 2));
  EXPECT_EQ(batch->reason, CloseReason::kFull);
}

TEST(Batcher, RunsAJobThatExceedsEveryCapAlone) {
  Batcher batcher({.max_batch_matrices = 0, .max_batch_bytes = 0, .max_batch_cost = {}});
  batcher.Add(MakeJob({.id = 1}), kStart);
  batcher.Add(MakeJob({.id = 2}), kStart);

  EXPECT_THAT(TakeIds(batcher, kStart), ElementsAre(1));
  EXPECT_THAT(TakeIds(batcher, kStart), ElementsAre(2));
}

TEST(Batcher, FillsABatchFairlyOverClients) {
  Batcher batcher({.max_batch_matrices = 4});
  for (int id = 1; id <= 4; ++id) batcher.Add(MakeJob({.id = id, .client = "flood"}), kStart);
  for (int id = 5; id <= 8; ++id) batcher.Add(MakeJob({.id = id, .client = "other"}), kStart);

  EXPECT_THAT(TakeIds(batcher, kStart), ElementsAre(1, 5, 2, 6));
  EXPECT_THAT(TakeIds(batcher, kStart), ElementsAre(3, 7, 4, 8));
}

// ---- order

TEST(Batcher, TakesNormalBeforeLow) {
  Batcher batcher({});
  batcher.Add(MakeJob({.id = 1, .size = 256, .priority = Priority::kLow}), kStart);
  batcher.Add(MakeJob({.id = 2, .size = 8}), kStart);

  EXPECT_THAT(TakeIds(batcher, kStart), ElementsAre(2));
  EXPECT_THAT(TakeIds(batcher, kStart), ElementsAre(1));
}

TEST(Batcher, FillsWithLowOnlyWhileNoNormalJobWaits) {
  Batcher batcher({});
  batcher.Add(MakeJob({.id = 1}), kStart);
  batcher.Add(MakeJob({.id = 2, .priority = Priority::kLow}), kStart);
  batcher.Add(MakeJob({.id = 3, .size = 64}), kStart);
  EXPECT_THAT(TakeIds(batcher, kStart), ElementsAre(1));
  EXPECT_THAT(TakeIds(batcher, kStart), ElementsAre(3));

  batcher.Add(MakeJob({.id = 4}), kStart);
  EXPECT_THAT(TakeIds(batcher, kStart), ElementsAre(4, 2));
}

TEST(Batcher, LowCountsAsNormalOnceAged) {
  Batcher batcher({.low_priority_ageing = Milliseconds(100)});
  batcher.Add(MakeJob({.id = 1, .size = 256, .priority = Priority::kLow}), kStart);
  batcher.Add(MakeJob({.id = 2, .size = 8}), kStart + Milliseconds(1));

  EXPECT_THAT(TakeIds(batcher, kStart + Milliseconds(100)), ElementsAre(1));
}

TEST(Batcher, TakesUrgentJobsByDeadlineBeforeOthers) {
  Batcher batcher({.deadline_slack = Milliseconds(10)});
  const auto add = [&](int id, int size, absl::Duration deadline) {
    batcher.Add(MakeJob({.id = id, .size = size, .deadline = kStart + deadline}), kStart);
  };
  add(1, 8, absl::InfiniteDuration());
  add(2, 16, Milliseconds(60));
  add(3, 32, Milliseconds(50));
  add(4, 64, absl::Seconds(9));

  // The latest safe start of job 2 is 60 - 1 - 10 ms.
  const absl::Time now = kStart + Milliseconds(49);

  const auto batch = batcher.TakeReady(now);
  EXPECT_THAT(IdsOf(*batch), ElementsAre(3));
  EXPECT_EQ(batch->reason, CloseReason::kDeadline);
  EXPECT_THAT(TakeIds(batcher, now), ElementsAre(2));
  const auto third = batcher.TakeReady(now);
  EXPECT_THAT(IdsOf(*third), ElementsAre(1));
  EXPECT_EQ(third->reason, CloseReason::kIdle);
}

TEST(Batcher, UrgentLowDoesNotOvertakeNormal) {
  Batcher batcher({});
  batcher.Add(
      MakeJob(
          {.id = 1, .size = 8, .priority = Priority::kLow, .deadline = kStart + Milliseconds(5)}),
      kStart);
  batcher.Add(MakeJob({.id = 2, .size = 16}), kStart);

  EXPECT_THAT(TakeIds(batcher, kStart), ElementsAre(2));
}

// ---- delay and drain

TEST(Batcher, WaitsForCompanyUpToTheDelay) {
  Batcher batcher({.max_delay = Milliseconds(5)});
  batcher.Add(MakeJob({.id = 1}), kStart);
  batcher.Add(MakeJob({.id = 2}), kStart + Milliseconds(4));

  EXPECT_FALSE(batcher.TakeReady(kStart + Milliseconds(4)).has_value());
  EXPECT_EQ(batcher.NextEvent(), kStart + Milliseconds(5));

  const auto batch = batcher.TakeReady(kStart + Milliseconds(5));
  ASSERT_TRUE(batch.has_value());
  EXPECT_THAT(IdsOf(*batch), ElementsAre(1, 2));
  EXPECT_EQ(batch->reason, CloseReason::kDelay);
}

TEST(Batcher, AFullBatchDoesNotWait) {
  Batcher batcher({.max_batch_matrices = 2, .max_delay = Milliseconds(5)});
  batcher.Add(MakeJob({.id = 1}), kStart);
  EXPECT_FALSE(batcher.has_ready());
  batcher.Add(MakeJob({.id = 2}), kStart);
  EXPECT_TRUE(batcher.has_ready());

  EXPECT_EQ(batcher.TakeReady(kStart)->reason, CloseReason::kFull);
}

TEST(Batcher, AnUrgentJobDoesNotWait) {
  Batcher batcher({.max_delay = absl::Seconds(5), .deadline_slack = Milliseconds(10)});
  batcher.Add(MakeJob({.id = 1, .deadline = kStart + Milliseconds(100)}), kStart);

  EXPECT_FALSE(batcher.TakeReady(kStart).has_value());
  EXPECT_EQ(batcher.NextEvent(), kStart + Milliseconds(89));
  EXPECT_EQ(batcher.TakeReady(kStart + Milliseconds(89))->reason, CloseReason::kDeadline);
}

TEST(Batcher, DrainingEndsTheWait) {
  Batcher batcher({.max_delay = absl::Seconds(5)});
  batcher.Add(MakeJob({.id = 1}), kStart);

  batcher.BeginDrain();

  EXPECT_EQ(batcher.TakeReady(kStart)->reason, CloseReason::kDrain);
}

// ---- the dead

TEST(Batcher, DropsExpiredJobs) {
  Batcher batcher({});
  batcher.Add(MakeJob({.id = 1, .deadline = kStart + Milliseconds(10)}), kStart);
  EXPECT_EQ(batcher.NextEvent(), kStart + Milliseconds(10));
  EXPECT_TRUE(batcher.TakeDead(kStart + Milliseconds(9)).empty());

  EXPECT_FALSE(batcher.TakeReady(kStart + Milliseconds(10)).has_value());
  const auto dead = batcher.TakeDead(kStart + Milliseconds(10));

  ASSERT_EQ(dead.size(), 1u);
  EXPECT_EQ(dead[0].why.reason, Reject::kExpired);
  EXPECT_TRUE(absl::IsDeadlineExceeded(dead[0].why.status));
  EXPECT_EQ(batcher.queued().jobs, 0);
  EXPECT_EQ(batcher.queued().bytes, 0);
}

TEST(Batcher, DropsHopelessJobsOnlyWhereThePredictionWasMeasured) {
  Batcher batcher({});
  const auto add = [&](int id, bool measured) {
    batcher.Add(MakeJob({.id = id,
                         .predicted = Milliseconds(6),
                         .measured = measured,
                         .deadline = kStart + Milliseconds(10)}),
                kStart);
  };
  add(1, true);
  add(2, false);

  EXPECT_TRUE(batcher.TakeDead(kStart + Milliseconds(4)).empty());  // just in time
  const auto dead = batcher.TakeDead(kStart + Milliseconds(5));

  ASSERT_EQ(dead.size(), 1u);
  EXPECT_EQ(dead[0].job->first, 1);
  EXPECT_EQ(dead[0].why.reason, Reject::kHopeless);
  EXPECT_TRUE(absl::IsDeadlineExceeded(dead[0].why.status));
  EXPECT_THAT(std::string(dead[0].why.status.message()), HasSubstr("in 5ms"));
  EXPECT_THAT(std::string(dead[0].why.status.message()), HasSubstr("takes 6ms"));
  EXPECT_THAT(TakeIds(batcher, kStart + Milliseconds(5)), ElementsAre(2));
}

TEST(Batcher, DropsCancelledJobsWhenABatchForms) {
  Batcher batcher({});
  auto cancelled = std::make_shared<std::atomic<bool>>(false);
  batcher.Add(MakeJob({.id = 1, .cancelled = cancelled}), kStart);
  batcher.Add(MakeJob({.id = 2}), kStart);
  batcher.Add(MakeJob({.id = 3, .cancelled = cancelled}), kStart);
  *cancelled = true;

  EXPECT_THAT(TakeIds(batcher, kStart), ElementsAre(2));
  const auto dead = batcher.TakeDead(kStart);

  ASSERT_EQ(dead.size(), 2u);
  EXPECT_EQ(dead[0].why.reason, Reject::kCancelled);
  EXPECT_TRUE(absl::IsCancelled(dead[0].why.status));
}

TEST(Batcher, SweepFindsCancelledJobsInSteps) {
  Batcher batcher({});
  auto cancelled = std::make_shared<std::atomic<bool>>(false);
  constexpr int kJobs = 3 * Batcher::kSweep / 2;
  for (int id = 0; id < kJobs; ++id) {
    batcher.Add(MakeJob({.id = id, .cancelled = id % 2 == 0 ? cancelled : nullptr}), kStart);
  }
  *cancelled = true;

  const auto next = batcher.DropCancelled(0);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(batcher.TakeDead(kStart).size(), Batcher::kSweep / 2u);
  EXPECT_FALSE(batcher.DropCancelled(*next).has_value());
  EXPECT_EQ(batcher.TakeDead(kStart).size(), Batcher::kSweep / 4u);
  EXPECT_EQ(batcher.queued().jobs, kJobs / 2);
}

TEST(Batcher, TakeAllReturnsEveryJob) {
  Batcher batcher({});
  batcher.Add(MakeJob({.id = 1, .deadline = kStart + Milliseconds(1)}), kStart);
  batcher.Add(MakeJob({.id = 2}), kStart);
  EXPECT_TRUE(batcher.TakeReady(kStart + Milliseconds(2)).has_value());
  batcher.Add(MakeJob({.id = 3}), kStart);

  const auto all = batcher.TakeAll({Reject::kDraining, absl::UnavailableError("stopping")});

  ASSERT_EQ(all.size(), 2u);
  EXPECT_TRUE(absl::IsDeadlineExceeded(all[0].why.status));
  EXPECT_TRUE(absl::IsUnavailable(all[1].why.status));
  EXPECT_EQ(batcher.queued().jobs, 0);
  EXPECT_EQ(batcher.queued().bytes, 0);
  EXPECT_EQ(batcher.queued().cost, absl::ZeroDuration());
  EXPECT_EQ(batcher.live_buckets(), 0u);
}

// ---- admission

TEST(Batcher, RefusesWhenFullByJobsWithBothNumbersAndARetryDelay) {
  Batcher batcher({.max_queued_jobs = 2, .lanes = 2});
  for (int id = 1; id <= 2; ++id) {
    batcher.Add(MakeJob({.id = id, .predicted = absl::Seconds(4)}), kStart);
  }

  const auto refusal = batcher.Refuse(OneJob({}), kStart);

  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, Reject::kQueueFull);
  EXPECT_TRUE(absl::IsUnavailable(refusal->status));
  EXPECT_EQ(ReasonOf(refusal->status), "QUEUE_FULL");
  EXPECT_THAT(std::string(refusal->status.message()), HasSubstr("2 of 2 jobs"));
  // Half of 8 s on two lanes.
  EXPECT_EQ(RetryDelayOf(refusal->status), absl::Seconds(2));
}

TEST(Batcher, RefusesWhenFullByBytes) {
  const std::int64_t bytes = MakeJob({})->bytes();
  Batcher batcher({.max_queued_bytes = 2 * bytes - 1});
  EXPECT_FALSE(batcher.Refuse(OneJob({}), kStart).has_value());
  batcher.Add(MakeJob({}), kStart);

  const auto refusal = batcher.Refuse(OneJob({}), kStart);

  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(ReasonOf(refusal->status), "QUEUE_FULL");
  EXPECT_THAT(std::string(refusal->status.message()), HasSubstr("bytes"));
}

TEST(Batcher, RefusesForGoodWhatIsLargerThanTheQueue) {
  Batcher batcher({.max_queued_jobs = 1});
  auto jobs = OneJob({});
  jobs.push_back(MakeJob({}));

  const auto refusal = batcher.Refuse(jobs, kStart);

  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, Reject::kTooLarge);
  EXPECT_TRUE(absl::IsResourceExhausted(refusal->status));
}

TEST(Batcher, RefusesTheDeadAtAdmission) {
  const Batcher batcher({});
  auto cancelled = std::make_shared<std::atomic<bool>>(true);

  EXPECT_EQ(batcher.Refuse(OneJob({.deadline = kStart}), kStart)->reason, Reject::kExpired);
  EXPECT_EQ(batcher.Refuse(OneJob({.cancelled = cancelled}), kStart)->reason, Reject::kCancelled);
  const JobTraits late = {
      .predicted = Milliseconds(6), .measured = true, .deadline = kStart + Milliseconds(5)};
  EXPECT_EQ(batcher.Refuse(OneJob(late), kStart)->reason, Reject::kHopeless);
}

TEST(Batcher, CanBeMovedWithJobsInside) {
  Batcher first({});
  first.Add(MakeJob({.id = 1, .deadline = kStart + Milliseconds(10)}), kStart);
  first.Add(MakeJob({.id = 2}), kStart);

  Batcher second = std::move(first);

  EXPECT_THAT(TakeIds(second, kStart + Milliseconds(1)), ElementsAre(1, 2));
}

// ---- what it tells

TEST(Batcher, DescribesWhatWaitsInEachBucket) {
  Batcher batcher({});
  batcher.Add(MakeJob({.id = 1, .size = 8, .count = 3}), kStart);
  batcher.Add(MakeJob({.id = 2, .size = 32}), kStart + Milliseconds(1));
  batcher.Add(MakeJob({.id = 3, .client = "bob", .size = 8, .count = 4}), kStart + Milliseconds(2));

  std::vector<BucketSnapshot> buckets;
  batcher.Describe(Backend::kGpu, buckets);

  ASSERT_EQ(buckets.size(), 2);
  const BucketSnapshot& small = buckets[buckets[0].bucket.spec().m == 8 ? 0 : 1];
  EXPECT_EQ(small.backend, Backend::kGpu);
  EXPECT_EQ(small.jobs, 2);
  EXPECT_EQ(small.matrices, 7);
  EXPECT_EQ(small.bytes, 7 * 3 * 8 * 8 * 4);
  EXPECT_EQ(small.oldest, kStart);
}

TEST(Batcher, TheOldestOfABucketIsOfThoseStillThere) {
  Batcher batcher({});
  auto cancelled = std::make_shared<std::atomic<bool>>(false);
  batcher.Add(MakeJob({.id = 1, .cancelled = cancelled}), kStart);
  batcher.Add(MakeJob({.id = 2, .client = "bob"}), kStart + Milliseconds(5));
  cancelled->store(true);
  batcher.DropCancelled(0);

  std::vector<BucketSnapshot> buckets;
  batcher.Describe(Backend::kCpu, buckets);

  ASSERT_EQ(buckets.size(), 1);
  EXPECT_EQ(buckets[0].jobs, 1);
  EXPECT_EQ(buckets[0].oldest, kStart + Milliseconds(5));

  TakeIds(batcher, kStart + Milliseconds(6));
  buckets.clear();
  batcher.Describe(Backend::kCpu, buckets);
  EXPECT_TRUE(buckets.empty());
}

}  // namespace
}  // namespace factord
