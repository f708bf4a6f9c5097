// BatcherOptions: the limits and times of the batching policy.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace factord {

// No value is invalid; "at 0" says what the extreme does. Sizes are in what they name, durations in
// wall time.
struct BatcherOptions {
  // Jobs that may wait. Bounds memory and the work of the queue itself; the longest a full queue
  // makes a request wait is this times a job's cost, so more only helps if clients have that long.
  // At 0: everything is refused.
  std::int64_t max_queued_jobs = 100'000;

  // Inputs and outputs of the jobs that wait, in bytes. Choose below the server's byte budget,
  // which also covers running work and replies. At 0: everything is refused, except jobs of empty
  // matrices.
  std::int64_t max_queued_bytes = std::int64_t{2} << 30;

  // Matrices in a batch: the count from which a larger batch is no faster per matrix. At 0, as for
  // the two below: one job a batch, for a batch always has its first job, however large.
  std::int64_t max_batch_matrices = 65'536;

  // Inputs and outputs of a batch, in bytes: what a lane's buffers hold.
  std::int64_t max_batch_bytes = std::int64_t{256} << 20;

  // Predicted cost of a batch: how long others may have to wait for a lane once a batch has
  // started. Lower: smaller batches, steadier latency. Higher: fuller batches. A single job may
  // cost more; that is for whoever splits requests.
  absl::Duration max_batch_cost = absl::Milliseconds(20);

  // How long a job may wait for company although a lane is idle. At 0 (recommended): never; batches
  // then grow by themselves while lanes are busy. Raise it only where launches cost more than the
  // wait.
  absl::Duration max_delay = absl::ZeroDuration();

  // How long a low-priority job waits before it counts as a normal one, so that it can't starve. At
  // 0: priorities have no effect. InfiniteDuration: low ones run only when no normal one waits.
  absl::Duration low_priority_ageing = absl::Seconds(1);

  // How long before its latest possible start a job becomes urgent and goes by deadline instead of
  // by fairness. Choose max_batch_cost (a lane has to come free, and company shares the job's
  // batch) plus the error of predictions. At 0: jobs with deadlines often start too late.
  // InfiniteDuration: earliest deadline first always, and no fairness among jobs that have
  // deadlines.
  absl::Duration deadline_slack = absl::Milliseconds(25);

  // Batches that run at once. Only the retry hint for refused requests uses it: queued cost / lanes
  // is the time to work the queue off. At 0: as 1.
  int lanes = 1;
};

}  // namespace factord
