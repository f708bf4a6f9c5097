#include "server/rpc/refusal_log.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"
#include "server/core/errors.h"

namespace factord {
namespace {

std::string ReasonFor(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return std::string(Name(Reject::kInvalid));
    case absl::StatusCode::kResourceExhausted:
      return std::string(Name(Reject::kTooLarge));
    case absl::StatusCode::kFailedPrecondition:
      return std::string(Name(Reject::kNoBackend));
    case absl::StatusCode::kCancelled:
      return std::string(Name(Reject::kCancelled));
    case absl::StatusCode::kDeadlineExceeded:
      return "deadline";
    default:
      break;
  }
  const std::string reason = ReasonOf(status).value_or(absl::StatusCodeToString(status.code()));
  return absl::AsciiStrToLower(absl::StripPrefix(reason, "MEMORY_"));  // MEMORY_BUDGET_FULL
}

}  // namespace

void RefusalLog::Add(Rpc rpc, const absl::Status& status, absl::Time now) {
  if (status.ok()) return;
  RefusedRequest refused{.time = now,
                         .rpc = rpc,
                         .reason = ReasonFor(status),
                         .message = std::string(status.message().substr(0, kMaxMessageBytes))};
  absl::MutexLock lock(&mutex_);
  kept_.push_front(std::move(refused));
  if (kept_.size() > kKept) kept_.pop_back();
}

std::vector<RefusedRequest> RefusalLog::Recent() const {
  absl::MutexLock lock(&mutex_);
  return {kept_.begin(), kept_.end()};
}

}  // namespace factord
