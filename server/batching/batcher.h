// Batcher: who runs together, who goes first, and who no longer needs to run.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "server/batching/batcher_options.h"
#include "server/batching/bucket.h"
#include "server/batching/bucket_snapshot.h"
#include "server/batching/fair_clock.h"
#include "server/batching/fair_queue.h"
#include "server/batching/queued_job.h"
#include "server/batching/refusal.h"
#include "server/core/batch.h"
#include "server/core/job.h"

namespace factord {

// A job that will not run. Complete it with why.status.
struct Dropped {
  std::unique_ptr<Job> job;
  Refusal why;
};

// Order. Normal priority before low; a low job that has waited low_priority_ageing is normal from
// then on. Within a priority, jobs whose latest safe start (deadline - predicted - deadline_slack)
// has come, earliest deadline first; then fair over clients by predicted cost (FairClock), first in
// first out within a client. The job whose turn it is brings others of its bucket along, in that
// same order, until the next one would exceed a cap; low ones only while no normal job waits
// anywhere, as they would delay it.
//
// Dead jobs are never in a batch: cancelled; expired (deadline <= now); hopeless (deadline < now +
// predicted, where the prediction was measured).
//
// A value, movable: no thread, no clock, no lock; the time is an argument, best not decreasing.
// Owns the jobs it holds. Each job added leaves once, by TakeReady, TakeDead or TakeAll. O(log)
// amortized for a job, whatever waits.
class Batcher {
 public:
  explicit Batcher(const BatcherOptions& options);
  Batcher(Batcher&&) = default;
  Batcher& operator=(Batcher&&) = default;

  // Why these jobs, one request's, must not be added; nullopt if they may. UNAVAILABLE with a retry
  // delay: the queue is full. RESOURCE_EXHAUSTED: they are more than the whole queue.
  // DEADLINE_EXCEEDED, CANCELLED: one of them is dead. `elsewhere` waits in other batchers that
  // share this one's limits.
  std::optional<Refusal> Refuse(std::span<const std::unique_ptr<Job>> jobs, absl::Time now,
                                const Load& elsewhere = {}) const;

  // Takes the job, unconditionally, and sets its `queued`.
  void Add(std::unique_ptr<Job> job, absl::Time now);

  // The next batch for an idle lane; sets times.queue of its jobs. With max_delay 0, nullopt only
  // if no live job waits; else a job may also wait for company, until NextEvent.
  std::optional<Batch> TakeReady(absl::Time now);

  // The jobs that have died: by time, those found cancelled by TakeReady, and those DropCancelled
  // found.
  std::vector<Dropped> TakeDead(absl::Time now);

  // Looks for cancelled jobs among the next kSweep ones, by arrival, from number `from` on. Returns
  // the number to go on from; nullopt if that was the last. A sweep from 0 to nullopt finds all
  // that were cancelled before it began.
  static constexpr int kSweep = 512;
  std::optional<std::uint64_t> DropCancelled(std::uint64_t from);

  // When TakeDead or, with a max_delay, TakeReady may next have something new. InfiniteFuture: not
  // before an Add. InfinitePast: now.
  absl::Time NextEvent() const;

  // Appends a line for each bucket in which something waits, the one with the oldest job first. For
  // people who look now and then: takes O(jobs), so that a job's way costs no more for it.
  void Describe(Backend backend, std::vector<BucketSnapshot>& out) const;

  // Nothing waits for company any more.
  void BeginDrain();

  // Everything that is left, what has not died dropped with `why`.
  std::vector<Dropped> TakeAll(const Refusal& why);

  // TakeReady has something, unless it is dead.
  bool has_ready() const;
  bool has_dead() const { return !dropped_.empty(); }
  // What waits, until it leaves; the dead included.
  Load queued() const;
  // When the live job that has waited longest came; InfiniteFuture where none waits.
  absl::Time oldest() const;
  // Tests bound these.
  std::size_t live_buckets() const { return buckets_.size(); }
  std::size_t known_clients() const;

 private:
  struct Level {
    FairClock clock;
    FairQueue ripe;  // those that may head a batch
  };
  // What happens to a job when: by time, then arrival.
  using Agenda = absl::btree_map<std::pair<absl::Time, std::uint64_t>, QueuedJob*>;

  Level& LevelOf(const QueuedJob& job) { return levels_[static_cast<std::size_t>(job.level)]; }
  Level& normal() { return levels_[static_cast<std::size_t>(Priority::kNormal)]; }

  void EnterLevel(QueuedJob& job, Priority level);
  void Link(QueuedJob& job);
  void Unlink(QueuedJob& job);
  void Ripen(BucketQueue& bucket);
  absl::Time NextChange(const QueuedJob& job) const;
  void Refresh(QueuedJob& job, absl::Time now);
  void Change(QueuedJob& job, absl::Time now);
  void Settle(absl::Time now);

  QueuedJob* FirstLive(FairQueue& queue);
  QueuedJob* FirstLive(BucketQueue& bucket);
  Batch FormBatch(QueuedJob& head, absl::Time now);
  CloseReason ReasonFor(const QueuedJob& head, absl::Time now) const;

  std::unique_ptr<Job> Remove(QueuedJob& job);
  std::unique_ptr<Job> Take(QueuedJob& job, absl::Time now);
  void Drop(QueuedJob& job, Refusal why);

  BatcherOptions options_;
  bool draining_ = false;
  std::uint64_t next_sequence_ = 0;
  std::map<std::uint64_t, QueuedJob> jobs_;                            // by arrival
  absl::flat_hash_map<Bucket, std::shared_ptr<BucketQueue>> buckets_;  // not empty
  std::array<Level, 2> levels_;                                        // by Priority
  Agenda deaths_;
  Agenda changes_;  // urgent, ripe, aged
  std::vector<Dropped> dropped_;
  std::int64_t bytes_ = 0;
  absl::Duration cost_;
};

}  // namespace factord
