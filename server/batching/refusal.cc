#include "server/batching/refusal.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/core/errors.h"

namespace factord {
namespace {

constexpr absl::Duration kShortestRetry = absl::Milliseconds(1);
constexpr absl::Duration kLongestRetry = absl::Seconds(30);

// By then half of the queue is worked off: clients are back before it runs empty.
absl::Duration RetryDelay(const BatcherOptions& options, absl::Duration queued_cost) {
  return std::clamp(queued_cost / std::max(options.lanes, 1) / 2, kShortestRetry, kLongestRetry);
}

std::optional<Refusal> RefuseFor(const char* unit, std::int64_t limit, std::int64_t queued,
                                 std::int64_t asked, absl::Duration retry_delay) {
  if (asked > limit) {
    return Refusal{Reject::kTooLarge, absl::ResourceExhaustedError(
                                          absl::StrCat("the request's ", asked, " ", unit,
                                                       " exceed the queue's limit of ", limit))};
  }
  if (asked > limit - queued) {
    return Refusal{Reject::kQueueFull,
                   Overloaded("QUEUE_FULL",
                              absl::StrCat("the queue is full: ", queued, " of ", limit, " ", unit,
                                           " are waiting, the request has ", asked),
                              retry_delay)};
  }
  return std::nullopt;
}

}  // namespace

absl::Time DeadFrom(const Job& job) {
  if (!job.predicted_measured) return job.deadline;
  // Finishing exactly at the deadline is in time.
  return std::min(job.deadline, job.deadline - job.predicted + absl::Nanoseconds(1));
}

Refusal DeadRefusal(const Job& job, absl::Time now) {
  if (job.deadline <= now) {
    return {Reject::kExpired, absl::DeadlineExceededError(absl::StrCat(
                                  "the deadline passed ", absl::FormatDuration(now - job.deadline),
                                  " ago, before the work had started"))};
  }
  return {Reject::kHopeless,
          absl::DeadlineExceededError(absl::StrCat(
              "the deadline can't be met: it is in ", absl::FormatDuration(job.deadline - now),
              ", the work takes ", absl::FormatDuration(job.predicted), " on this server"))};
}

Refusal CancelledRefusal() {
  return {Reject::kCancelled, absl::CancelledError("cancelled before the work had started")};
}

std::optional<Refusal> RefuseForSpace(const BatcherOptions& options, const Load& queued,
                                      const Load& asked) {
  const absl::Duration retry_delay = RetryDelay(options, queued.cost);
  auto refusal = RefuseFor("jobs", options.max_queued_jobs, queued.jobs, asked.jobs, retry_delay);
  if (refusal) return refusal;
  return RefuseFor("bytes", options.max_queued_bytes, queued.bytes, asked.bytes, retry_delay);
}

}  // namespace factord
