#include "server/rpc/refusal.h"

#include "server/core/errors.h"

namespace factord {

absl::Status CheckAccepting(const ServiceContext& context) {
  if (!context.draining.load(std::memory_order_relaxed)) return absl::OkStatus();
  context.metrics->Rejected(Reject::kDraining);
  return Overloaded("DRAINING", "the server is shutting down; try another one", absl::Seconds(1));
}

void CountRefusal(const absl::Status& status, Metrics& metrics) {
  if (absl::IsInvalidArgument(status)) metrics.Rejected(Reject::kInvalid);
  if (absl::IsResourceExhausted(status)) metrics.Rejected(Reject::kTooLarge);
}

}  // namespace factord
