// StreamRegistry: the open streams, and the one thread that looks after their time limits.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace factord {

// Something that wants to know the time now and then.
class Ticking {
 public:
  virtual ~Ticking() = default;
  virtual void Tick(absl::Time now) = 0;
};

// Thread-safe. Calls Tick of every registered stream each `period`, from its own thread, without
// holding its lock.
class StreamRegistry {
 public:
  explicit StreamRegistry(absl::Duration period);
  ~StreamRegistry();

  // Kept for as long as someone else owns it.
  void Add(std::weak_ptr<Ticking> stream);

  // Ticks at once, not at the period's end.
  void TickNow();

 private:
  void Loop();

  const absl::Duration period_;
  absl::Mutex mutex_;
  absl::CondVar wake_;
  std::vector<std::weak_ptr<Ticking>> streams_ ABSL_GUARDED_BY(mutex_);
  bool tick_now_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace factord
