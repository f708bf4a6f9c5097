// Sampler: keeps a History up to date.
#pragma once

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/http/history.h"
#include "server/metrics/metrics.h"

namespace factord {

// Thread-safe. One thread, which takes a sample every History::kStep. `metrics` outlives it.
class Sampler {
 public:
  explicit Sampler(const Metrics& metrics);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // Calls `read` with the history, under the lock.
  void Read(const std::function<void(const History&)>& read) const;

 private:
  void Loop();

  const Metrics& metrics_;
  mutable absl::Mutex mutex_;
  absl::CondVar stop_wake_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  History history_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace factord
