// What every RPC needs of the server, wired in server.cc. Constant after construction but for the
// objects it points to, which are thread-safe and outlive the service.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/batching/dispatcher.h"
#include "server/core/byte_budget.h"
#include "server/core/cost_model.h"
#include "server/core/route.h"
#include "server/core/types.h"
#include "server/metrics/metrics.h"
#include "server/rpc/codec.h"
#include "server/rpc/refusal_log.h"
#include "server/rpc/request_log.h"
#include "server/security/auth_tokens.h"
#include "server/trace/span_exporter.h"

namespace factord {

struct DeviceDescription {
  std::string name;  // "gpu0", as in metrics
  std::string model;
  std::int64_t memory_bytes = 0;
  int lanes = 0;
  std::function<bool()> healthy;
};

struct BackendDescription {
  Backend backend = Backend::kCpu;
  std::string name;     // the device or CPU model
  std::string library;  // what does the arithmetic
  int threads = 1;
  int lanes = 1;
  std::string driver;  // of the devices
  std::vector<DeviceDescription> devices;
  std::function<bool()> healthy;
  std::function<std::string_view(const Spec&)> path_of;
};

struct ServiceContext {
  Dispatcher* dispatcher = nullptr;
  const std::array<CostModel, kBackends>* costs = nullptr;
  // Where a run goes; see engine/router.h.
  std::function<Route(const RouteQuery&)> route;
  RouteLabel routing = RouteLabel::kDefault;  // what its predictions rest on
  std::string routing_table;                  // for people
  // Shared with the requests: gRPC may keep the last slices of a result, and with them their
  // request, until its connection is gone, which a server that has shut down does not wait for.
  std::shared_ptr<Metrics> metrics;
  std::shared_ptr<ByteBudget> budget;
  std::shared_ptr<RequestLog> request_log = std::make_shared<RequestLog>();
  SpanExporter* spans = nullptr;  // null: no traces
  double trace_sample_ratio = 0;  // of the requests that do not say whether they are sampled
  std::vector<BackendDescription> backends;  // at least one
  std::shared_ptr<const TokenFile> tokens;   // null: callers need none
  Limits limits;
  std::string version;
  absl::Time started;

  // Streams. See options.h for the flags behind these.
  std::int64_t chunk_bytes = 2 << 20;                 // of a result chunk
  absl::Duration upload_timeout = absl::Seconds(60);  // between two chunks of an upload
  absl::Duration stall_timeout = absl::Seconds(30);   // of one write that the client does not read

  // A request is split into jobs of about this size, so that results stream and others get their
  // turn.
  std::int64_t job_bytes = 4 << 20;
  absl::Duration job_cost = absl::Milliseconds(10);

  std::atomic<bool> draining{false};
  RefusalLog refusals;

  const CostModel& CostsOf(Backend backend) const {
    return (*costs)[static_cast<std::size_t>(backend)];
  }

  // Calls that gRPC has not done with yet.
  void CallStarted();
  void CallEnded();
  // False where some are left at `deadline`.
  bool WaitForCalls(absl::Time deadline);

 private:
  absl::Mutex mutex_;
  absl::CondVar no_calls_;
  std::int64_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace factord
