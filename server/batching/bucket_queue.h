// BucketQueue: the jobs of one bucket that wait, and how far they fill a batch. Internal to the
// batcher.
#pragma once

#include <array>
#include <cstdint>

#include "absl/container/btree_map.h"
#include "absl/time/time.h"
#include "server/batching/batcher_options.h"
#include "server/batching/bucket.h"
#include "server/batching/fair_queue.h"
#include "server/batching/queued_job.h"

namespace factord {

// The size of a batch, or of what could become one.
struct BatchSize {
  std::int64_t matrices = 0;
  std::int64_t bytes = 0;
  absl::Duration cost;

  void Add(const QueuedJob& job) {
    matrices += job.job->count;
    bytes += job.bytes;
    cost += job.cost;
  }
  void Subtract(const QueuedJob& job) {
    matrices -= job.job->count;
    bytes -= job.bytes;
    cost -= job.cost;
  }
  bool AtCap(const BatcherOptions& options) const {
    return matrices >= options.max_batch_matrices || bytes >= options.max_batch_bytes ||
           cost >= options.max_batch_cost;
  }
  bool HasRoomFor(const QueuedJob& job, const BatcherOptions& options) const {
    BatchSize with = *this;
    with.Add(job);
    return with.matrices <= options.max_batch_matrices && with.bytes <= options.max_batch_bytes &&
           with.cost <= options.max_batch_cost;
  }
};

struct BucketQueue {
  explicit BucketQueue(const Bucket& key) : bucket(key) {}

  const Bucket bucket;
  std::array<FairQueue, 2> levels;                    // by Priority
  absl::btree_map<std::uint64_t, QueuedJob*> unripe;  // by arrival; empty if there is no delay
  std::int64_t jobs = 0;
  BatchSize size;  // of all of them
};

}  // namespace factord
