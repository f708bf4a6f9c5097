// The dispatcher's promises, one at a time. Threads are real; the time is where a test needs to
// decide it, and no test sleeps.
#include "server/batching/dispatcher.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/errors.h"
#include "server/metrics/metrics.h"
#include "tests/server/batching/make_job.h"

namespace factord {
namespace {

using absl::Milliseconds;
using testing::ElementsAre;

constexpr absl::Duration kLong = absl::Seconds(10);  // only a failing test waits for it

// How a job ended.
struct Ending {
  absl::Notification done;
  absl::Status status;  // once done

  absl::Status Wait() {
    if (!done.WaitForNotificationWithTimeout(kLong)) return absl::InternalError("never ended");
    return status;
  }
};

std::vector<std::unique_ptr<Job>> Watched(const JobTraits& traits, Ending& ending) {
  auto jobs = OneJob(traits);
  jobs[0]->done = [&ending](Job&, const absl::Status& status) {
    ending.status = status;
    ending.done.Notify();
  };
  return jobs;
}

// What a lane does with a batch.
void RunBatch(Dispatcher& dispatcher, Batch batch) {
  const auto jobs = static_cast<std::int64_t>(batch.jobs.size());
  for (auto& job : batch.jobs) Complete(std::move(job), absl::OkStatus());
  dispatcher.Finished(jobs);
}

// A clock that tests set.
struct FakeClock {
  std::atomic<std::int64_t> ms{0};
  absl::Time now() const { return kStart + Milliseconds(ms.load()); }
  std::function<absl::Time()> function() {
    return [this] { return now(); };
  }
};

double ValueOf(const Metrics& metrics, const std::string& name, const std::string& label = "") {
  for (const auto& family : metrics.registry()->Collect()) {
    if (family.name != name) continue;
    for (const auto& metric : family.metric) {
      if (!label.empty() && metric.label.at(0).value != label) continue;
      return metric.gauge.value + metric.counter.value;
    }
  }
  ADD_FAILURE() << "no metric " << name;
  return -1;
}

TEST(Dispatcher, HandsASubmittedJobToALane) {
  Dispatcher dispatcher({});
  Ending ending;

  ASSERT_TRUE(dispatcher.Submit(Watched({.id = 1}, ending)).ok());
  auto batch = dispatcher.WaitForBatch(Backend::kCpu);
  ASSERT_TRUE(batch.has_value());
  EXPECT_THAT(IdsOf(*batch), ElementsAre(1));
  EXPECT_FALSE(ending.done.HasBeenNotified());

  RunBatch(dispatcher, *std::move(batch));
  EXPECT_TRUE(ending.Wait().ok());
}

TEST(Dispatcher, WakesAWaitingLane) {
  Dispatcher dispatcher({});
  std::thread lane([&] {
    while (auto batch = dispatcher.WaitForBatch(Backend::kCpu))
      RunBatch(dispatcher, *std::move(batch));
  });
  for (int i = 0; i < 1000; ++i) {
    Ending ending;
    ASSERT_TRUE(dispatcher.Submit(Watched({}, ending)).ok());
    ASSERT_TRUE(ending.Wait().ok());
  }

  dispatcher.Stop();
  lane.join();
}

TEST(Dispatcher, WakesALaneForEachBatch) {
  Dispatcher dispatcher({});
  constexpr int kLanes = 4;
  std::atomic<int> holding{0};
  absl::Notification all_hold;
  std::vector<std::thread> lanes;
  for (int i = 0; i < kLanes; ++i) {
    lanes.emplace_back([&] {
      auto batch = dispatcher.WaitForBatch(Backend::kCpu);
      if (++holding == kLanes) all_hold.Notify();
      all_hold.WaitForNotificationWithTimeout(kLong);
      if (batch) RunBatch(dispatcher, *std::move(batch));
    });
  }

  // One request, a bucket for each lane: each lane gets a batch while the others still hold theirs.
  std::vector<std::unique_ptr<Job>> jobs;
  for (int i = 0; i < kLanes; ++i) jobs.push_back(MakeJob({.size = 8 << i}));
  ASSERT_TRUE(dispatcher.Submit(std::move(jobs)).ok());

  EXPECT_TRUE(all_hold.WaitForNotificationWithTimeout(kLong));
  for (auto& lane : lanes) lane.join();
}

TEST(Dispatcher, RefusesAllOrNothingWithoutCallingDone) {
  Dispatcher dispatcher({.max_queued_jobs = 2});
  Ending first, second;
  ASSERT_TRUE(dispatcher.Submit(OneJob({})).ok());
  auto jobs = Watched({}, first);
  jobs.push_back(std::move(Watched({}, second)[0]));

  const absl::Status status = dispatcher.Submit(std::move(jobs));

  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_EQ(ReasonOf(status), "QUEUE_FULL");
  EXPECT_EQ(dispatcher.WaitForBatch(Backend::kCpu)->jobs.size(), 1u);
  dispatcher.Stop();
  EXPECT_FALSE(first.done.HasBeenNotified());
  EXPECT_FALSE(second.done.HasBeenNotified());
}

TEST(Dispatcher, AcceptsNoJobs) {
  Dispatcher dispatcher({});
  dispatcher.BeginDrain();
  EXPECT_TRUE(dispatcher.Submit({}).ok());
}

TEST(Dispatcher, EndsExpiredJobsWhileNoLaneIsFree) {
  Dispatcher dispatcher({});
  ASSERT_TRUE(dispatcher.Submit(OneJob({.deadline = absl::Now() + absl::Hours(1)})).ok());
  for (int i = 0; i < 20; ++i) {  // the reaper is asleep in most rounds
    Ending ending;
    ASSERT_TRUE(
        dispatcher.Submit(Watched({.deadline = absl::Now() + Milliseconds(20)}, ending)).ok());

    ASSERT_TRUE(absl::IsDeadlineExceeded(ending.Wait()));
  }
}

TEST(Dispatcher, EndsCancelledJobsWhileNoLaneIsFree) {
  Dispatcher dispatcher({});
  Ending ending;
  auto cancelled = std::make_shared<std::atomic<bool>>(false);
  for (int i = 0; i < 3 * Batcher::kSweep; ++i) ASSERT_TRUE(dispatcher.Submit(OneJob({})).ok());
  ASSERT_TRUE(dispatcher.Submit(Watched({.cancelled = cancelled}, ending)).ok());

  *cancelled = true;
  dispatcher.NotifyCancelled();

  EXPECT_TRUE(absl::IsCancelled(ending.Wait()));
}

TEST(Dispatcher, ALaneNeverSeesACancelledJobAndItStillEnds) {
  Dispatcher dispatcher({});
  for (int i = 0; i < 20; ++i) {
    Ending ending;
    auto cancelled = std::make_shared<std::atomic<bool>>(false);
    ASSERT_TRUE(dispatcher.Submit(Watched({.id = 1, .cancelled = cancelled}, ending)).ok());
    ASSERT_TRUE(dispatcher.Submit(OneJob({.id = 2})).ok());
    *cancelled = true;

    ASSERT_THAT(IdsOf(*dispatcher.WaitForBatch(Backend::kCpu)), ElementsAre(2));
    ASSERT_TRUE(absl::IsCancelled(ending.Wait()));
  }
}

TEST(Dispatcher, FollowsItsClock) {
  FakeClock clock;
  Dispatcher dispatcher({}, nullptr, clock.function());
  Ending ending;
  ASSERT_TRUE(dispatcher.Submit(Watched({.deadline = clock.now() + absl::Hours(1)}, ending)).ok());
  EXPECT_FALSE(ending.done.HasBeenNotified());

  clock.ms = 3'600'000;
  dispatcher.NotifyCancelled();

  EXPECT_TRUE(absl::IsDeadlineExceeded(ending.Wait()));
}

TEST(Dispatcher, ALoneJobLeavesAfterTheDelay) {
  Dispatcher dispatcher({.max_delay = Milliseconds(2)});
  ASSERT_TRUE(dispatcher.Submit(OneJob({})).ok());

  const auto batch = dispatcher.WaitForBatch(Backend::kCpu);

  EXPECT_EQ(batch->reason, CloseReason::kDelay);
  EXPECT_GE(batch->jobs[0]->times.queue, Milliseconds(2));
}

TEST(Dispatcher, DrainingTakesWhatWasAcceptedAndRunsItWithoutDelay) {
  for (const Backend backend : {Backend::kCpu, Backend::kGpu}) {
    Dispatcher dispatcher({.max_delay = absl::Hours(1)});
    Ending ending;
    ASSERT_TRUE(dispatcher.Submit(Watched({.route = backend}, ending)).ok());

    dispatcher.BeginDrain();

    auto batch = dispatcher.WaitForBatch(backend);
    EXPECT_EQ(batch->reason, CloseReason::kDrain);
    RunBatch(dispatcher, *std::move(batch));
    EXPECT_TRUE(ending.Wait().ok());
  }
}

TEST(Dispatcher, StopEndsWhatIsQueuedAndReleasesLanes) {
  Dispatcher dispatcher({});
  Ending ending;
  ASSERT_TRUE(dispatcher.Submit(OneJob({})).ok());
  const auto running = dispatcher.WaitForBatch(Backend::kCpu);
  ASSERT_TRUE(dispatcher.Submit(Watched({}, ending)).ok());

  dispatcher.Stop();
  dispatcher.Stop();

  EXPECT_TRUE(ending.done.HasBeenNotified());
  EXPECT_TRUE(absl::IsUnavailable(ending.Wait()));
  EXPECT_FALSE(dispatcher.WaitForBatch(Backend::kCpu).has_value());
  const absl::Status refused = dispatcher.Submit(OneJob({}));
  EXPECT_TRUE(absl::IsUnavailable(refused));
  EXPECT_EQ(ReasonOf(refused), "DRAINING");
  EXPECT_TRUE(RetryDelayOf(refused).has_value());
}

TEST(Dispatcher, StopReleasesAWaitingLane) {
  Dispatcher dispatcher({});
  std::thread lane([&] { EXPECT_FALSE(dispatcher.WaitForBatch(Backend::kCpu).has_value()); });

  dispatcher.Stop();

  lane.join();
}

TEST(Dispatcher, DoneMayCallBack) {
  Dispatcher dispatcher({});
  Ending second;
  auto jobs = OneJob({.deadline = absl::Now() + Milliseconds(20)});
  jobs[0]->done = [&](Job&, const absl::Status&) {
    dispatcher.NotifyCancelled();
    EXPECT_TRUE(
        dispatcher.Submit(Watched({.deadline = absl::Now() + Milliseconds(20)}, second)).ok());
  };
  ASSERT_TRUE(dispatcher.Submit(std::move(jobs)).ok());

  EXPECT_TRUE(absl::IsDeadlineExceeded(second.Wait()));
}

TEST(Dispatcher, CountsWhatHappens) {
  Metrics metrics({});
  Dispatcher dispatcher({.max_queued_jobs = 2}, &metrics);
  const JobTraits hopeless = {
      .predicted = kLong, .measured = true, .deadline = absl::Now() + Milliseconds(500)};
  auto cancelled = std::make_shared<std::atomic<bool>>(false);
  Ending ending;
  ASSERT_TRUE(dispatcher.Submit(OneJob({})).ok());
  ASSERT_TRUE(dispatcher.Submit(Watched({.cancelled = cancelled}, ending)).ok());
  EXPECT_EQ(ValueOf(metrics, "factord_queue_jobs"), 2);
  EXPECT_EQ(ValueOf(metrics, "factord_queue_bytes"), 2.0 * MakeJob({})->bytes());

  EXPECT_FALSE(dispatcher.Submit(OneJob({})).ok());
  EXPECT_FALSE(dispatcher.Submit(OneJob({.deadline = absl::Now()})).ok());
  EXPECT_FALSE(dispatcher.Submit(OneJob(hopeless)).ok());
  *cancelled = true;
  dispatcher.NotifyCancelled();
  EXPECT_TRUE(absl::IsCancelled(ending.Wait()));
  auto batch = dispatcher.WaitForBatch(Backend::kCpu);
  EXPECT_EQ(ValueOf(metrics, "factord_running_jobs"), 1);
  RunBatch(dispatcher, *std::move(batch));
  dispatcher.Stop();
  EXPECT_FALSE(dispatcher.Submit(OneJob({})).ok());

  EXPECT_EQ(ValueOf(metrics, "factord_queue_jobs"), 0);
  EXPECT_EQ(ValueOf(metrics, "factord_running_jobs"), 0);
  for (const char* reason : {"queue_full", "expired", "hopeless", "cancelled", "draining"}) {
    EXPECT_EQ(ValueOf(metrics, "factord_rejected_total", reason), 1) << reason;
  }
}

TEST(Dispatcher, TellsTheAgeOfTheOldestJobOfAllBackends) {
  FakeClock clock;
  Metrics metrics({}, {"cpu"}, clock.function());
  Dispatcher dispatcher({}, &metrics, clock.function());
  const auto age = [&] { return ValueOf(metrics, "factord_queue_oldest_age_seconds"); };

  ASSERT_TRUE(dispatcher.Submit(OneJob({.id = 1, .route = Backend::kGpu})).ok());
  clock.ms = 2000;
  ASSERT_TRUE(dispatcher.Submit(OneJob({.id = 2})).ok());
  clock.ms = 5000;
  EXPECT_EQ(age(), 5);
  RunBatch(dispatcher, *dispatcher.WaitForBatch(Backend::kGpu));
  EXPECT_EQ(age(), 3);
  RunBatch(dispatcher, *dispatcher.WaitForBatch(Backend::kCpu));

  EXPECT_EQ(age(), 0);
}

const JobTraits kToGpu = {.id = 1, .route = Backend::kGpu};

TEST(Dispatcher, AJobWaitsForItsRoute) {
  Dispatcher dispatcher({});
  ASSERT_TRUE(dispatcher.Submit(OneJob({.id = 1, .route = Backend::kGpu})).ok());
  ASSERT_TRUE(dispatcher.Submit(OneJob({.id = 2})).ok());

  EXPECT_THAT(IdsOf(*dispatcher.WaitForBatch(Backend::kCpu)), ElementsAre(2));
  EXPECT_THAT(IdsOf(*dispatcher.WaitForBatch(Backend::kGpu)), ElementsAre(1));
}

TEST(Dispatcher, WakesTheLaneOfTheRoute) {
  Dispatcher dispatcher({});
  std::atomic<int> ran[kBackends] = {};
  std::vector<std::thread> lanes;
  for (const Backend backend : {Backend::kCpu, Backend::kGpu}) {
    lanes.emplace_back([&, backend] {
      while (auto batch = dispatcher.WaitForBatch(backend)) {
        ran[static_cast<int>(backend)] += static_cast<int>(batch->jobs.size());
        RunBatch(dispatcher, *std::move(batch));
      }
    });
  }
  for (int i = 0; i < 300; ++i) {
    Ending ending;
    const Backend route = i % 3 == 0 ? Backend::kGpu : Backend::kCpu;
    ASSERT_TRUE(dispatcher.Submit(Watched({.route = route}, ending)).ok());
    ASSERT_TRUE(ending.Wait().ok());
  }

  dispatcher.Stop();
  for (auto& lane : lanes) lane.join();
  EXPECT_EQ(ran[0], 200);
  EXPECT_EQ(ran[1], 100);
}

TEST(Dispatcher, LimitsHoldForAllBackendsTogether) {
  Dispatcher jobs({.max_queued_jobs = 2});
  Dispatcher bytes({.max_queued_bytes = 2 * MakeJob({})->bytes()});
  for (Dispatcher* dispatcher : {&jobs, &bytes}) {
    ASSERT_TRUE(dispatcher->Submit(OneJob(kToGpu)).ok());
    ASSERT_TRUE(dispatcher->Submit(OneJob({})).ok());

    EXPECT_EQ(ReasonOf(dispatcher->Submit(OneJob(kToGpu))), "QUEUE_FULL");
    EXPECT_EQ(ReasonOf(dispatcher->Submit(OneJob({}))), "QUEUE_FULL");
  }
}

TEST(Dispatcher, EndsDeadJobsOfEveryBackend) {
  Dispatcher dispatcher({});
  auto cancelled = std::make_shared<std::atomic<bool>>(false);
  Ending expired, gone;
  ASSERT_TRUE(
      dispatcher
          .Submit(Watched({.deadline = absl::Now() + Milliseconds(20), .route = Backend::kGpu},
                          expired))
          .ok());
  ASSERT_TRUE(
      dispatcher.Submit(Watched({.cancelled = cancelled, .route = Backend::kGpu}, gone)).ok());

  *cancelled = true;
  dispatcher.NotifyCancelled();

  EXPECT_TRUE(absl::IsCancelled(gone.Wait()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(expired.Wait()));
}

TEST(Dispatcher, WhatFailedRunsAgainOnTheCpuUnlessPinned) {
  Dispatcher dispatcher({.max_queued_jobs = 3});
  Ending pinned;
  for (int id : {1, 2}) {
    ASSERT_TRUE(dispatcher.Submit(OneJob({.id = id, .route = Backend::kGpu})).ok());
  }
  ASSERT_TRUE(
      dispatcher.Submit(Watched({.id = 3, .route = Backend::kGpu, .pinned = true}, pinned)).ok());

  auto batch = dispatcher.WaitForBatch(Backend::kGpu);
  ASSERT_EQ(batch->jobs.size(), 3u);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(dispatcher.Submit(OneJob({.id = 4})).ok());  // full
  dispatcher.Finished(3);
  dispatcher.Requeue(std::move(batch->jobs), absl::ResourceExhaustedError("too large"));

  EXPECT_TRUE(absl::IsResourceExhausted(pinned.Wait()));
  EXPECT_THAT(IdsOf(*dispatcher.WaitForBatch(Backend::kCpu)), ElementsAre(4, 4, 4, 1, 2));
}

TEST(Dispatcher, WhatFailedKeepsItsDeadlineButNotThePredictionForTheGpu) {
  FakeClock clock;
  Dispatcher dispatcher({}, nullptr, clock.function());
  Ending ending;
  ASSERT_TRUE(dispatcher
                  .Submit(Watched({.predicted = Milliseconds(10),
                                   .measured = true,
                                   .deadline = clock.now() + Milliseconds(100),
                                   .route = Backend::kGpu},
                                  ending))
                  .ok());
  auto batch = dispatcher.WaitForBatch(Backend::kGpu);
  clock.ms = 95;  // hopeless, were the prediction for the CPU
  dispatcher.Requeue(std::move(batch->jobs), absl::UnavailableError("device lost"));
  EXPECT_FALSE(ending.done.HasBeenNotified());

  clock.ms = 100;
  dispatcher.NotifyCancelled();

  EXPECT_TRUE(absl::IsDeadlineExceeded(ending.Wait()));
}

TEST(Dispatcher, WhatFailedEndsOnceStopped) {
  Dispatcher dispatcher({});
  Ending ending;
  ASSERT_TRUE(dispatcher.Submit(Watched(kToGpu, ending)).ok());
  auto batch = dispatcher.WaitForBatch(Backend::kGpu);

  dispatcher.Stop();
  dispatcher.Requeue(std::move(batch->jobs), absl::InternalError("why"));

  EXPECT_TRUE(ending.done.HasBeenNotified());
  EXPECT_EQ(ReasonOf(ending.Wait()), "DRAINING");
}

TEST(Dispatcher, LosingTheGpuMovesWhatWaitsForItToTheCpu) {
  Metrics metrics({});
  Dispatcher dispatcher({}, &metrics);
  Ending pinned;
  ASSERT_TRUE(dispatcher.Submit(OneJob(kToGpu)).ok());
  ASSERT_TRUE(
      dispatcher.Submit(Watched({.id = 2, .route = Backend::kGpu, .pinned = true}, pinned)).ok());

  dispatcher.LoseGpu();
  dispatcher.LoseGpu();

  EXPECT_TRUE(absl::IsUnavailable(pinned.Wait()));
  EXPECT_EQ(ReasonOf(pinned.Wait()), "NO_BACKEND");
  auto batch = dispatcher.WaitForBatch(Backend::kCpu);
  EXPECT_THAT(IdsOf(*batch), ElementsAre(1));
  EXPECT_EQ(batch->jobs[0]->route, Backend::kCpu);
  EXPECT_EQ(ValueOf(metrics, "factord_rejected_total", "no_backend"), 1);
}

TEST(Dispatcher, WithoutAGpuItsWorkGoesToTheCpuOrIsRefused) {
  Dispatcher dispatcher({});
  dispatcher.LoseGpu();

  ASSERT_TRUE(dispatcher.Submit(OneJob(kToGpu)).ok());
  auto both = OneJob({.id = 2});
  both.push_back(MakeJob({.id = 3, .route = Backend::kGpu, .pinned = true}));
  const absl::Status refused = dispatcher.Submit(std::move(both));

  EXPECT_TRUE(absl::IsUnavailable(refused));
  EXPECT_TRUE(RetryDelayOf(refused).has_value());
  EXPECT_THAT(IdsOf(*dispatcher.WaitForBatch(Backend::kCpu)), ElementsAre(1));
  ASSERT_TRUE(dispatcher.Submit(OneJob({.id = 4, .pinned = true})).ok());  // to the CPU
  EXPECT_THAT(IdsOf(*dispatcher.WaitForBatch(Backend::kCpu)), ElementsAre(4));
}

TEST(Dispatcher, SnapshotsAllBackendsTheLongestWaitFirst) {
  std::atomic<std::int64_t> now_ms{0};
  Dispatcher dispatcher({}, nullptr, [&] { return kStart + Milliseconds(now_ms.load()); });
  ASSERT_TRUE(dispatcher.Submit(OneJob({.size = 8, .route = Backend::kGpu})).ok());
  now_ms = 5;
  ASSERT_TRUE(dispatcher.Submit(OneJob({.size = 16})).ok());

  const std::vector<BucketSnapshot> buckets = dispatcher.Snapshot();

  ASSERT_EQ(buckets.size(), 2);
  EXPECT_EQ(buckets[0].backend, Backend::kGpu);
  EXPECT_EQ(buckets[0].bucket.Name(), "factorize f32 8x8 qr");
  EXPECT_EQ(buckets[0].oldest, kStart);
  EXPECT_EQ(buckets[1].backend, Backend::kCpu);
  EXPECT_EQ(buckets[1].oldest, kStart + Milliseconds(5));
}

}  // namespace
}  // namespace factord
