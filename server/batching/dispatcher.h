// Dispatcher: the thread-safe shell around the batcher. Services submit jobs, lanes wait for
// batches.
#pragma once

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

// The one lock of the server. Under it: the batcher and a few counters, never a job's `done`, never
// any work.
//
// Thread-safe, except that the destructor may not run while another thread is in a method. Lanes
// must have left: Stop(), join them, destroy. Owns the jobs that wait, and one thread, the reaper,
// which ends dead jobs while all lanes are busy and, with a maximum delay, wakes lanes when it has
// passed.
//
// Every job of a successful Submit ends once: in a batch that WaitForBatch returned, whose lane
// then completes it; or completed here with DEADLINE_EXCEEDED, CANCELLED or UNAVAILABLE, by the
// reaper or within Stop(). `done` may call anything here but the destructor.
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
  // delay: QUEUE_FULL, or DRAINING once stopped. RESOURCE_EXHAUSTED: more than the whole queue.
  // DEADLINE_EXCEEDED, CANCELLED: too late for one of them already.
  absl::Status Submit(std::vector<std::unique_ptr<Job>> jobs);

  // For lanes: blocks until there is a batch; nullopt once stopped. The lane completes the batch's
  // jobs, then reports how many they were to Finished.
  std::optional<Batch> WaitForBatch();
  void Finished(std::int64_t jobs);

  // Some job's cancel flag was set. The reaper looks through the queue: cheap for the caller,
  // O(queue) for the reaper, in short holds of the lock; calls during a sweep share the next.
  void NotifyCancelled();

  // From now on what waits goes without delay. Refusing new requests is their service's part: what
  // it has accepted, an upload under way, may still come.
  void BeginDrain();

  // Whether nothing was queued, running or about to be completed before `deadline` (real time).
  // Most useful once draining.
  bool WaitUntilIdle(absl::Time deadline);

  // Completes what is queued with UNAVAILABLE and releases the lanes; batches on lanes are not
  // touched. Idempotent.
  void Stop();

 private:
  void Changed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WakeLane() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsIdle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Count(Refusal refusal);
  std::optional<Batch> TakeBatch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Sweep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CompleteDropped(std::vector<Dropped>&& dropped) ABSL_LOCKS_EXCLUDED(mutex_);
  std::optional<std::vector<Dropped>> WaitForDropped() ABSL_LOCKS_EXCLUDED(mutex_);
  void Reap() ABSL_LOCKS_EXCLUDED(mutex_);

  Metrics* const metrics_;
  const std::function<absl::Time()> clock_;

  absl::Mutex mutex_;
  absl::CondVar lane_wake_;    // something may be ready, or stopped
  absl::CondVar reaper_wake_;  // dead jobs, an event before alarm_, a sweep is due, or stopped
  absl::CondVar idle_;         // IsIdle()
  Batcher batcher_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  int waiting_lanes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::int64_t running_jobs_ ABSL_GUARDED_BY(mutex_) = 0;     // on lanes
  std::int64_t completing_jobs_ ABSL_GUARDED_BY(mutex_) = 0;  // dropped, `done` not yet returned
  absl::Time alarm_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // until when the reaper sleeps
  std::optional<std::uint64_t> sweep_from_ ABSL_GUARDED_BY(mutex_);  // a sweep goes on from here
  bool sweep_again_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread reaper_;  // last: it uses all of the above
};

}  // namespace factord
