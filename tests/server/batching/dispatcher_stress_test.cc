// Submitters, lanes of both backends, a GPU that fails and is lost, cancellations, deadlines, drain
// and stop all at once. Best under
// ThreadSanitizer.
#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/batching/dispatcher.h"
#include "tests/server/batching/make_job.h"

namespace factord {
namespace {

enum class End { kStop, kDrain };

class Stress {
 public:
  Stress(const BatcherOptions& options, int jobs_per_submitter)
      : per_submitter_(jobs_per_submitter),
        ends_(kSubmitters * static_cast<std::size_t>(jobs_per_submitter)),
        dispatcher_(options) {}

  void Run(End end) {
    std::vector<std::thread> lanes, submitters;
    for (int i = 0; i < kLanes; ++i) lanes.emplace_back([this] { Lane(); });
    lanes.emplace_back([this] { GpuLane(); });
    for (int i = 0; i < kSubmitters; ++i) submitters.emplace_back([this, i] { Submitter(i); });
    if (end == End::kStop) {
      // In the middle of it.
      while (submitted_ < kSubmitters * per_submitter_ / 4) std::this_thread::yield();
      std::thread other([this] { dispatcher_.Stop(); });
      dispatcher_.Stop();
      other.join();
    }
    for (auto& submitter : submitters) submitter.join();
    dispatcher_.BeginDrain();
    const absl::Time give_up = absl::Now() + absl::Seconds(60);
    while (ended_ < accepted_ && absl::Now() < give_up) std::this_thread::yield();
    EXPECT_EQ(ended_, accepted_);
    EXPECT_GT(ended_, 0);
    dispatcher_.Stop();
    for (auto& lane : lanes) lane.join();
    for (const auto& count : ends_) ASSERT_LE(count, 1);
  }

 private:
  static constexpr int kSubmitters = 4;
  static constexpr int kLanes = 3;

  void Submitter(int number) {
    std::mt19937 random(static_cast<unsigned>(number));
    for (int i = 0; i < per_submitter_;) {
      auto cancelled = std::make_shared<std::atomic<bool>>(false);
      std::vector<std::unique_ptr<Job>> jobs;
      for (unsigned size = 1 + random() % 4; size > 0 && i < per_submitter_; --size, ++i) {
        jobs.push_back(MakeJob({.id = number * per_submitter_ + i,
                                .client = absl::StrCat(number),
                                .size = 8 << random() % 3,
                                .predicted = absl::Microseconds(random() % 50),
                                .measured = random() % 2 == 0,
                                .priority = random() % 4 == 0 ? Priority::kLow : Priority::kNormal,
                                .deadline = random() % 3 == 0
                                                ? absl::Now() + absl::Microseconds(random() % 2000)
                                                : absl::InfiniteFuture(),
                                .cancelled = cancelled,
                                .route = random() % 2 == 0 ? Backend::kGpu : Backend::kCpu,
                                .pinned = random() % 8 == 0}));
        jobs.back()->done = [this](Job& job, const absl::Status&) {
          ++ends_[static_cast<std::size_t>(job.first)];
          ++ended_;
        };
      }
      const int submitted = static_cast<int>(jobs.size());
      // Before, as `done` may come at once.
      accepted_ += submitted;
      submitted_ += submitted;
      if (!dispatcher_.Submit(std::move(jobs)).ok()) {
        accepted_ -= submitted;
        std::this_thread::yield();
      }
      if (random() % 8 == 0) {
        *cancelled = true;
        dispatcher_.NotifyCancelled();
      }
    }
  }

  void Lane() {
    while (auto batch = dispatcher_.WaitForBatch(Backend::kCpu)) {
      const auto jobs = static_cast<std::int64_t>(batch->jobs.size());
      for (auto& job : batch->jobs) Complete(std::move(job), absl::OkStatus());
      dispatcher_.Finished(jobs);
    }
  }

  // Every third batch fails, and after half of the work the device is lost.
  void GpuLane() {
    for (int batches = 0; submitted_ < kSubmitters * per_submitter_ / 2; ++batches) {
      auto batch = dispatcher_.WaitForBatch(Backend::kGpu);
      if (!batch) return;
      const auto jobs = static_cast<std::int64_t>(batch->jobs.size());
      dispatcher_.Finished(jobs);
      if (batches % 3 == 2) {
        dispatcher_.Requeue(std::move(batch->jobs), absl::UnavailableError("failed"));
      } else {
        for (auto& job : batch->jobs) Complete(std::move(job), absl::OkStatus());
      }
    }
    dispatcher_.LoseGpu();
  }

  const int per_submitter_;
  std::vector<std::atomic<int>> ends_;  // by job
  std::atomic<int> submitted_{0};       // accepted or not
  std::atomic<int> accepted_{0};
  std::atomic<int> ended_{0};
  Dispatcher dispatcher_;
};

TEST(DispatcherStress, EveryAcceptedJobEndsOnceUntilDrained) {
  Stress({.max_queued_jobs = 500, .max_batch_matrices = 16}, 4000).Run(End::kDrain);
}

TEST(DispatcherStress, EveryAcceptedJobEndsOnceWithADelay) {
  Stress({.max_queued_jobs = 500, .max_batch_matrices = 16, .max_delay = absl::Microseconds(300)},
         4000)
      .Run(End::kDrain);
}

TEST(DispatcherStress, EveryAcceptedJobEndsOnceWhenStopped) {
  for (int i = 0; i < 10; ++i) {
    Stress({.max_queued_jobs = 500, .max_batch_matrices = 16}, 400).Run(End::kStop);
  }
}

}  // namespace
}  // namespace factord
