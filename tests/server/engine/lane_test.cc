#include "server/engine/lane.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace factord {
namespace {

class FakeFactorizer : public Factorizer {
 public:
  explicit FakeFactorizer(absl::Status status) : status_(std::move(status)) {}
  absl::Status Run(Batch&) override {
    healthy_ = !absl::IsUnavailable(status_);
    return status_;
  }
  bool healthy() const override { return healthy_; }
  std::string_view PathOf(const Spec&) const override { return "fake"; }

 private:
  const absl::Status status_;
  std::atomic<bool> healthy_{true};
};

struct Ended {
  std::int64_t batch_matrices;
  StageTimes times;
  absl::Status status;
};

// Runs one batch of two jobs, of 3 and 4 matrices, on a lane; returns how they ended.
std::vector<Ended> RunTwoJobs(const absl::Status& status, Lane::Finished finished) {
  std::vector<Ended> ended;
  Batch batch;
  for (std::int64_t count : {3, 4}) {
    auto job = std::make_unique<Job>();
    job->count = count;
    job->queued = absl::Now() - absl::Seconds(1);
    job->done = [&ended](Job& done, const absl::Status& s) {
      ended.push_back({done.batch_matrices, done.times, s});
    };
    batch.jobs.push_back(std::move(job));
  }
  std::optional<Batch> next = std::move(batch);
  FakeFactorizer factorizer(status);
  {
    Lane lane(
        "test lane of a long name", factorizer,
        [&next] { return std::exchange(next, std::nullopt); }, std::move(finished));
  }
  return ended;
}

TEST(Lane, CompletesEveryJobWithItsTimes) {
  int batches = 0;
  const auto ended = RunTwoJobs(
      absl::OkStatus(),
      [&](Batch& batch, absl::Time started, absl::Duration elapsed, const absl::Status& s) {
        ++batches;
        EXPECT_EQ(batch.jobs.size(), 2u);
        EXPECT_LE(started, absl::Now());
        EXPECT_GE(elapsed, absl::ZeroDuration());
        EXPECT_TRUE(s.ok());
      });
  EXPECT_EQ(batches, 1);
  ASSERT_EQ(ended.size(), 2u);
  for (const Ended& job : ended) {
    EXPECT_TRUE(job.status.ok());
    EXPECT_EQ(job.batch_matrices, 7);
    EXPECT_GE(job.times.queue, absl::Seconds(1));
  }
}

TEST(Lane, EngineErrorEndsEveryJobOfTheBatch) {
  const auto ended = RunTwoJobs(absl::UnavailableError("device lost"), nullptr);
  ASSERT_EQ(ended.size(), 2u);
  for (const Ended& job : ended) EXPECT_EQ(job.status.code(), absl::StatusCode::kUnavailable);
}

// Gives a lane batches of one job until it takes no more, or `most`; returns how many it took, and
// what it said of those that failed.
std::pair<int, std::vector<absl::Status>> RunBatches(const absl::Status& status, int most) {
  int taken = 0;
  std::vector<absl::Status> failed;
  FakeFactorizer factorizer(status);
  {
    Lane lane(
        "lane", factorizer,
        [&]() -> std::optional<Batch> {
          if (taken == most) return std::nullopt;
          ++taken;
          Batch batch;
          batch.jobs.push_back(std::make_unique<Job>());
          batch.jobs[0]->done = [](Job&, const absl::Status& s) { EXPECT_TRUE(s.ok()); };
          return batch;
        },
        nullptr,
        [&](Batch batch, const absl::Status& s) {
          EXPECT_EQ(batch.jobs.size(), 1u);
          failed.push_back(s);
        });
  }
  return {taken, failed};
}

TEST(Lane, FailedBatchesAreHandedOverUncompleted) {
  EXPECT_EQ(RunBatches(absl::OkStatus(), 3).second.size(), 0u);
  const absl::Status too_large = absl::ResourceExhaustedError("too large");
  const auto [taken, failed] = RunBatches(too_large, 3);
  EXPECT_EQ(taken, 3);
  EXPECT_EQ(failed, (std::vector<absl::Status>(3, too_large)));
}

TEST(Lane, TakesNoMoreBatchesOnceItsFactorizerIsNotHealthy) {
  const auto [taken, failed] = RunBatches(absl::UnavailableError("device lost"), 3);
  EXPECT_EQ(taken, 1);
  EXPECT_EQ(failed.size(), 1u);
}

TEST(Lane, StopsWhenThereIsNothing) {
  FakeFactorizer factorizer(absl::OkStatus());
  Lane lane(
      "idle", factorizer, [] { return std::nullopt; }, nullptr);
}

TEST(Lane, RunsTheNextBatchWhileSeveralJobsAreStillBeingCompleted) {
  absl::Notification second_batch_taken;
  std::vector<std::int64_t> completed;
  const auto batch_of = [&](std::int64_t jobs) {
    Batch batch;
    for (std::int64_t i = 0; i < jobs; ++i) {
      batch.jobs.push_back(std::make_unique<Job>());
      batch.jobs.back()->count = jobs;
      batch.jobs.back()->done = [&](Job& job, const absl::Status&) {
        second_batch_taken.WaitForNotification();
        completed.push_back(job.count);
      };
    }
    return batch;
  };
  int taken = 0;
  FakeFactorizer factorizer(absl::OkStatus());
  {
    Lane lane(
        "lane", factorizer,
        [&]() -> std::optional<Batch> {
          if (++taken == 2) second_batch_taken.Notify();
          return taken == 1   ? std::optional(batch_of(2))
                 : taken == 2 ? std::optional(batch_of(3))
                              : std::nullopt;
        },
        nullptr);
  }

  EXPECT_EQ(completed, (std::vector<std::int64_t>{2, 2, 3, 3, 3}));
}

}  // namespace
}  // namespace factord
