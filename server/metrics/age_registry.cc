#include "server/metrics/age_registry.h"

#include <algorithm>

namespace factord {

absl::Duration Since::AgeAt(absl::Time now) const {
  return std::max(now - absl::FromUnixNanos(nanos_), absl::ZeroDuration());
}

Since& AgeRegistry::Watch(prometheus::Gauge& gauge) {
  absl::MutexLock lock(&mutex_);
  auto watched = std::find_if(watched_.begin(), watched_.end(),
                              [&](const Watched& other) { return other.gauge == &gauge; });
  if (watched == watched_.end()) watched = watched_.insert(watched_.end(), Watched{&gauge, {}});
  return *watched->things.emplace_back(std::make_unique<Since>());
}

std::vector<prometheus::MetricFamily> AgeRegistry::Collect() const {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = clock_();
  for (const Watched& watched : watched_) {
    absl::Duration oldest;
    for (const auto& thing : watched.things) oldest = std::max(oldest, thing->AgeAt(now));
    watched.gauge->Set(absl::ToDoubleSeconds(oldest));
  }
  return Registry::Collect();
}

}  // namespace factord
