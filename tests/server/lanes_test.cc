// What becomes of work on devices that fail: fake engines, the real dispatcher.
#include "server/lanes.h"

#include <atomic>
#include <cstdlib>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace factord {
namespace {

constexpr absl::Duration kLong = absl::Seconds(10);  // only a failing test waits for it

// Answers every batch with `answer`; UNAVAILABLE is its end.
class FakeEngine : public Factorizer {
 public:
  explicit FakeEngine(Backend backend) : backend_(backend) {}

  absl::Status Run(Batch& batch) override {
    if (while_running_) while_running_();
    absl::MutexLock lock(&mutex_);
    for (const auto& job : batch.jobs) job->backend = backend_;
    if (absl::IsUnavailable(answer_)) healthy_ = false;
    return answer_;
  }
  bool healthy() const override { return healthy_; }
  std::string_view PathOf(const Spec&) const override { return "fake"; }

  // REQUIRES: no lane of it has started.
  void WhileRunning(std::function<void()> f) { while_running_ = std::move(f); }

  void Answer(absl::Status answer) {
    absl::MutexLock lock(&mutex_);
    answer_ = std::move(answer);
  }

 private:
  const Backend backend_;
  std::function<void()> while_running_;
  absl::Mutex mutex_;
  absl::Status answer_;
  std::atomic<bool> healthy_{true};
};

struct Ended {
  absl::Status status;
  Backend backend = Backend::kCpu;
};

class LanesTest : public ::testing::Test {
 protected:
  ~LanesTest() override { dispatcher_.Stop(); }

  void Start(int gpu_lanes, Lanes::WarmUpLane warm_up = nullptr) {
    for (int i = 0; i < gpu_lanes; ++i) {
      auto engine = std::make_unique<FakeEngine>(Backend::kGpu);
      engines_.push_back(engine.get());
      gpus_.emplace_back();
      gpus_.back().index = i;
      gpus_.back().factorizers.push_back(std::move(engine));
    }
    lanes_.emplace(cpu_, gpus_, dispatcher_, costs_, metrics_, std::move(warm_up));
  }

  // Submits a job and waits for its end.
  Ended Run(Backend route, bool pinned) {
    Ended ended;
    absl::Notification done;
    std::vector<std::unique_ptr<Job>> jobs;
    jobs.push_back(std::make_unique<Job>());
    jobs[0]->count = 1;
    jobs[0]->route = route;
    jobs[0]->pinned = pinned;
    jobs[0]->done = [&](Job& job, const absl::Status& status) {
      ended = {status, job.backend};
      done.Notify();
    };
    if (absl::Status refused = dispatcher_.Submit(std::move(jobs)); !refused.ok()) {
      return {refused};
    }
    if (!done.WaitForNotificationWithTimeout(kLong)) std::abort();
    return ended;
  }

  // Of the device "cpu".
  double ValueOf(const std::string& name) const {
    for (const auto& family : metrics_.registry()->Collect()) {
      if (family.name != name) continue;
      for (const auto& metric : family.metric) {
        if (metric.label.at(0).value == "cpu") return metric.gauge.value;
      }
    }
    return -1;
  }

  FakeEngine cpu_{Backend::kCpu};
  std::vector<FakeEngine*> engines_;
  std::vector<Gpu> gpus_;
  Metrics metrics_{{}, {"cpu", "gpu 0", "gpu 1", "gpu 2"}};
  Lanes::Costs costs_{{CostModel(Backend::kCpu), CostModel(Backend::kGpu)}};
  Dispatcher dispatcher_{{}};
  std::optional<Lanes> lanes_;
};

TEST_F(LanesTest, AJobRunsWhereItIsRouted) {
  Start(2);
  EXPECT_TRUE(lanes_->gpu_healthy());
  for (int i = 0; i < 20; ++i) {
    for (Backend backend : {Backend::kCpu, Backend::kGpu}) {
      const Ended ended = Run(backend, i % 2 == 0);
      EXPECT_TRUE(ended.status.ok());
      EXPECT_EQ(ended.backend, backend);
    }
  }
}

TEST_F(LanesTest, WithoutGpusAllRunsOnTheCpuOrIsRefused) {
  Start(0);
  EXPECT_FALSE(lanes_->gpu_healthy());
  EXPECT_EQ(Run(Backend::kGpu, false).backend, Backend::kCpu);
  EXPECT_TRUE(absl::IsUnavailable(Run(Backend::kGpu, true).status));
}

TEST_F(LanesTest, TheAgeOfABatchIsToldWhileItRuns) {
  double while_running = -1;
  cpu_.WhileRunning([&] { while_running = ValueOf("factord_device_batch_age_seconds"); });
  Start(0);
  EXPECT_EQ(ValueOf("factord_device_lanes"), 1);
  EXPECT_EQ(ValueOf("factord_device_batch_age_seconds"), 0);

  EXPECT_TRUE(Run(Backend::kCpu, false).status.ok());

  EXPECT_GT(while_running, 0);
  EXPECT_EQ(ValueOf("factord_device_batch_age_seconds"), 0);
}

TEST_F(LanesTest, WhatDoesNotFitTheGpuRunsOnTheCpu) {
  Start(1);
  engines_[0]->Answer(absl::ResourceExhaustedError("too large"));
  const Ended ended = Run(Backend::kGpu, false);
  EXPECT_TRUE(ended.status.ok());
  EXPECT_EQ(ended.backend, Backend::kCpu);
  EXPECT_TRUE(absl::IsResourceExhausted(Run(Backend::kGpu, true).status));

  EXPECT_TRUE(lanes_->gpu_healthy());
  engines_[0]->Answer(absl::OkStatus());
  EXPECT_EQ(Run(Backend::kGpu, true).backend, Backend::kGpu);
}

TEST_F(LanesTest, ALostDeviceTakesNoMoreWorkAndTheOthersDo) {
  Start(2);
  engines_[0]->Answer(absl::UnavailableError("device lost"));
  int on_cpu = 0;
  for (int i = 0; i < 50; ++i) {
    const Ended ended = Run(Backend::kGpu, false);
    EXPECT_TRUE(ended.status.ok());
    on_cpu += ended.backend == Backend::kCpu;
  }
  EXPECT_LE(on_cpu, 1);  // whose batch it failed
  EXPECT_TRUE(lanes_->gpu_healthy());
  EXPECT_EQ(gpus_[0].healthy(), on_cpu == 0);
  EXPECT_TRUE(gpus_[1].healthy());
}

TEST_F(LanesTest, WithTheLastDeviceLostTheCpuTakesOver) {
  Start(3);
  for (FakeEngine* engine : engines_) engine->Answer(absl::UnavailableError("device lost"));
  for (int i = 0; i < 10; ++i) {
    const Ended ended = Run(Backend::kGpu, false);
    EXPECT_TRUE(ended.status.ok());
    EXPECT_EQ(ended.backend, Backend::kCpu);
  }
  EXPECT_FALSE(lanes_->gpu_healthy());
  EXPECT_TRUE(absl::IsUnavailable(Run(Backend::kGpu, true).status));
}

TEST_F(LanesTest, PinnedWorkOfALostDeviceEndsUnavailable) {
  Start(1);
  engines_[0]->Answer(absl::UnavailableError("device lost"));
  const Ended ended = Run(Backend::kGpu, true);
  EXPECT_TRUE(absl::IsUnavailable(ended.status));
  EXPECT_EQ(ended.status.message(), "device lost");
}

TEST_F(LanesTest, EachLaneWarmsUpOnceBeforeItsFirstBatch) {
  std::atomic<int> cpu_warmed{0}, gpu_warmed{0};
  std::latch all_lanes(3);
  Start(2, [&](Backend backend, Factorizer& factorizer) {
    EXPECT_EQ(&factorizer == &cpu_, backend == Backend::kCpu);
    ++(backend == Backend::kCpu ? cpu_warmed : gpu_warmed);
    all_lanes.count_down();
  });
  all_lanes.wait();
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(Run(Backend::kCpu, true).backend, Backend::kCpu);
    EXPECT_EQ(Run(Backend::kGpu, true).backend, Backend::kGpu);
  }
  EXPECT_EQ(cpu_warmed, 1);
  EXPECT_EQ(gpu_warmed, 2);
}

TEST_F(LanesTest, ADeviceLostWhileWarmingUpTakesNoWork) {
  absl::Notification started;
  Start(1, [&](Backend backend, Factorizer& factorizer) {
    if (backend == Backend::kCpu) return;
    started.WaitForNotification();
    Batch batch;
    batch.jobs.push_back(std::make_unique<Job>());
    static_cast<void>(factorizer.Run(batch));
  });
  engines_[0]->Answer(absl::UnavailableError("device lost"));
  started.Notify();
  const Ended ended = Run(Backend::kGpu, false);
  EXPECT_TRUE(ended.status.ok());
  EXPECT_EQ(ended.backend, Backend::kCpu);
  EXPECT_FALSE(lanes_->gpu_healthy());
}

}  // namespace
}  // namespace factord
