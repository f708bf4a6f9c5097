#include "server/batching/dispatcher.h"

#include <utility>

#include "server/core/errors.h"

namespace factord {
namespace {

// Long enough for a load balancer to have taken this server out.
constexpr absl::Duration kRetryElsewhere = absl::Seconds(1);

Refusal StoppedRefusal() {
  return {Reject::kDraining,
          Overloaded("DRAINING", "the server is shutting down", kRetryElsewhere)};
}

}  // namespace

Dispatcher::Dispatcher(const BatcherOptions& options, Metrics* metrics,
                       std::function<absl::Time()> clock)
    : metrics_(metrics), clock_(std::move(clock)), batcher_(options), reaper_([this] { Reap(); }) {}

Dispatcher::~Dispatcher() {
  Stop();
  reaper_.join();
}

absl::Status Dispatcher::Submit(std::vector<std::unique_ptr<Job>> jobs) {
  if (jobs.empty()) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  if (stopped_) return Count(StoppedRefusal());
  const absl::Time now = clock_();
  if (auto refusal = batcher_.Refuse(jobs, now)) return Count(*std::move(refusal));
  for (auto& job : jobs) batcher_.Add(std::move(job), now);
  Changed();
  WakeLane();
  if (batcher_.NextEvent() < alarm_) reaper_wake_.Signal();
  return absl::OkStatus();
}

absl::Status Dispatcher::Count(Refusal refusal) {
  if (metrics_ != nullptr) metrics_->Rejected(refusal.reason);
  return std::move(refusal.status);
}

void Dispatcher::Changed() {
  if (metrics_ == nullptr) return;
  metrics_->QueueChanged(batcher_.queued_jobs(), batcher_.queued_bytes());
  metrics_->JobsRunningChanged(running_jobs_);
}

// One lane for what is ready; it wakes the next one if it leaves something.
void Dispatcher::WakeLane() {
  if (waiting_lanes_ > 0 && batcher_.has_ready()) lane_wake_.Signal();
}

std::optional<Batch> Dispatcher::WaitForBatch() {
  absl::MutexLock lock(&mutex_);
  while (!stopped_) {
    if (auto batch = TakeBatch()) return batch;
    ++waiting_lanes_;
    lane_wake_.Wait(&mutex_);
    --waiting_lanes_;
  }
  return std::nullopt;
}

std::optional<Batch> Dispatcher::TakeBatch() {
  std::optional<Batch> batch = batcher_.TakeReady(clock_());
  // The reaper completes them: the lane has work to do.
  if (batcher_.has_dead()) reaper_wake_.Signal();
  if (!batch) return std::nullopt;
  running_jobs_ += static_cast<std::int64_t>(batch->jobs.size());
  Changed();
  WakeLane();
  return batch;
}

void Dispatcher::Finished(std::int64_t jobs) {
  absl::MutexLock lock(&mutex_);
  running_jobs_ -= jobs;
  Changed();
  if (IsIdle()) idle_.SignalAll();
}

void Dispatcher::NotifyCancelled() {
  absl::MutexLock lock(&mutex_);
  if (sweep_from_) {
    sweep_again_ = true;
    return;
  }
  sweep_from_ = 0;
  reaper_wake_.Signal();
}

void Dispatcher::BeginDrain() {
  absl::MutexLock lock(&mutex_);
  batcher_.BeginDrain();
  WakeLane();
}

bool Dispatcher::IsIdle() const {
  return batcher_.queued_jobs() == 0 && running_jobs_ == 0 && completing_jobs_ == 0;
}

bool Dispatcher::WaitUntilIdle(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  while (!IsIdle()) {
    if (idle_.WaitWithDeadline(&mutex_, deadline)) return IsIdle();
  }
  return true;
}

void Dispatcher::Stop() {
  std::vector<Dropped> rest;
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    rest = batcher_.TakeAll(StoppedRefusal());
    completing_jobs_ += static_cast<std::int64_t>(rest.size());
    Changed();
    lane_wake_.SignalAll();
    reaper_wake_.Signal();
  }
  CompleteDropped(std::move(rest));
}

void Dispatcher::CompleteDropped(std::vector<Dropped>&& dropped) {
  if (dropped.empty()) return;
  for (auto& [job, why] : dropped) Complete(std::move(job), Count(std::move(why)));
  absl::MutexLock lock(&mutex_);
  completing_jobs_ -= static_cast<std::int64_t>(dropped.size());
  if (IsIdle()) idle_.SignalAll();
}

// A step of the sweep for cancelled jobs; false if none is due.
bool Dispatcher::Sweep() {
  if (!sweep_from_) return false;
  sweep_from_ = batcher_.DropCancelled(*sweep_from_);
  if (!sweep_from_ && std::exchange(sweep_again_, false)) sweep_from_ = 0;
  return true;
}

// nullopt once stopped. May be empty: the lock is let go between the steps of a sweep.
std::optional<std::vector<Dropped>> Dispatcher::WaitForDropped() {
  absl::MutexLock lock(&mutex_);
  while (!stopped_) {
    const bool swept = Sweep();
    const absl::Time now = clock_();
    std::vector<Dropped> dropped = batcher_.TakeDead(now);
    WakeLane();  // a delay may have passed
    if (swept || !dropped.empty()) {
      completing_jobs_ += static_cast<std::int64_t>(dropped.size());
      Changed();
      return dropped;
    }
    alarm_ = batcher_.NextEvent();
    reaper_wake_.WaitWithTimeout(&mutex_, alarm_ - now);
    alarm_ = absl::InfinitePast();
  }
  return std::nullopt;
}

void Dispatcher::Reap() {
  while (auto dropped = WaitForDropped()) CompleteDropped(*std::move(dropped));
}

}  // namespace factord
