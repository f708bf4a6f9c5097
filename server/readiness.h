// Readiness: whether the server says that it serves, and why not.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace factord {

// Warming up, then serving, then draining; never back. Thread-safe.
class Readiness {
 public:
  // `announce` is called under the lock, once with true when the last of `steps` is done (unless
  // draining came first), and once with false on the first Drain.
  Readiness(int steps, std::function<void(bool serving)> announce);

  void StepDone();
  void Drain();

  // nullopt while serving.
  std::optional<std::string> WhyNot() const;

 private:
  enum class Phase { kWarmingUp, kServing, kDraining };

  const std::function<void(bool serving)> announce_;
  mutable absl::Mutex mutex_;
  int steps_left_ ABSL_GUARDED_BY(mutex_);
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kWarmingUp;
};

}  // namespace factord
