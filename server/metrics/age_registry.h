// AgeRegistry: a registry that also knows gauges of how long something has been going on.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "prometheus/gauge.h"
#include "prometheus/registry.h"

namespace factord {

// Since when something has been going on, if it is. Thread-safe, without a lock.
class Since {
 public:
  // InfiniteFuture: it is not going on.
  void Set(absl::Time start) { nanos_ = absl::ToUnixNanos(start); }
  void End() { Set(absl::InfiniteFuture()); }

  // Zero if it is not going on.
  absl::Duration AgeAt(absl::Time now) const;

 private:
  std::atomic<std::int64_t> nanos_ = absl::ToUnixNanos(absl::InfiniteFuture());
};

// An age grows though nothing happens, and it is when nothing happens that one wants to know it: so
// these gauges are set when they are asked for. Thread-safe.
class AgeRegistry : public prometheus::Registry {
 public:
  explicit AgeRegistry(std::function<absl::Time()> clock) : clock_(std::move(clock)) {}

  // `gauge`, one of this registry's, tells the age; where several things share a gauge, the oldest
  // one's. What is returned lives as long as the registry.
  Since& Watch(prometheus::Gauge& gauge);

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  struct Watched {
    prometheus::Gauge* gauge;
    std::vector<std::unique_ptr<Since>> things;
  };

  const std::function<absl::Time()> clock_;
  mutable absl::Mutex mutex_;
  std::vector<Watched> watched_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace factord
