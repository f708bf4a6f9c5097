// Metrics: every metric the server exports, declared here and nowhere else. docs/operations.md
// lists them.
//
// Children are bound once, at construction; label values come from fixed sets only (enums, RPC
// names), never from a request. Latencies are histograms in seconds, so that they can be aggregated
// over servers. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "server/core/batch.h"
#include "server/core/route.h"
#include "server/core/spec.h"
#include "server/metrics/age_registry.h"
#include "server/metrics/labels.h"
#include "server/metrics/metrics_snapshot.h"

namespace factord {

inline constexpr int kGrpcCodes = 17;
// "OK", "CANCELLED", ...; "UNKNOWN" where there is no such code.
absl::string_view GrpcCodeName(int code);

struct BuildInfo {
  std::string version;
  std::string grpc;
  std::string lapack;
  std::string compiler;
};

class Metrics {
 public:
  // `devices` are label values: "cpu", then "gpu0", .... Their indices are this class's devices.
  // `clock` says what time it is at a scrape.
  explicit Metrics(const BuildInfo& build, const std::vector<std::string>& devices = {"cpu"},
                   std::function<absl::Time()> clock = absl::Now);

  // What the exposer scrapes.
  std::shared_ptr<prometheus::Registry> registry() const { return registry_; }

  // A request, unary or one of a stream's, from its arrival to its last result's departure.
  void RequestStarted(Rpc rpc);
  void RequestEnded(Rpc rpc, int grpc_code, absl::Duration duration);
  void StageEnded(Stage stage, absl::Duration duration);
  void Rejected(Reject reason) { rejects_[Index(reason)]->Increment(); }

  void BatchEnded(const Batch& batch, absl::Duration busy, std::size_t device = 0);
  // `oldest`: when the job that has waited longest came; InfiniteFuture where none waits.
  void QueueChanged(std::int64_t jobs, std::int64_t bytes, absl::Time oldest);
  void JobsRunningChanged(std::int64_t jobs) { running_jobs_->Set(static_cast<double>(jobs)); }

  // One tensor of a request was sent to a backend.
  void Routed(Backend backend, RouteLabel label) {
    routes_[Index(backend)][Index(label)]->Increment();
  }
  void FellBack(std::size_t device, Fallback reason) {
    devices_[device].fallbacks[Index(reason)]->Increment();
  }
  // One more lane of the device. The lane says in what is returned since when it has been running
  // its batch.
  Since& AddLane(std::size_t device);
  void SetDeviceHealthy(std::size_t device, bool healthy) {
    devices_[device].healthy->Set(healthy ? 1 : 0);
  }
  void SetDeviceMemory(std::size_t device, MemoryKind kind, std::int64_t bytes) {
    devices_[device].memory[Index(kind)]->Set(static_cast<double>(bytes));
  }

  void BudgetChanged(std::int64_t bytes) { budget_used_->Set(static_cast<double>(bytes)); }
  void SetBudget(std::int64_t bytes) { budget_limit_->Set(static_cast<double>(bytes)); }
  void StreamOpened() { streams_->Increment(); }
  void StreamClosed() { streams_->Decrement(); }
  void Received(std::int64_t bytes) { received_->Increment(static_cast<double>(bytes)); }
  void Sent(std::int64_t bytes) { sent_->Increment(static_cast<double>(bytes)); }
  void RowsReduced(std::int64_t rows) { rows_reduced_->Increment(static_cast<double>(rows)); }
  void SpansDropped(std::int64_t spans) { spans_dropped_->Increment(static_cast<double>(spans)); }
  void SetServing(bool serving) { serving_->Set(serving ? 1 : 0); }

  // Not of one instant: values move while others are read.
  MetricsSnapshot Snapshot() const;

 private:
  template <typename Enum>
  static constexpr std::size_t Index(Enum value) {
    return static_cast<std::size_t>(value);
  }

  struct Device {
    std::string name;
    std::array<prometheus::Counter*, kCloseReasons> batches;
    prometheus::Histogram* batch_matrices;
    prometheus::Counter* busy_seconds;
    prometheus::Gauge* lanes;
    prometheus::Gauge* batch_age;
    prometheus::Gauge* healthy;
    std::array<prometheus::Counter*, kFallbacks> fallbacks;
    std::array<prometheus::Gauge*, kMemoryKinds> memory;
  };
  static DeviceSnapshot SnapshotOf(const Device& device);
  void BindDevices(const std::vector<std::string>& names);

  const std::shared_ptr<AgeRegistry> registry_;
  std::array<std::array<prometheus::Counter*, kGrpcCodes>, kRpcs> requests_;
  std::array<prometheus::Gauge*, kRpcs> in_flight_;
  std::array<prometheus::Histogram*, kRpcs> request_seconds_;
  std::array<prometheus::Histogram*, kStages> stage_seconds_;
  std::array<prometheus::Counter*, kRejects> rejects_;
  std::array<std::array<prometheus::Counter*, kDTypes>, kOps> matrices_;
  std::array<std::array<prometheus::Counter*, kDTypes>, kOps> flops_;
  std::array<prometheus::Counter*, kMatrixCodes> failures_;
  std::array<std::array<prometheus::Counter*, kRouteLabels>, kBackends> routes_;
  std::vector<Device> devices_;
  prometheus::Gauge* queue_jobs_;
  prometheus::Gauge* queue_bytes_;
  Since* queue_oldest_;
  prometheus::Gauge* running_jobs_;
  prometheus::Gauge* budget_used_;
  prometheus::Gauge* budget_limit_;
  prometheus::Gauge* streams_;
  prometheus::Gauge* serving_;
  prometheus::Counter* received_;
  prometheus::Counter* sent_;
  prometheus::Counter* rows_reduced_;
  prometheus::Counter* spans_dropped_;
};

}  // namespace factord
