// Random sequences of events against what must hold of any scheduler with the batcher's contract.
// Time is an argument; a failing run prints its seed.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/batching/batcher.h"
#include "tests/server/batching/make_job.h"

namespace factord {
namespace {

using absl::Microseconds;
using absl::Milliseconds;

// What the test knows of a job that is in the batcher.
struct Known {
  std::int64_t id;  // by arrival
  std::string client;
  Bucket bucket;
  Priority priority;
  absl::Time queued, deadline, hopeless_after, safe_start;
  std::shared_ptr<std::atomic<bool>> cancelled;
};

class Model {
 public:
  Model(const BatcherOptions& options, std::uint64_t seed)
      : options_(options), batcher_(options), random_(seed) {}

  void Run(int events) {
    for (int i = 0; i < events && !testing::Test::HasFatalFailure(); ++i) {
      now_ += Microseconds(Pick(400));
      const auto dice = Pick(100);
      if (dice < 60) {
        Arrive();
      } else if (dice < 90) {
        Lane();
      } else if (dice < 95) {
        Reap();
      } else {
        CancelOne();
      }
      CheckTotals();
    }
    Drain();
  }

 private:
  std::int64_t Pick(std::int64_t below) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(below));
  }

  std::unique_ptr<Job> RandomJob() {
    static constexpr std::int64_t kSizes[] = {0, 3, 8, 31, 32, 64};
    JobTraits traits;
    traits.id = next_id_;
    traits.client = absl::StrCat("client ", Pick(5));
    traits.size = kSizes[Pick(6)];
    traits.count = 1 + Pick(6);
    traits.predicted = Microseconds(Pick(3000));
    traits.measured = Pick(2) == 0;
    traits.priority = Pick(4) == 0 ? Priority::kLow : Priority::kNormal;
    if (Pick(2) == 0) traits.deadline = now_ + Milliseconds(Pick(60));
    traits.cancelled = std::make_shared<std::atomic<bool>>(Pick(50) == 0);
    return MakeJob(traits);
  }

  void Arrive() {
    std::vector<std::unique_ptr<Job>> jobs;
    jobs.push_back(RandomJob());
    Job& job = *jobs[0];
    const std::int64_t queued = batcher_.queued().jobs, bytes = batcher_.queued().bytes;
    const auto refusal = batcher_.Refuse(jobs, now_);
    const bool full =
        queued + 1 > options_.max_queued_jobs || bytes + job.bytes() > options_.max_queued_bytes;
    const bool dead = job.is_cancelled() || job.deadline <= now_ ||
                      (job.predicted_measured && now_ + job.predicted > job.deadline);
    ASSERT_EQ(refusal.has_value(), full || dead);
    if (refusal) return;
    auto cancelled = std::make_shared<std::atomic<bool>>(false);
    job.cancelled = cancelled;
    known_[next_id_] = {next_id_,
                        job.client,
                        BucketOf(job.spec),
                        job.priority,
                        now_,
                        job.deadline,
                        job.predicted_measured ? job.deadline - job.predicted : job.deadline,
                        job.deadline - job.predicted - options_.deadline_slack,
                        cancelled};
    ++next_id_;
    batcher_.Add(std::move(jobs[0]), now_);
  }

  bool IsLive(const Known& job) const {
    return !*job.cancelled && job.deadline > now_ && job.hopeless_after >= now_;
  }
  bool IsUrgent(const Known& job) const { return job.safe_start <= now_; }
  Priority LevelOf(const Known& job) const {
    return job.queued + options_.low_priority_ageing <= now_ ? Priority::kNormal : job.priority;
  }
  bool MayWait(const Known& job) const {
    return !IsUrgent(job) && now_ < job.queued + options_.max_delay;
  }

  void Lane() {
    const auto batch = batcher_.TakeReady(now_);
    if (!batch) {
      for (const auto& [id, job] : known_) ASSERT_TRUE(!IsLive(job) || MayWait(job)) << id;
      return;
    }
    ASSERT_FALSE(batch->jobs.empty());
    CheckHead(known_.at(batch->jobs[0]->first), batch->reason);
    CheckCaps(*batch);
    for (const auto& job : batch->jobs) CheckTaken(job->first, batch->jobs[0]->first);
  }

  void CheckHead(const Known& head, CloseReason reason) {
    for (const auto& [id, job] : known_) {
      if (!IsLive(job) || MayWait(job)) continue;
      ASSERT_LE(LevelOf(head), LevelOf(job)) << "normal job " << id << " waits";
      if (LevelOf(head) != LevelOf(job) || !IsUrgent(job)) continue;
      ASSERT_TRUE(IsUrgent(head)) << "urgent job " << id << " waits";
      ASSERT_LE(head.deadline, job.deadline);
    }
    if (reason == CloseReason::kDeadline) {
      ASSERT_TRUE(IsUrgent(head));
    }
    if (reason == CloseReason::kIdle) {
      ASSERT_FALSE(IsUrgent(head));
    }
  }

  void CheckCaps(const Batch& batch) {
    if (batch.jobs.size() == 1) return;
    std::int64_t bytes = 0;
    absl::Duration cost;
    for (const auto& job : batch.jobs) {
      bytes += job->bytes();
      cost += job->predicted;
    }
    ASSERT_LE(batch.matrices(), options_.max_batch_matrices);
    ASSERT_LE(bytes, options_.max_batch_bytes);
    ASSERT_LE(cost, options_.max_batch_cost);
  }

  void CheckTaken(std::int64_t id, std::int64_t head) {
    const auto it = known_.find(id);
    ASSERT_NE(it, known_.end()) << "job " << id << " left twice";
    const Known taken = it->second;
    known_.erase(it);
    ASSERT_TRUE(IsLive(taken)) << "dead job " << id << " in a batch";
    if (id != head) {
      ASSERT_EQ(taken.bucket, head_bucket_);
    }
    head_bucket_ = taken.bucket;
    if (IsUrgent(taken)) return;
    for (const auto& [older, job] : known_) {
      if (older > id) break;
      ASSERT_FALSE(IsLive(job) && !IsUrgent(job) && job.client == taken.client &&
                   job.bucket == taken.bucket && LevelOf(job) == LevelOf(taken) && !MayWait(job))
          << "job " << id << " overtook " << older;
    }
  }

  void Reap() {
    for (const Dropped& dropped : batcher_.TakeDead(now_)) CheckDropped(dropped);
    if (Pick(2) == 0) return;
    for (std::optional<std::uint64_t> from = 0; from;) from = batcher_.DropCancelled(*from);
    for (const Dropped& dropped : batcher_.TakeDead(now_)) CheckDropped(dropped);
    for (const auto& [id, job] : known_) ASSERT_TRUE(IsLive(job)) << "dead job " << id << " stays";
    for (const auto& [id, job] : known_) ASSERT_GE(job.deadline, batcher_.NextEvent());
  }

  void CheckDropped(const Dropped& dropped) {
    const auto it = known_.find(dropped.job->first);
    ASSERT_NE(it, known_.end()) << "job " << dropped.job->first << " left twice";
    ASSERT_FALSE(IsLive(it->second));
    const absl::StatusCode code = dropped.why.status.code();
    if (dropped.why.reason == Reject::kCancelled) {
      ASSERT_EQ(code, absl::StatusCode::kCancelled);
      ASSERT_TRUE(*it->second.cancelled);
    } else {
      ASSERT_EQ(code, absl::StatusCode::kDeadlineExceeded);
    }
    known_.erase(it);
  }

  void CancelOne() {
    if (known_.empty()) return;
    const auto it = known_.lower_bound(Pick(next_id_));
    if (it != known_.end()) *it->second.cancelled = true;
  }

  void CheckTotals() {
    ASSERT_EQ(batcher_.queued().jobs, static_cast<std::int64_t>(known_.size()));
    ASSERT_LE(batcher_.queued().jobs, options_.max_queued_jobs);
    ASSERT_LE(batcher_.queued().bytes, options_.max_queued_bytes);
    ASSERT_LE(batcher_.live_buckets(), known_.size());
  }

  void Drain() {
    if (testing::Test::HasFatalFailure()) return;
    batcher_.BeginDrain();
    while (const auto batch = batcher_.TakeReady(now_)) {
      for (const auto& job : batch->jobs) ASSERT_EQ(known_.erase(job->first), 1u);
    }
    for (const Dropped& dropped : batcher_.TakeDead(now_)) CheckDropped(dropped);
    ASSERT_TRUE(known_.empty());
    ASSERT_EQ(batcher_.queued().jobs, 0);
    ASSERT_EQ(batcher_.queued().bytes, 0);
    ASSERT_EQ(batcher_.queued().cost, absl::ZeroDuration());
    ASSERT_EQ(batcher_.live_buckets(), 0u);
    ASSERT_EQ(batcher_.NextEvent(), absl::InfiniteFuture());
  }

  const BatcherOptions options_;
  Batcher batcher_;
  std::mt19937_64 random_;
  absl::Time now_ = kStart;
  std::int64_t next_id_ = 0;
  Bucket head_bucket_;
  std::map<std::int64_t, Known> known_;
};

void RunSeeds(const BatcherOptions& options, int seeds, int events) {
  for (int seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Model(options, static_cast<std::uint64_t>(seed)).Run(events);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(BatcherProperty, HoldsWithoutDelay) {
  RunSeeds({.max_queued_jobs = 60,
            .max_batch_matrices = 12,
            .max_batch_cost = Milliseconds(8),
            .low_priority_ageing = Milliseconds(4),
            .deadline_slack = Milliseconds(5)},
           100, 400);
}

TEST(BatcherProperty, HoldsUnderTightLimits) {
  RunSeeds({.max_queued_jobs = 20,
            .max_queued_bytes = 200'000,
            .max_batch_matrices = 5,
            .max_batch_bytes = 60'000,
            .max_batch_cost = Milliseconds(2),
            .low_priority_ageing = absl::InfiniteDuration(),
            .deadline_slack = {}},
           100, 400);
}

TEST(BatcherProperty, HoldsWithADelay) {
  RunSeeds({.max_queued_jobs = 60,
            .max_batch_matrices = 12,
            .max_batch_cost = Milliseconds(8),
            .max_delay = Milliseconds(2),
            .low_priority_ageing = Milliseconds(4),
            .deadline_slack = Milliseconds(1)},
           100, 400);
}

TEST(BatcherProperty, HoldsWithLongQueues) {
  RunSeeds({.max_batch_matrices = 3, .deadline_slack = Milliseconds(2)}, 4, 2000);
}

}  // namespace
}  // namespace factord
