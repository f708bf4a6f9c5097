#include "server/engine/lane.h"

#include <pthread.h>

#include <utility>

#include "absl/time/clock.h"

namespace factord {

Lane::Lane(const std::string& name, Factorizer& factorizer, NextBatch next_batch, Finished finished,
           Failed failed)
    : factorizer_(factorizer),
      next_batch_(std::move(next_batch)),
      finished_(std::move(finished)),
      failed_(std::move(failed)),
      thread_([this, name = name.substr(0, 15)] {
        pthread_setname_np(pthread_self(), name.c_str());
        Loop();
      }) {}

Lane::~Lane() { thread_.join(); }

void Lane::Loop() {
  while (factorizer_.healthy()) {
    std::optional<Batch> batch = next_batch_();
    if (!batch) return;
    RunBatch(*batch);
  }
}

void Lane::RunBatch(Batch& batch) {
  const absl::Time started = absl::Now();
  const std::int64_t matrices = batch.matrices();
  const absl::Status status = factorizer_.Run(batch);
  const absl::Duration elapsed = absl::Now() - started;
  for (const auto& job : batch.jobs) {
    job->times.queue = started - job->queued;
    job->times.run = elapsed;
    job->batch_matrices = matrices;
  }
  if (finished_) finished_(batch, started, elapsed, status);
  if (!status.ok() && failed_) return failed_(std::move(batch), status);
  // A lone job is in nobody's way, and waits for no other thread to wake up.
  if (batch.jobs.size() == 1) return Complete(std::move(batch.jobs[0]), status);
  completer_.Push(std::move(batch), status);
}

}  // namespace factord
