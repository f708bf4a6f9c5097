#include "server/http/history.h"

#include <utility>

namespace factord {

void History::Add(MetricsSnapshot sample) {
  samples_.push_back(std::move(sample));
  if (samples_.size() > kKept) samples_.pop_front();
}

const MetricsSnapshot* History::Before(absl::Time now) const {
  if (samples_.empty()) return nullptr;
  const MetricsSnapshot* before = &samples_.front();
  for (const MetricsSnapshot& sample : samples_) {
    if (now - sample.taken >= kWindow) before = &sample;
  }
  return before;
}

}  // namespace factord
