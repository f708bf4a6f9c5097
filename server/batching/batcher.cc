#include "server/batching/batcher.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "server/batching/bucket_queue.h"
#include "server/batching/refusal.h"

namespace factord {
namespace {

// Even an empty matrix keeps a lane busy; and clients of free work would never have had their
// share.
constexpr absl::Duration kLeastCost = absl::Microseconds(1);

std::size_t Index(Priority level) { return static_cast<std::size_t>(level); }

}  // namespace

Batcher::Batcher(const BatcherOptions& options) : options_(options) {}

bool Batcher::has_ready() const { return !levels_[0].ripe.empty() || !levels_[1].ripe.empty(); }

Load Batcher::queued() const {
  return {static_cast<std::int64_t>(jobs_.size() + dropped_.size()), bytes_, cost_};
}

absl::Time Batcher::oldest() const {
  return jobs_.empty() ? absl::InfiniteFuture() : jobs_.begin()->second.job->queued;
}

std::size_t Batcher::known_clients() const {
  return levels_[0].clock.accounts() + levels_[1].clock.accounts();
}

std::optional<Refusal> Batcher::Refuse(std::span<const std::unique_ptr<Job>> jobs, absl::Time now,
                                       const Load& elsewhere) const {
  Load asked;
  for (const auto& job : jobs) {
    if (job->is_cancelled()) return CancelledRefusal();
    if (DeadFrom(*job) <= now) return DeadRefusal(*job, now);
    ++asked.jobs;
    asked.bytes += job->bytes();
  }
  return RefuseForSpace(options_, queued() + elsewhere, asked);
}

void Batcher::Add(std::unique_ptr<Job> added, absl::Time now) {
  const std::uint64_t sequence = next_sequence_++;
  QueuedJob& job = jobs_.try_emplace(jobs_.end(), sequence)->second;
  added->queued = now;
  job.sequence = sequence;
  job.cost = std::max(added->predicted, kLeastCost);
  job.bytes = added->bytes();
  job.dead_from = DeadFrom(*added);
  job.safe_start = added->deadline - added->predicted - options_.deadline_slack;
  job.ripe_from = now + options_.max_delay;
  job.aged_from = now + options_.low_priority_ageing;
  job.job = std::move(added);

  const Bucket bucket = BucketOf(job.job->spec);
  std::shared_ptr<BucketQueue>& queue = buckets_[bucket];
  if (queue == nullptr) queue = std::make_shared<BucketQueue>(bucket);
  job.bucket = queue;
  ++queue->jobs;
  queue->size.Add(job);
  bytes_ += job.bytes;
  cost_ += job.cost;

  EnterLevel(job, job.job->priority);
  Refresh(job, now);
  Link(job);
  if (job.dead_from < absl::InfiniteFuture()) deaths_.try_emplace({job.dead_from, sequence}, &job);
  if (queue->size.AtCap(options_)) Ripen(*queue);
}

void Batcher::EnterLevel(QueuedJob& job, Priority level) {
  job.level = level;
  auto& [clock, ripe] = LevelOf(job);
  // Where a client that comes now starts: with whose turn it is.
  if (const auto start = ripe.NextStart()) {
    clock.AdvanceTo(*start);
  } else {
    clock.ForgiveDebts();
  }
  job.account = clock.Enter(job.job->client);
}

void Batcher::Link(QueuedJob& job) {
  job.bucket->levels[Index(job.level)].Add(&job);
  if (job.ripe) {
    LevelOf(job).ripe.Add(&job);
  } else {
    job.bucket->unripe.emplace(job.sequence, &job);
  }
  if (const absl::Time next = NextChange(job); next < absl::InfiniteFuture()) {
    changes_.try_emplace({next, job.sequence}, &job);
  }
}

void Batcher::Unlink(QueuedJob& job) {
  job.bucket->levels[Index(job.level)].Remove(&job);
  if (job.ripe) {
    LevelOf(job).ripe.Remove(&job);
  } else {
    job.bucket->unripe.erase(job.sequence);
  }
  changes_.erase(std::pair(NextChange(job), job.sequence));
}

absl::Time Batcher::NextChange(const QueuedJob& job) const {
  absl::Time next = absl::InfiniteFuture();
  if (!job.urgent) next = std::min(next, job.safe_start);
  if (!job.ripe) next = std::min(next, job.ripe_from);
  if (job.level == Priority::kLow) next = std::min(next, job.aged_from);
  return next;
}

// Brings the job's level, urgency and ripeness up to date. REQUIRES: not linked.
void Batcher::Refresh(QueuedJob& job, absl::Time now) {
  if (job.level == Priority::kLow && job.aged_from <= now) {
    LevelOf(job).clock.Leave(job.account);
    EnterLevel(job, Priority::kNormal);
  }
  job.urgent = job.urgent || job.safe_start <= now;
  job.ripe = job.ripe || job.urgent || job.ripe_from <= now || draining_;
}

void Batcher::Change(QueuedJob& job, absl::Time now) {
  Unlink(job);
  Refresh(job, now);
  Link(job);
}

void Batcher::Ripen(BucketQueue& bucket) {
  while (!bucket.unripe.empty()) {
    QueuedJob& job = *bucket.unripe.begin()->second;
    Unlink(job);
    job.ripe = true;
    Link(job);
  }
}

void Batcher::Settle(absl::Time now) {
  while (!deaths_.empty() && deaths_.begin()->first.first <= now) {
    QueuedJob& job = *deaths_.begin()->second;
    Drop(job, DeadRefusal(*job.job, now));
  }
  while (!changes_.empty() && changes_.begin()->first.first <= now) {
    Change(*changes_.begin()->second, now);
  }
}

QueuedJob* Batcher::FirstLive(FairQueue& queue) {
  while (QueuedJob* first = queue.First()) {
    if (!first->job->is_cancelled()) return first;
    Drop(*first, CancelledRefusal());
  }
  return nullptr;
}

QueuedJob* Batcher::FirstLive(BucketQueue& bucket) {
  QueuedJob* first = FirstLive(bucket.levels[Index(Priority::kNormal)]);
  if (first != nullptr || !normal().ripe.empty()) return first;
  return FirstLive(bucket.levels[Index(Priority::kLow)]);
}

std::optional<Batch> Batcher::TakeReady(absl::Time now) {
  Settle(now);
  for (Level& level : levels_) {
    if (QueuedJob* head = FirstLive(level.ripe)) return FormBatch(*head, now);
  }
  return std::nullopt;
}

Batch Batcher::FormBatch(QueuedJob& head, absl::Time now) {
  if (!head.urgent) LevelOf(head).clock.AdvanceTo(head.account->time + head.cost);
  const CloseReason reason = ReasonFor(head, now);
  const std::shared_ptr<BucketQueue> bucket = head.bucket;  // outlives its last job
  BatchSize size;
  Batch batch;
  bool full = false;
  for (QueuedJob* next = &head; next != nullptr; next = FirstLive(*bucket)) {
    full = !batch.jobs.empty() && !size.HasRoomFor(*next, options_);
    if (full) break;
    size.Add(*next);
    batch.jobs.push_back(Take(*next, now));
  }
  batch.reason = full || size.AtCap(options_) ? CloseReason::kFull : reason;
  return batch;
}

CloseReason Batcher::ReasonFor(const QueuedJob& head, absl::Time now) const {
  if (draining_) return CloseReason::kDrain;
  if (head.urgent) return CloseReason::kDeadline;
  const bool delayed = options_.max_delay > absl::ZeroDuration() && head.ripe_from <= now;
  return delayed ? CloseReason::kDelay : CloseReason::kIdle;
}

std::unique_ptr<Job> Batcher::Remove(QueuedJob& job) {
  Unlink(job);
  deaths_.erase(std::pair(job.dead_from, job.sequence));
  BucketQueue& bucket = *job.bucket;
  bucket.size.Subtract(job);
  if (--bucket.jobs == 0) buckets_.erase(bucket.bucket);
  LevelOf(job).clock.Leave(job.account);
  cost_ -= job.cost;
  std::unique_ptr<Job> removed = std::move(job.job);
  jobs_.erase(job.sequence);
  return removed;
}

std::unique_ptr<Job> Batcher::Take(QueuedJob& job, absl::Time now) {
  LevelOf(job).clock.Charge(job.account, job.cost);
  bytes_ -= job.bytes;
  std::unique_ptr<Job> taken = Remove(job);
  taken->times.queue = std::max(now - taken->queued, absl::ZeroDuration());
  return taken;
}

void Batcher::Drop(QueuedJob& job, Refusal why) {
  dropped_.push_back({Remove(job), std::move(why)});
}

std::optional<std::uint64_t> Batcher::DropCancelled(std::uint64_t from) {
  auto it = jobs_.lower_bound(from);
  for (int looked = 0; it != jobs_.end() && looked < kSweep; ++looked) {
    QueuedJob& job = (it++)->second;
    if (job.job->is_cancelled()) Drop(job, CancelledRefusal());
  }
  if (it == jobs_.end()) return std::nullopt;
  return it->first;
}

std::vector<Dropped> Batcher::TakeDead(absl::Time now) {
  Settle(now);
  for (const Dropped& dropped : dropped_) bytes_ -= dropped.job->bytes();
  return std::exchange(dropped_, {});
}

std::vector<Dropped> Batcher::TakeAll(const Refusal& why) {
  while (!jobs_.empty()) Drop(jobs_.begin()->second, why);
  return TakeDead(absl::InfinitePast());
}

absl::Time Batcher::NextEvent() const {
  if (has_dead()) return absl::InfinitePast();
  absl::Time next = deaths_.empty() ? absl::InfiniteFuture() : deaths_.begin()->first.first;
  if (options_.max_delay > absl::ZeroDuration() && !changes_.empty()) {
    next = std::min(next, changes_.begin()->first.first);
  }
  return next;
}

void Batcher::Describe(Backend backend, std::vector<BucketSnapshot>& out) const {
  absl::flat_hash_set<const BucketQueue*> seen;
  for (const auto& [sequence, job] : jobs_) {
    if (seen.size() == buckets_.size()) break;
    const BucketQueue& queue = *job.bucket;
    if (!seen.insert(&queue).second) continue;
    out.push_back({.bucket = queue.bucket,
                   .backend = backend,
                   .jobs = queue.jobs,
                   .matrices = queue.size.matrices,
                   .bytes = queue.size.bytes,
                   .oldest = job.job->queued});
  }
}

void Batcher::BeginDrain() {
  draining_ = true;
  for (auto& [bucket, queue] : buckets_) Ripen(*queue);
}

}  // namespace factord
