#include "server/metrics/metrics.h"

#include <cmath>
#include <iterator>
#include <utility>

#include "absl/time/clock.h"

namespace factord {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;
using Labels = prometheus::Labels;

// 10 us resolved, 100 s reached. Fine steps up to 10 ms, where a service like this lives; 1-2-5
// above.
Buckets LatencyBuckets() {
  return {10e-6,  20e-6,  30e-6,  50e-6, 75e-6, 100e-6, 150e-6, 200e-6, 300e-6, 500e-6,
          750e-6, 1e-3,   1.5e-3, 2e-3,  3e-3,  5e-3,   7.5e-3, 10e-3,  20e-3,  50e-3,
          100e-3, 200e-3, 500e-3, 1,     2,     5,      10,     20,     50,     100};
}

Buckets BatchBuckets() {
  Buckets buckets;
  for (double size = 1; size <= 1 << 20; size *= 2) buckets.push_back(size);
  return buckets;
}

constexpr absl::string_view kGrpcCodeNames[] = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};
static_assert(std::size(kGrpcCodeNames) == kGrpcCodes);

constexpr int kUnknownCode = 2;

bool IsGrpcCode(int code) { return code >= 0 && code < kGrpcCodes; }

prometheus::Family<prometheus::Counter>& Counters(prometheus::Registry& registry, const char* name,
                                                  const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

prometheus::Family<prometheus::Gauge>& Gauges(prometheus::Registry& registry, const char* name,
                                              const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}

prometheus::Family<prometheus::Histogram>& Histograms(prometheus::Registry& registry,
                                                      const char* name, const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

// children[e] = the family's child labelled label="Name(e)" and `others`, for every value of the
// enum.
template <typename Enum, typename Child, std::size_t kSize>
void BindEach(prometheus::Family<Child>& family, const char* label,
              std::array<Child*, kSize>& children, const Labels& others = {}) {
  for (std::size_t i = 0; i < kSize; ++i) {
    Labels labels = others;
    labels[label] = std::string(Name(static_cast<Enum>(i)));
    children[i] = &family.Add(labels);
  }
}

void BindOpsAndTypes(prometheus::Family<prometheus::Counter>& family,
                     std::array<std::array<prometheus::Counter*, kDTypes>, kOps>& children) {
  for (std::size_t op = 0; op < kOps; ++op) {
    for (std::size_t dtype = 0; dtype < kDTypes; ++dtype) {
      children[op][dtype] = &family.Add({{"op", std::string(Name(static_cast<Op>(op)))},
                                         {"dtype", std::string(Name(static_cast<DType>(dtype)))}});
    }
  }
}

HistogramCounts CountsOf(const prometheus::Histogram& histogram) {
  const auto collected = histogram.Collect().histogram;
  HistogramCounts counts;
  std::uint64_t below = 0;
  for (const auto& bucket : collected.bucket) {
    if (!std::isinf(bucket.upper_bound)) counts.bounds.push_back(bucket.upper_bound);
    counts.counts.push_back(bucket.cumulative_count - below);
    below = bucket.cumulative_count;
  }
  return counts;
}

template <std::size_t kSize>
double SumOf(const std::array<std::array<prometheus::Counter*, kSize>, kOps>& children) {
  double sum = 0;
  for (const auto& of_op : children) {
    for (const prometheus::Counter* child : of_op) sum += child->Value();
  }
  return sum;
}

}  // namespace

absl::string_view GrpcCodeName(int code) {
  return kGrpcCodeNames[IsGrpcCode(code) ? code : kUnknownCode];
}

Metrics::Metrics(const BuildInfo& build, const std::vector<std::string>& devices,
                 std::function<absl::Time()> clock)
    : registry_(std::make_shared<AgeRegistry>(std::move(clock))) {
  prometheus::Registry& registry = *registry_;
  auto& requests =
      Counters(registry, "factord_requests_total", "Requests ended, by RPC and gRPC status code.");
  for (std::size_t rpc = 0; rpc < kRpcs; ++rpc) {
    for (std::size_t code = 0; code < kGrpcCodes; ++code) {
      requests_[rpc][code] = &requests.Add({{"rpc", std::string(Name(static_cast<Rpc>(rpc)))},
                                            {"code", std::string(kGrpcCodeNames[code])}});
    }
  }
  BindEach<Rpc>(
      Gauges(registry, "factord_requests_in_flight", "Requests that arrived and have not ended."),
      "rpc", in_flight_);
  auto& request_seconds = Histograms(registry, "factord_request_duration_seconds",
                                     "From a request's arrival to its last result's departure.");
  for (std::size_t rpc = 0; rpc < kRpcs; ++rpc) {
    request_seconds_[rpc] =
        &request_seconds.Add({{"rpc", std::string(Name(static_cast<Rpc>(rpc)))}}, LatencyBuckets());
  }
  auto& stage_seconds =
      Histograms(registry, "factord_stage_duration_seconds",
                 "Time in one stage. decode, encode: of a request; queue: of a job; "
                 "pack, compute, unpack: of a job, summed over threads.");
  for (std::size_t stage = 0; stage < kStages; ++stage) {
    stage_seconds_[stage] = &stage_seconds.Add(
        {{"stage", std::string(Name(static_cast<Stage>(stage)))}}, LatencyBuckets());
  }
  BindEach<Reject>(Counters(registry, "factord_rejected_total",
                            "Requests refused and jobs dropped before they ran, by reason."),
                   "reason", rejects_);
  BindOpsAndTypes(Counters(registry, "factord_matrices_total", "Matrices computed."), matrices_);
  BindOpsAndTypes(
      Counters(registry, "factord_flops_total",
               "Floating-point operations of the matrices computed, by LAPACK's counts."),
      flops_);
  BindEach<MatrixCode>(
      Counters(registry, "factord_matrix_failures_total", "Matrices with a status of their own."),
      "code", failures_);
  auto& routes = Counters(registry, "factord_route_total",
                          "Tensors sent to a backend, by what the choice rests on.");
  for (std::size_t backend = 0; backend < kBackends; ++backend) {
    BindEach<RouteLabel>(routes, "label", routes_[backend],
                         {{"backend", std::string(Name(static_cast<Backend>(backend)))}});
  }
  BindDevices(devices);
  queue_jobs_ = &Gauges(registry, "factord_queue_jobs", "Jobs waiting for a lane.").Add({});
  queue_bytes_ =
      &Gauges(registry, "factord_queue_bytes", "Inputs and outputs of the jobs waiting.").Add({});
  queue_oldest_ =
      &registry_->Watch(Gauges(registry, "factord_queue_oldest_age_seconds",
                               "How long the job that has waited longest for a lane has waited.")
                            .Add({}));
  running_jobs_ = &Gauges(registry, "factord_running_jobs", "Jobs on a lane.").Add({});
  budget_used_ = &Gauges(registry, "factord_memory_in_flight_bytes",
                         "Byte budget taken by requests in flight.")
                      .Add({});
  budget_limit_ =
      &Gauges(registry, "factord_memory_budget_bytes", "Byte budget of all requests together.")
           .Add({});
  streams_ =
      &Gauges(registry, "factord_streams", "FactorizeStream and ReduceRows calls open.").Add({});
  serving_ =
      &Gauges(registry, "factord_serving", "1 while the health service says SERVING.").Add({});
  received_ =
      &Counters(registry, "factord_received_bytes_total", "Request messages received.").Add({});
  sent_ =
      &Counters(registry, "factord_sent_bytes_total", "Response messages handed to gRPC.").Add({});
  rows_reduced_ =
      &Counters(registry, "factord_reduced_rows_total", "Rows of ReduceRows that were reduced.")
           .Add({});
  spans_dropped_ = &Counters(registry, "factord_spans_dropped_total",
                             "Spans of sampled requests that did not reach the trace file.")
                        .Add({});
  Gauges(registry, "factord_build_info", "1; what is running.")
      .Add({{"version", build.version},
            {"grpc", build.grpc},
            {"lapack", build.lapack},
            {"compiler", build.compiler}})
      .Set(1);
}

void Metrics::BindDevices(const std::vector<std::string>& names) {
  prometheus::Registry& registry = *registry_;
  auto& batches = Counters(registry, "factord_batches_total",
                           "Batches run, by why they were closed and what ran them.");
  auto& batch_matrices = Histograms(registry, "factord_batch_matrices", "Matrices in a batch.");
  auto& busy_seconds =
      Counters(registry, "factord_lane_busy_seconds_total", "Time lanes spent running batches.");
  auto& lanes = Gauges(registry, "factord_device_lanes", "Lanes of the device.");
  auto& batch_age = Gauges(registry, "factord_device_batch_age_seconds",
                           "How long the oldest batch that a device runs now has been running.");
  auto& healthy = Gauges(registry, "factord_device_healthy", "1 while the device runs batches.");
  auto& fallbacks = Counters(registry, "factord_device_fallbacks_total",
                             "Batches that a device did not finish, by why.");
  auto& memory = Gauges(registry, "factord_device_memory_bytes",
                        "What a device has, and what is reserved on it and pinned for it.");
  for (const std::string& name : names) {
    const Labels labels = {{"device", name}};
    Device& device = devices_.emplace_back();
    device.name = name;
    BindEach<CloseReason>(batches, "close_reason", device.batches, labels);
    device.batch_matrices = &batch_matrices.Add(labels, BatchBuckets());
    device.busy_seconds = &busy_seconds.Add(labels);
    device.lanes = &lanes.Add(labels);
    device.batch_age = &batch_age.Add(labels);
    device.healthy = &healthy.Add(labels);
    device.healthy->Set(1);
    BindEach<Fallback>(fallbacks, "reason", device.fallbacks, labels);
    BindEach<MemoryKind>(memory, "kind", device.memory, labels);
  }
}

void Metrics::RequestStarted(Rpc rpc) { in_flight_[Index(rpc)]->Increment(); }

void Metrics::RequestEnded(Rpc rpc, int grpc_code, absl::Duration duration) {
  in_flight_[Index(rpc)]->Decrement();
  const int code = IsGrpcCode(grpc_code) ? grpc_code : kUnknownCode;
  requests_[Index(rpc)][static_cast<std::size_t>(code)]->Increment();
  request_seconds_[Index(rpc)]->Observe(absl::ToDoubleSeconds(duration));
}

void Metrics::StageEnded(Stage stage, absl::Duration duration) {
  stage_seconds_[Index(stage)]->Observe(absl::ToDoubleSeconds(duration));
}

void Metrics::BatchEnded(const Batch& batch, absl::Duration busy, std::size_t device) {
  devices_[device].batches[Index(batch.reason)]->Increment();
  devices_[device].batch_matrices->Observe(static_cast<double>(batch.matrices()));
  devices_[device].busy_seconds->Increment(absl::ToDoubleSeconds(busy));
  for (const auto& job : batch.jobs) {
    const double count = static_cast<double>(job->count);
    matrices_[Index(job->spec.op)][Index(job->spec.dtype)]->Increment(count);
    flops_[Index(job->spec.op)][Index(job->spec.dtype)]->Increment(count * FlopsOf(job->spec));
    for (const MatrixFailure& failure : job->failures) failures_[Index(failure.code)]->Increment();
    StageEnded(Stage::kQueue, job->times.queue);
    StageEnded(Stage::kPack, job->times.pack);
    StageEnded(Stage::kCompute, job->times.compute);
    StageEnded(Stage::kUnpack, job->times.unpack);
  }
}

Since& Metrics::AddLane(std::size_t device) {
  devices_[device].lanes->Increment();
  return registry_->Watch(*devices_[device].batch_age);
}

void Metrics::QueueChanged(std::int64_t jobs, std::int64_t bytes, absl::Time oldest) {
  queue_jobs_->Set(static_cast<double>(jobs));
  queue_bytes_->Set(static_cast<double>(bytes));
  queue_oldest_->Set(oldest);
}

DeviceSnapshot Metrics::SnapshotOf(const Device& device) {
  DeviceSnapshot snapshot{.name = device.name,
                          .healthy = device.healthy->Value() > 0,
                          .busy_seconds = device.busy_seconds->Value(),
                          .batch_matrices = CountsOf(*device.batch_matrices)};
  for (std::size_t i = 0; i < kMemoryKinds; ++i) {
    snapshot.memory_bytes[i] = device.memory[i]->Value();
  }
  for (std::size_t i = 0; i < kCloseReasons; ++i) snapshot.batches[i] = device.batches[i]->Value();
  return snapshot;
}

MetricsSnapshot Metrics::Snapshot() const {
  MetricsSnapshot snapshot;
  snapshot.taken = absl::Now();
  for (std::size_t rpc = 0; rpc < kRpcs; ++rpc) {
    snapshot.request_seconds[rpc] = CountsOf(*request_seconds_[rpc]);
    for (std::size_t code = 1; code < kGrpcCodes; ++code) {
      snapshot.requests_failed[rpc] += requests_[rpc][code]->Value();
    }
  }
  for (std::size_t i = 0; i < kStages; ++i)
    snapshot.stage_seconds[i] = CountsOf(*stage_seconds_[i]);
  for (std::size_t i = 0; i < kRejects; ++i) snapshot.rejects[i] = rejects_[i]->Value();
  for (const Device& device : devices_) snapshot.devices.push_back(SnapshotOf(device));
  snapshot.matrices = SumOf(matrices_);
  snapshot.flops = SumOf(flops_);
  snapshot.received_bytes = received_->Value();
  snapshot.sent_bytes = sent_->Value();
  snapshot.queue_jobs = queue_jobs_->Value();
  snapshot.queue_bytes = queue_bytes_->Value();
  snapshot.running_jobs = running_jobs_->Value();
  snapshot.streams = streams_->Value();
  return snapshot;
}

}  // namespace factord
