// Options: how a server is set up. One struct; flags.cc has one flag per field, with the same name
// and default.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace factord {

// Sizes are in bytes. docs/operations.md says how to choose each.
struct Options {
  // Addresses to serve on: host:port (port 0: any free one) or unix:PATH. Loopback unless told
  // otherwise.
  std::vector<std::string> listen = {"127.0.0.1:50051"};
  // Where Prometheus scrapes; empty: nowhere.
  std::string metrics_listen = "127.0.0.1:9464";
  // Answers what services there are.
  bool reflection = true;

  // PEM files: the server's certificate with its chain, and its key. Both or neither: TLS on all
  // addresses but unix ones, or on none.
  std::string tls_cert = {};
  std::string tls_key = {};
  // PEM file: clients show a certificate that one of these signed. Empty: they show none.
  std::string tls_client_ca = {};
  // A bearer token a line; calls bring one of them. Empty: they need none.
  std::string auth_token_file = {};

  // BATCHxMxN or BATCHxMxN:TYPE: run once before health says SERVING.
  std::vector<std::string> warmup_shapes = {};

  // Threads that factorize. 0: one for each core this process may use.
  int cpu_threads = 0;
  // What does the CPU's arithmetic: simd (kernels/cpu) or lapack.
  std::string cpu_engine = "simd";

  // Where a request runs that does not say so: auto (by predicted time), cpu or gpu.
  std::string backend = "auto";
  // auto: the GPUs that are there; off; required: no server without one.
  std::string gpu = "auto";
  // CUDA's numbers of those to use. Empty: all.
  std::vector<std::string> gpu_devices = {};
  // Batches at once on one GPU.
  int gpu_lanes = 2;
  // Of one lane, on the device. 0: an eighth of the device's memory.
  std::int64_t gpu_memory_bytes = 0;
  // Of one lane, page-locked on the host.
  std::int64_t gpu_pinned_bytes = std::int64_t{1} << 30;
  // With backend auto: tensors with at least this much work go to the GPU, others don't. 0: by
  // predicted time.
  std::int64_t gpu_min_flops = 0;
  // Of `factord tune`. Empty: the built-in one that fits best.
  std::string routing_table = {};

  // Of one gRPC message, either way.
  std::int64_t max_message_bytes = std::int64_t{64} << 20;
  // Tensors in one request.
  std::int64_t max_tensors = 16'384;
  // Inputs and results of all requests together. 0: half of what this process may use.
  std::int64_t memory_budget_bytes = 0;
  // RPCs at once on one connection.
  int max_concurrent_streams = 1024;

  // Jobs that may wait for a lane.
  std::int64_t max_queued_jobs = 100'000;
  // Matrices in one batch.
  std::int64_t max_batch_matrices = 65'536;
  // Inputs and results of one batch.
  std::int64_t max_batch_bytes = std::int64_t{256} << 20;
  // Predicted time of one batch; caps how long others wait for a lane.
  absl::Duration max_batch_cost = absl::Milliseconds(50);
  // How long a batch may wait for company though a lane is idle.
  absl::Duration max_batch_delay = absl::ZeroDuration();
  // How long low-priority work waits before it counts as normal.
  absl::Duration low_priority_ageing = absl::Seconds(1);

  // Of one chunk of a streamed result.
  std::int64_t chunk_bytes = 2 << 20;
  // The longest gap between two chunks of an upload.
  absl::Duration upload_timeout = absl::Seconds(60);
  // The longest a client may leave a result unread.
  absl::Duration stall_timeout = absl::Seconds(30);

  // From SIGTERM: first health says NOT_SERVING for drain_delay while requests are still taken, so
  // that load balancers look away; then new ones are refused and accepted ones get up to
  // grace_period to finish.
  absl::Duration drain_delay = absl::ZeroDuration();
  absl::Duration grace_period = absl::Seconds(30);

  // Log lines on stderr: human or json. And which: trace, debug, info, warning, error or off.
  std::string log_format = "human";
  std::string log_level = "info";
  // Where the spans of sampled requests are written. Empty: nowhere.
  std::string trace_file = {};
  // The part of the requests without a traceparent that is sampled, 0 to 1.
  double trace_sample_ratio = 0;

  // INVALID_ARGUMENT naming the first field that makes no sense.
  absl::Status Validate() const;

  // gpu_devices as numbers. REQUIRES: Validate().
  std::vector<int> GpuDevices() const;
};

}  // namespace factord
