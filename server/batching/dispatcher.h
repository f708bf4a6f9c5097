// Dispatcher: the thread-safe shell around the batchers, one for each backend. Services submit
// jobs, lanes wait for batches.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/batching/batcher.h"
#include "server/core/batch.h"
#include "server/core/job.h"
#include "server/metrics/metrics.h"

namespace factord {

// The one lock of the server. Under it: the batchers and a few counters, never a job's `done`,
// never any work.
//
// Thread-safe, except that the destructor may not run while another thread is in a method. Lanes
// must have left: Stop(), join them, destroy. Owns the jobs that wait, and one thread, the reaper,
// which ends dead jobs while all lanes are busy and, with a maximum delay, wakes lanes when it has
// passed.
//
// Every job of a successful Submit ends once: in a batch that WaitForBatch returned, whose lane
// then completes it or gives it back to Requeue; or completed here with DEADLINE_EXCEEDED,
// CANCELLED or UNAVAILABLE, by the reaper or within Requeue(), LoseGpu() or Stop(). `done` may call
// anything here but the destructor.
//
// A job waits for its `route`. The limits of the queue are for all backends together. The CPU can't
// be lost.
class Dispatcher {
 public:
  // `metrics` may be null, else it must outlive this. `clock` is called under the lock; the reaper
  // sleeps in real time for as long as `clock` says, so a clock that is set by hand needs a
  // NotifyCancelled() after each step.
  explicit Dispatcher(const BatcherOptions& options, Metrics* metrics = nullptr,
                      std::function<absl::Time()> clock = absl::Now);
  ~Dispatcher();

  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  // Takes one request's jobs, all or none. On error they are destroyed and their `done` is never
  // called: the status is the answer. No `done` is called within Submit. UNAVAILABLE with a retry
  // delay: QUEUE_FULL; DRAINING once stopped; NO_BACKEND where one is pinned to a lost GPU.
  // RESOURCE_EXHAUSTED: more than the whole queue. DEADLINE_EXCEEDED, CANCELLED: too late for one
  // of them already.
  absl::Status Submit(std::vector<std::unique_ptr<Job>> jobs);

  // For lanes of a backend: blocks until there is a batch; nullopt once stopped. The lane reports
  // how many jobs it ran to Finished, and completes them or gives them back.
  std::optional<Batch> WaitForBatch(Backend backend);
  void Finished(std::int64_t jobs);

  // Takes back jobs whose batch failed with `why`: they wait for the CPU, whatever the queue's
  // limits; those that are pinned end with `why`.
  void Requeue(std::vector<std::unique_ptr<Job>> jobs, const absl::Status& why);

  // There is no GPU, or no lane of one, any more: what waits for it moves to the CPU, and what will
  // be submitted goes there; what is pinned ends with UNAVAILABLE. Idempotent.
  void LoseGpu();

  // Some job's cancel flag was set. The reaper looks through the queue: cheap for the caller,
  // O(queue) for the reaper, in short holds of the lock; calls during a sweep share the next.
  void NotifyCancelled();

  // What waits, by bucket; the bucket whose oldest job has waited longest first.
  std::vector<BucketSnapshot> Snapshot();

  // From now on what waits goes without delay. Refusing new requests is their service's part: what
  // it has accepted, an upload under way, may still come.
  void BeginDrain();

  // Completes what is queued with UNAVAILABLE and releases the lanes; batches on lanes are not
  // touched. Idempotent.
  void Stop();

 private:
  // What waits for one backend.
  struct Queue {
    explicit Queue(const BatcherOptions& options) : batcher(options) {}

    Batcher batcher;
    absl::CondVar lane_wake;  // something may be ready, or stopped
    int waiting_lanes = 0;
    std::optional<std::uint64_t> sweep_from;  // a sweep goes on from here
    bool sweep_again = false;
  };

  Queue& QueueOf(Backend backend) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return queues_[static_cast<std::size_t>(backend)];
  }
  Load Queued() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Time Oldest() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Time NextEvent() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Changed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WakeLane(Queue& queue) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WakeForAdded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<Refusal> Refuse(const std::vector<std::unique_ptr<Job>>& jobs, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddToCpu(std::unique_ptr<Job> job, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Count(Refusal refusal);
  std::optional<Batch> TakeBatch(Queue& queue) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Sweep(Queue& queue) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CompleteDropped(std::vector<Dropped>&& dropped) ABSL_LOCKS_EXCLUDED(mutex_);
  std::optional<std::vector<Dropped>> WaitForDropped() ABSL_LOCKS_EXCLUDED(mutex_);
  void Reap() ABSL_LOCKS_EXCLUDED(mutex_);

  Metrics* const metrics_;
  const std::function<absl::Time()> clock_;

  absl::Mutex mutex_;
  absl::CondVar reaper_wake_;  // dead jobs, an event before alarm_, a sweep is due, or stopped
  std::array<Queue, kBackends> queues_ ABSL_GUARDED_BY(mutex_);  // by Backend
  bool gpu_lost_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::int64_t running_jobs_ ABSL_GUARDED_BY(mutex_) = 0;            // on lanes
  absl::Time alarm_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // until when the reaper sleeps

  std::thread reaper_;  // last: it uses all of the above
};

}  // namespace factord
