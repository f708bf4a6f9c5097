// RefusalLog: the last requests that ended with an error, for people. No matrices, nothing of who
// asked.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/metrics/labels.h"

namespace factord {

struct RefusedRequest {
  absl::Time time;
  Rpc rpc = Rpc::kFactorize;
  // As the label of factord_rejected_total where the status tells; "deadline" for those that were
  // too late, else the status code.
  std::string reason;
  std::string message;  // what the client was told, at most kMaxMessageBytes of it
};

// Thread-safe.
class RefusalLog {
 public:
  static constexpr std::size_t kKept = 50;
  static constexpr std::size_t kMaxMessageBytes = 300;

  // OK is none.
  void Add(Rpc rpc, const absl::Status& status, absl::Time now);

  // The newest first.
  std::vector<RefusedRequest> Recent() const;

 private:
  mutable absl::Mutex mutex_;
  std::deque<RefusedRequest> kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace factord
