// QueuedJob: a job while it waits, with what the batcher knows of it. Internal to the batcher.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "server/batching/fair_clock.h"
#include "server/core/job.h"

namespace factord {

struct BucketQueue;

struct QueuedJob {
  std::unique_ptr<Job> job;
  std::uint64_t sequence = 0;  // of arrival
  absl::Duration cost;         // predicted lane time, > 0
  std::int64_t bytes = 0;
  std::shared_ptr<BucketQueue> bucket;

  // When it changes, if still here. InfiniteFuture: never.
  absl::Time dead_from;   // expired, or no longer able to finish in time
  absl::Time safe_start;  // becomes urgent
  absl::Time ripe_from;   // has waited the maximum delay
  absl::Time aged_from;   // a low one counts as normal

  Priority level = Priority::kNormal;
  bool urgent = false;
  bool ripe = false;                      // may head a batch
  FairClock::Account* account = nullptr;  // of its client, at its level
};

}  // namespace factord
