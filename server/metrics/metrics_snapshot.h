// MetricsSnapshot: the metrics' values at one moment, for the status page. Plain values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/core/batch.h"
#include "server/metrics/histogram_counts.h"
#include "server/metrics/labels.h"

namespace factord {

struct DeviceSnapshot {
  std::string name;  // "cpu", "gpu0"
  bool healthy = true;
  double busy_seconds = 0;  // of all its lanes
  std::array<double, kMemoryKinds> memory_bytes{};
  std::array<double, kCloseReasons> batches{};
  HistogramCounts batch_matrices;
};

// Counters count from the server's start.
struct MetricsSnapshot {
  absl::Time taken;
  std::array<HistogramCounts, kRpcs> request_seconds;
  std::array<double, kRpcs> requests_failed{};  // ended with another code than OK
  std::array<HistogramCounts, kStages> stage_seconds;
  std::array<double, kRejects> rejects{};
  std::vector<DeviceSnapshot> devices;
  double matrices = 0;
  double flops = 0;
  double received_bytes = 0;
  double sent_bytes = 0;
  double queue_jobs = 0;
  double queue_bytes = 0;
  double running_jobs = 0;
  double streams = 0;
};

}  // namespace factord
