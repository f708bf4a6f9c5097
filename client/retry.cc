#include "client/retry.h"

#include <algorithm>

#include "absl/random/random.h"
#include "absl/time/clock.h"
#include "client/grpc_status.h"

namespace factord::client {

RetryEnvironment RetryEnvironment::Real() {
  return {
      .now = absl::Now,
      .sleep = absl::SleepFor,
      .uniform =
          [] {
            thread_local absl::BitGen generator;
            return absl::Uniform(generator, 0.0, 1.0);
          },
  };
}

absl::Status RunWithRetries(const RetryPolicy& policy, absl::Time deadline,
                            const RetryEnvironment& environment,
                            absl::FunctionRef<absl::Status()> attempt) {
  absl::Duration backoff = std::min(policy.initial_backoff, policy.max_backoff);
  for (int tries = 1;; ++tries) {
    const absl::Status status = attempt();
    if (!absl::IsUnavailable(status) || tries >= policy.max_attempts) return status;

    // Clients that were refused together must not come back together: hence the jitter. It never
    // goes to zero, so that a refused client always gives way a little. It is added above the
    // server's wish, which all of them were told.
    const absl::Duration jittered = backoff * (1.0 - 0.5 * environment.uniform());
    const absl::Duration wait =
        std::max(jittered, RetryDelay(status).value_or(absl::ZeroDuration()) + jittered / 4);
    if (environment.now() + wait >= deadline) return status;
    environment.sleep(wait);
    backoff = std::min(backoff * 2, policy.max_backoff);
  }
}

}  // namespace factord::client
