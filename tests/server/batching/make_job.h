// Jobs for the batching tests: square factorizations, named by `first`.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "server/core/batch.h"
#include "server/core/job.h"

namespace factord {

inline const absl::Time kStart = absl::UnixEpoch() + absl::Hours(24 * 365);

inline Spec Factorization(std::int64_t m, std::int64_t n) {
  Spec spec;
  spec.m = m;
  spec.n = n;
  spec.q = QMode::kReduced;
  spec.r = true;
  return spec;
}

struct JobTraits {
  std::int64_t id = 0;
  std::string client = "alice";
  std::int64_t size = 32;  // m and n
  std::int64_t count = 1;
  absl::Duration predicted = absl::Milliseconds(1);
  bool measured = false;
  Priority priority = Priority::kNormal;
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<std::atomic<bool>> cancelled = nullptr;
  Backend route = Backend::kCpu;
  bool pinned = false;
};

// Its `done` does nothing.
inline std::unique_ptr<Job> MakeJob(const JobTraits& traits) {
  auto job = std::make_unique<Job>();
  job->spec = Factorization(traits.size, traits.size);
  job->first = traits.id;
  job->count = traits.count;
  job->client = traits.client;
  job->priority = traits.priority;
  job->deadline = traits.deadline;
  job->cancelled = traits.cancelled;
  job->predicted = traits.predicted;
  job->predicted_measured = traits.measured;
  job->route = traits.route;
  job->pinned = traits.pinned;
  job->done = [](Job&, const absl::Status&) {};
  return job;
}

inline std::vector<std::unique_ptr<Job>> OneJob(const JobTraits& traits) {
  std::vector<std::unique_ptr<Job>> jobs;
  jobs.push_back(MakeJob(traits));
  return jobs;
}

inline std::vector<std::int64_t> IdsOf(const Batch& batch) {
  std::vector<std::int64_t> ids;
  for (const auto& job : batch.jobs) ids.push_back(job->first);
  return ids;
}

}  // namespace factord
