#ifndef FACTORD_CLIENT_RETRY_H_
#define FACTORD_CLIENT_RETRY_H_

#include <functional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

namespace factord::client {

// When and how often an UNAVAILABLE call is tried again. No other code is retried: every other
// error would come back.
struct RetryPolicy {
  // Tries in all, the first included. 1 or less: no retries. More helps only against overload that
  // lasts.
  int max_attempts = 5;
  // The wait before the second try is random in (1/2, 1] of this; each later one doubles it, up to
  // max_backoff. The server's own wish (RetryInfo) is a lower bound of each wait. 0: no wait but
  // the server's.
  absl::Duration initial_backoff = absl::Milliseconds(50);
  absl::Duration max_backoff = absl::Seconds(2);
};

// What retrying takes from the outside world; tests put their own here. The functions must be
// thread-safe.
struct RetryEnvironment {
  std::function<absl::Time()> now;
  std::function<void(absl::Duration)> sleep;
  std::function<double()> uniform;  // in [0, 1)

  // The machine's clock, and a generator of its own for each thread.
  static RetryEnvironment Real();
};

// Calls `attempt` until it returns anything but UNAVAILABLE, the tries are used up, or the next
// wait would end at or after `deadline`; returns what the last try returned. Thread-safe if the
// environment is.
absl::Status RunWithRetries(const RetryPolicy& policy, absl::Time deadline,
                            const RetryEnvironment& environment,
                            absl::FunctionRef<absl::Status()> attempt);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_RETRY_H_
