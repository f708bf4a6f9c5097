// Refusals: when nothing more is accepted, and how what was refused is counted.
#pragma once

#include "absl/status/status.h"
#include "server/rpc/service_context.h"

namespace factord {

// UNAVAILABLE while the server drains.
absl::Status CheckAccepting(const ServiceContext& context);

// Counts a request that validation refused. Other refusals are counted where they are decided:
// budget, queue, backend.
void CountRefusal(const absl::Status& status, Metrics& metrics);

}  // namespace factord
