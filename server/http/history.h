// History: the metrics of the last minutes, sampled at a fixed step.
#pragma once

#include <cstddef>
#include <deque>

#include "absl/time/time.h"
#include "server/metrics/metrics_snapshot.h"

namespace factord {

// A ring of samples, the oldest first. A value; time comes with the samples.
class History {
 public:
  static constexpr absl::Duration kStep = absl::Seconds(2);
  static constexpr std::size_t kKept = 61;  // two minutes
  // What latencies and sizes are told over.
  static constexpr absl::Duration kWindow = absl::Seconds(60);

  void Add(MetricsSnapshot sample);

  // The sample to compare one taken at `now` with: the youngest that is at least kWindow old, or
  // the oldest there is. Null while there is none.
  const MetricsSnapshot* Before(absl::Time now) const;

  const std::deque<MetricsSnapshot>& samples() const { return samples_; }

 private:
  std::deque<MetricsSnapshot> samples_;
};

}  // namespace factord
