#include "server/metrics/metrics.h"

#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace factord {
namespace {

// The value of a counter or gauge, or a histogram's count, by name and labels; -1: there is none.
double ValueOf(const Metrics& metrics, const std::string& name,
               const std::map<std::string, std::string>& labels) {
  for (const prometheus::MetricFamily& family : metrics.registry()->Collect()) {
    if (family.name != name) continue;
    for (const prometheus::ClientMetric& metric : family.metric) {
      std::map<std::string, std::string> found;
      for (const auto& label : metric.label) found[label.name] = label.value;
      if (found != labels) continue;
      if (family.type == prometheus::MetricType::Histogram) {
        return static_cast<double>(metric.histogram.sample_count);
      }
      return family.type == prometheus::MetricType::Counter ? metric.counter.value
                                                            : metric.gauge.value;
    }
  }
  return -1;
}

Batch OneMatrix() {
  Batch batch;
  batch.jobs.push_back(std::make_unique<Job>());
  batch.jobs[0]->count = 1;
  return batch;
}

TEST(Metrics, BatchesAreCountedByDevice) {
  Metrics metrics({}, {"cpu", "gpu0", "gpu3"});
  metrics.BatchEnded(OneMatrix(), absl::Seconds(2), 2);
  metrics.BatchEnded(OneMatrix(), absl::Seconds(1));

  const auto batches = [&](const char* device) {
    return ValueOf(metrics, "factord_batches_total",
                   {{"close_reason", "idle"}, {"device", device}});
  };
  EXPECT_EQ(batches("cpu"), 1);
  EXPECT_EQ(batches("gpu0"), 0);
  EXPECT_EQ(batches("gpu3"), 1);
  EXPECT_EQ(ValueOf(metrics, "factord_lane_busy_seconds_total", {{"device", "gpu3"}}), 2);
  EXPECT_EQ(ValueOf(metrics, "factord_batch_matrices", {{"device", "gpu3"}}), 1);
}

TEST(Metrics, RoutesAreCountedByBackendAndLabel) {
  Metrics metrics({});
  metrics.Routed(Backend::kGpu, RouteLabel::kEstimated);
  const auto routes = [&](const char* backend, const char* label) {
    return ValueOf(metrics, "factord_route_total", {{"backend", backend}, {"label", label}});
  };
  EXPECT_EQ(routes("gpu", "estimated"), 1);
  EXPECT_EQ(routes("gpu", "measured"), 0);
  EXPECT_EQ(routes("cpu", "default"), 0);
}

TEST(Metrics, AgesAreThoseAtTheScrape) {
  absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  Metrics metrics({}, {"cpu", "gpu0"}, [&] { return now; });
  const auto queue_age = [&] { return ValueOf(metrics, "factord_queue_oldest_age_seconds", {}); };
  EXPECT_EQ(queue_age(), 0);

  metrics.QueueChanged(1, 100, now);
  now += absl::Seconds(7);  // and nothing else happens
  EXPECT_EQ(queue_age(), 7);
  now += absl::Milliseconds(500);
  EXPECT_EQ(queue_age(), 7.5);

  metrics.QueueChanged(0, 0, absl::InfiniteFuture());
  EXPECT_EQ(queue_age(), 0);
  metrics.QueueChanged(1, 100, now + absl::Seconds(1));  // a clock that was set back
  EXPECT_EQ(queue_age(), 0);
}

TEST(Metrics, ADevicesBatchIsAsOldAsThatOfItsSlowestLane) {
  absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  Metrics metrics({}, {"cpu", "gpu0"}, [&] { return now; });
  metrics.AddLane(0);
  Since& stuck = metrics.AddLane(1);
  Since& busy = metrics.AddLane(1);
  const auto gpu0 = [&](const char* name) { return ValueOf(metrics, name, {{"device", "gpu0"}}); };
  EXPECT_EQ(gpu0("factord_device_lanes"), 2);
  EXPECT_EQ(gpu0("factord_device_batch_age_seconds"), 0);

  stuck.Set(now);
  for (int i = 0; i < 10; ++i) {
    busy.Set(now);
    now += absl::Seconds(1);
    EXPECT_EQ(gpu0("factord_device_batch_age_seconds"), i + 1);
    busy.End();
  }
  stuck.End();

  EXPECT_EQ(gpu0("factord_device_batch_age_seconds"), 0);
  EXPECT_EQ(ValueOf(metrics, "factord_device_batch_age_seconds", {{"device", "cpu"}}), 0);
}

TEST(Metrics, DevicesTellTheirState) {
  Metrics metrics({}, {"cpu", "gpu0"});
  EXPECT_EQ(ValueOf(metrics, "factord_device_healthy", {{"device", "gpu0"}}), 1);

  metrics.SetDeviceHealthy(1, false);
  metrics.FellBack(1, Fallback::kDeviceLost);
  metrics.SetDeviceMemory(1, MemoryKind::kPinned, 77);

  EXPECT_EQ(ValueOf(metrics, "factord_device_healthy", {{"device", "gpu0"}}), 0);
  EXPECT_EQ(ValueOf(metrics, "factord_device_healthy", {{"device", "cpu"}}), 1);
  EXPECT_EQ(ValueOf(metrics, "factord_device_fallbacks_total",
                    {{"device", "gpu0"}, {"reason", "device_lost"}}),
            1);
  EXPECT_EQ(
      ValueOf(metrics, "factord_device_memory_bytes", {{"device", "gpu0"}, {"kind", "pinned"}}),
      77);
}

TEST(Metrics, ASnapshotHasWhatIsExported) {
  Metrics metrics({}, {"cpu", "gpu0"});
  Batch batch = OneMatrix();
  batch.reason = CloseReason::kFull;
  metrics.BatchEnded(batch, absl::Seconds(2), 1);
  metrics.RequestStarted(Rpc::kSolve);
  metrics.RequestEnded(Rpc::kSolve, 3, absl::Milliseconds(4));
  metrics.Rejected(Reject::kQueueFull);
  metrics.QueueChanged(7, 800, absl::InfiniteFuture());
  metrics.SetDeviceHealthy(1, false);
  metrics.SetDeviceMemory(1, MemoryKind::kPinned, 64);

  const MetricsSnapshot snapshot = metrics.Snapshot();

  const auto rpc = static_cast<std::size_t>(Rpc::kSolve);
  EXPECT_EQ(snapshot.request_seconds[rpc].total(), 1);
  EXPECT_NEAR(*snapshot.request_seconds[rpc].Quantile(1), 5e-3, 1e-9);
  EXPECT_EQ(snapshot.requests_failed[rpc], 1);
  EXPECT_EQ(snapshot.stage_seconds[static_cast<std::size_t>(Stage::kCompute)].total(), 1);
  EXPECT_EQ(snapshot.rejects[static_cast<std::size_t>(Reject::kQueueFull)], 1);
  EXPECT_EQ(snapshot.matrices, 1);
  EXPECT_EQ(snapshot.queue_jobs, 7);
  ASSERT_EQ(snapshot.devices.size(), 2);
  const DeviceSnapshot& gpu = snapshot.devices[1];
  EXPECT_EQ(gpu.name, "gpu0");
  EXPECT_FALSE(gpu.healthy);
  EXPECT_EQ(gpu.busy_seconds, 2);
  EXPECT_EQ(gpu.batches[static_cast<std::size_t>(CloseReason::kFull)], 1);
  EXPECT_EQ(gpu.batch_matrices.total(), 1);
  EXPECT_EQ(gpu.batch_matrices.counts.size(), gpu.batch_matrices.bounds.size() + 1);
  EXPECT_EQ(gpu.memory_bytes[static_cast<std::size_t>(MemoryKind::kPinned)], 64);
  EXPECT_EQ(snapshot.devices[0].batch_matrices.total(), 0);
}

}  // namespace
}  // namespace factord
