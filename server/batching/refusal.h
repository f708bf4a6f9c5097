// Refusal: why work is refused at admission, or dropped from the queue before it ran. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/batching/batcher_options.h"
#include "server/core/job.h"
#include "server/metrics/metrics.h"

namespace factord {

struct Refusal {
  Reject reason;        // for the metrics
  absl::Status status;  // for the client
};

// From when on the job is dead whatever happens: expired, or hopeless where its prediction was
// measured.
absl::Time DeadFrom(const Job& job);

// Why a job with now >= DeadFrom(job) is dead.
Refusal DeadRefusal(const Job& job, absl::Time now);
Refusal CancelledRefusal();

// Jobs, the bytes of their inputs and outputs, and how long they take to compute.
struct Load {
  std::int64_t jobs = 0;
  std::int64_t bytes = 0;
  absl::Duration cost;

  Load operator+(const Load& other) const {
    return {jobs + other.jobs, bytes + other.bytes, cost + other.cost};
  }
};

// Why `asked` can't join `queued`; nullopt if it can.
std::optional<Refusal> RefuseForSpace(const BatcherOptions& options, const Load& queued,
                                      const Load& asked);

}  // namespace factord
