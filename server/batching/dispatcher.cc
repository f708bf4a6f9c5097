#include "server/batching/dispatcher.h"

#include <algorithm>
#include <iterator>
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

Refusal NoGpuRefusal() {
  return {Reject::kNoBackend,
          Overloaded("NO_BACKEND", "this server has no working GPU", kRetryElsewhere)};
}

}  // namespace

Dispatcher::Dispatcher(const BatcherOptions& options, Metrics* metrics,
                       std::function<absl::Time()> clock)
    : metrics_(metrics),
      clock_(std::move(clock)),
      queues_{Queue(options), Queue(options)},
      reaper_([this] { Reap(); }) {}

Dispatcher::~Dispatcher() {
  Stop();
  reaper_.join();
}

absl::Status Dispatcher::Submit(std::vector<std::unique_ptr<Job>> jobs) {
  if (jobs.empty()) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  const absl::Time now = clock_();
  if (auto refusal = Refuse(jobs, now)) return Count(*std::move(refusal));
  for (auto& job : jobs) {
    if (gpu_lost_ || job->route == Backend::kCpu) {
      AddToCpu(std::move(job), now);
    } else {
      Batcher& batcher = QueueOf(job->route).batcher;
      batcher.Add(std::move(job), now);
    }
  }
  WakeForAdded();
  return absl::OkStatus();
}

std::optional<Refusal> Dispatcher::Refuse(const std::vector<std::unique_ptr<Job>>& jobs,
                                          absl::Time now) {
  if (stopped_) return StoppedRefusal();
  const bool needs_gpu = std::any_of(jobs.begin(), jobs.end(), [](const auto& job) {
    return job->pinned && job->route == Backend::kGpu;
  });
  if (needs_gpu && gpu_lost_) return NoGpuRefusal();
  return QueueOf(Backend::kCpu).batcher.Refuse(jobs, now, QueueOf(Backend::kGpu).batcher.queued());
}

// Also what was to run elsewhere, and was predicted for there.
void Dispatcher::AddToCpu(std::unique_ptr<Job> job, absl::Time now) {
  if (job->route != Backend::kCpu) job->predicted_measured = false;
  job->route = Backend::kCpu;
  QueueOf(Backend::kCpu).batcher.Add(std::move(job), now);
}

absl::Status Dispatcher::Count(Refusal refusal) {
  if (metrics_ != nullptr) metrics_->Rejected(refusal.reason);
  return std::move(refusal.status);
}

Load Dispatcher::Queued() const {
  Load sum;
  for (const Queue& queue : queues_) sum = sum + queue.batcher.queued();
  return sum;
}

absl::Time Dispatcher::Oldest() const {
  absl::Time oldest = absl::InfiniteFuture();
  for (const Queue& queue : queues_) oldest = std::min(oldest, queue.batcher.oldest());
  return oldest;
}

absl::Time Dispatcher::NextEvent() const {
  absl::Time next = absl::InfiniteFuture();
  for (const Queue& queue : queues_) next = std::min(next, queue.batcher.NextEvent());
  return next;
}

void Dispatcher::Changed() {
  if (metrics_ == nullptr) return;
  const Load queued = Queued();
  metrics_->QueueChanged(queued.jobs, queued.bytes, Oldest());
  metrics_->JobsRunningChanged(running_jobs_);
}

// One lane for what is ready; it wakes the next one if it leaves something.
void Dispatcher::WakeLane(Queue& queue) {
  if (queue.waiting_lanes > 0 && queue.batcher.has_ready()) queue.lane_wake.Signal();
}

void Dispatcher::WakeForAdded() {
  Changed();
  for (Queue& queue : queues_) WakeLane(queue);
  if (NextEvent() < alarm_) reaper_wake_.Signal();
}

std::optional<Batch> Dispatcher::WaitForBatch(Backend backend) {
  absl::MutexLock lock(&mutex_);
  Queue& queue = QueueOf(backend);
  while (!stopped_) {
    if (auto batch = TakeBatch(queue)) return batch;
    ++queue.waiting_lanes;
    queue.lane_wake.Wait(&mutex_);
    --queue.waiting_lanes;
  }
  return std::nullopt;
}

std::optional<Batch> Dispatcher::TakeBatch(Queue& queue) {
  std::optional<Batch> batch = queue.batcher.TakeReady(clock_());
  // The reaper completes them: the lane has work to do.
  if (queue.batcher.has_dead()) reaper_wake_.Signal();
  if (!batch) return std::nullopt;
  running_jobs_ += static_cast<std::int64_t>(batch->jobs.size());
  Changed();
  WakeLane(queue);
  return batch;
}

void Dispatcher::Finished(std::int64_t jobs) {
  absl::MutexLock lock(&mutex_);
  running_jobs_ -= jobs;
  Changed();
}

void Dispatcher::Requeue(std::vector<std::unique_ptr<Job>> jobs, const absl::Status& why) {
  std::vector<std::unique_ptr<Job>> free;
  for (auto& job : jobs) {
    if (job->pinned) {
      Complete(std::move(job), why);
    } else {
      free.push_back(std::move(job));
    }
  }
  {
    absl::MutexLock lock(&mutex_);
    if (!stopped_) {
      const absl::Time now = clock_();
      for (auto& job : free) AddToCpu(std::move(job), now);
      WakeForAdded();
      return;
    }
  }
  for (auto& job : free) Complete(std::move(job), Count(StoppedRefusal()));
}

void Dispatcher::LoseGpu() {
  std::vector<Dropped> rest;
  {
    absl::MutexLock lock(&mutex_);
    gpu_lost_ = true;
    const absl::Time now = clock_();
    for (Dropped& dropped : QueueOf(Backend::kGpu).batcher.TakeAll(NoGpuRefusal())) {
      if (dropped.why.reason == Reject::kNoBackend && !dropped.job->pinned) {
        AddToCpu(std::move(dropped.job), now);
      } else {
        rest.push_back(std::move(dropped));
      }
    }
    WakeForAdded();
  }
  CompleteDropped(std::move(rest));
}

void Dispatcher::NotifyCancelled() {
  absl::MutexLock lock(&mutex_);
  for (Queue& queue : queues_) {
    if (queue.sweep_from) {
      queue.sweep_again = true;
    } else {
      queue.sweep_from = 0;
    }
  }
  reaper_wake_.Signal();
}

std::vector<BucketSnapshot> Dispatcher::Snapshot() {
  std::vector<BucketSnapshot> buckets;
  {
    absl::MutexLock lock(&mutex_);
    for (Backend backend : {Backend::kCpu, Backend::kGpu}) {
      QueueOf(backend).batcher.Describe(backend, buckets);
    }
  }
  std::sort(buckets.begin(), buckets.end(),
            [](const auto& a, const auto& b) { return a.oldest < b.oldest; });
  return buckets;
}

void Dispatcher::BeginDrain() {
  absl::MutexLock lock(&mutex_);
  for (Queue& queue : queues_) {
    queue.batcher.BeginDrain();
    WakeLane(queue);
  }
}

void Dispatcher::Stop() {
  std::vector<Dropped> rest;
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    for (Queue& queue : queues_) {
      std::vector<Dropped> dropped = queue.batcher.TakeAll(StoppedRefusal());
      std::move(dropped.begin(), dropped.end(), std::back_inserter(rest));
      queue.lane_wake.SignalAll();
    }
    Changed();
    reaper_wake_.Signal();
  }
  CompleteDropped(std::move(rest));
}

void Dispatcher::CompleteDropped(std::vector<Dropped>&& dropped) {
  for (auto& [job, why] : dropped) Complete(std::move(job), Count(std::move(why)));
}

// A step of the sweep for cancelled jobs; false if none is due.
bool Dispatcher::Sweep(Queue& queue) {
  if (!queue.sweep_from) return false;
  queue.sweep_from = queue.batcher.DropCancelled(*queue.sweep_from);
  if (!queue.sweep_from && std::exchange(queue.sweep_again, false)) queue.sweep_from = 0;
  return true;
}

// nullopt once stopped. May be empty: the lock is let go between the steps of a sweep.
std::optional<std::vector<Dropped>> Dispatcher::WaitForDropped() {
  absl::MutexLock lock(&mutex_);
  while (!stopped_) {
    bool swept = false;
    std::vector<Dropped> all;
    const absl::Time now = clock_();
    for (Queue& queue : queues_) {
      swept |= Sweep(queue);
      std::vector<Dropped> dropped = queue.batcher.TakeDead(now);
      std::move(dropped.begin(), dropped.end(), std::back_inserter(all));
      WakeLane(queue);  // a delay may have passed
    }
    if (swept || !all.empty()) {
      Changed();
      return all;
    }
    alarm_ = NextEvent();
    reaper_wake_.WaitWithTimeout(&mutex_, alarm_ - now);
    alarm_ = absl::InfinitePast();
  }
  return std::nullopt;
}

void Dispatcher::Reap() {
  while (auto dropped = WaitForDropped()) CompleteDropped(*std::move(dropped));
}

}  // namespace factord
