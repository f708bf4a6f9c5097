// factord: flags to Options, a Server, and signals.
#include <malloc.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "grpc/grpc.h"
#include "server/options.h"
#include "server/server.h"
#include "server/tune_command.h"
#include "spdlog/sinks/stdout_color_sinks.h"
#include "spdlog/spdlog.h"

namespace {
const factord::Options kDefaults;
}

ABSL_FLAG(std::vector<std::string>, listen, kDefaults.listen,
          "comma-separated addresses to serve on: HOST:PORT (port 0: any free one) or unix:PATH");
ABSL_FLAG(std::string, metrics_listen, kDefaults.metrics_listen,
          "HOST:PORT that Prometheus scrapes (/metrics); empty: none");
ABSL_FLAG(int, cpu_threads, kDefaults.cpu_threads,
          "threads that factorize; 0: one for each core this process may use (cgroup-aware)");
ABSL_FLAG(std::string, cpu_engine, kDefaults.cpu_engine,
          "what factorizes on the CPU: simd (our kernels) or lapack (OpenBLAS)");
ABSL_FLAG(std::string, backend, kDefaults.backend,
          "where requests run that do not say so: auto (by predicted time), cpu or gpu");
ABSL_FLAG(std::string, gpu, kDefaults.gpu,
          "auto: the GPUs that are there; off; required: no start without one");
ABSL_FLAG(std::vector<std::string>, gpu_devices, kDefaults.gpu_devices,
          "comma-separated numbers of the GPUs to use, as CUDA counts; empty: all");
ABSL_FLAG(int, gpu_lanes, kDefaults.gpu_lanes, "batches at once on one GPU");
ABSL_FLAG(std::int64_t, gpu_memory_bytes, kDefaults.gpu_memory_bytes,
          "device memory of one lane, in bytes; 0: an eighth of the device's");
ABSL_FLAG(std::int64_t, gpu_pinned_bytes, kDefaults.gpu_pinned_bytes,
          "page-locked host memory of one lane, in bytes");
ABSL_FLAG(
    std::int64_t, gpu_min_flops, kDefaults.gpu_min_flops,
    "tensors with at least this much work go to the GPU, others do not; 0: by predicted time");
ABSL_FLAG(std::string, routing_table, kDefaults.routing_table,
          "file that `factord tune` wrote; empty: the built-in table that fits best");
ABSL_FLAG(std::int64_t, max_message_bytes, kDefaults.max_message_bytes,
          "largest gRPC message, either way, in bytes");
ABSL_FLAG(std::int64_t, max_tensors, kDefaults.max_tensors, "most tensors in one request");
ABSL_FLAG(std::int64_t, memory_budget_bytes, kDefaults.memory_budget_bytes,
          "inputs and results of all requests in flight, in bytes; 0: half of the memory this "
          "process may use");
ABSL_FLAG(int, max_concurrent_streams, kDefaults.max_concurrent_streams,
          "most RPCs at once on one connection");
ABSL_FLAG(std::int64_t, max_queued_jobs, kDefaults.max_queued_jobs,
          "most jobs waiting for a lane; beyond it requests are refused with UNAVAILABLE");
ABSL_FLAG(std::int64_t, max_batch_matrices, kDefaults.max_batch_matrices,
          "most matrices in one batch");
ABSL_FLAG(std::int64_t, max_batch_bytes, kDefaults.max_batch_bytes,
          "inputs and results of one batch, in bytes");
ABSL_FLAG(absl::Duration, max_batch_cost, kDefaults.max_batch_cost,
          "predicted time of one batch: how long others may wait for a lane");
ABSL_FLAG(absl::Duration, max_batch_delay, kDefaults.max_batch_delay,
          "how long a batch may wait for company though a lane is idle; 0 (recommended): never");
ABSL_FLAG(absl::Duration, low_priority_ageing, kDefaults.low_priority_ageing,
          "how long low-priority work waits before it counts as normal");
ABSL_FLAG(std::int64_t, chunk_bytes, kDefaults.chunk_bytes,
          "size of one chunk of a streamed result, in bytes");
ABSL_FLAG(absl::Duration, upload_timeout, kDefaults.upload_timeout,
          "longest gap between two chunks of an upload");
ABSL_FLAG(absl::Duration, stall_timeout, kDefaults.stall_timeout,
          "longest a client may leave a streamed result unread");
ABSL_FLAG(absl::Duration, drain_delay, kDefaults.drain_delay,
          "after SIGTERM: how long health says NOT_SERVING while requests are still taken");
ABSL_FLAG(absl::Duration, grace_period, kDefaults.grace_period,
          "after that: how long accepted requests get to finish");
ABSL_FLAG(double, tune_seconds, 180, "tune: about how long to measure, in seconds");
ABSL_FLAG(std::string, output, "", "tune: where to write the routing table; empty: stdout");
ABSL_FLAG(std::string, log_level, "info", "trace, debug, info, warning, error or off");

namespace {

// Large messages are the rule here. By default glibc gives the top of the heap back after each one
// and faults it in again for the next, which costs more than the message (2-3x on 1 MiB messages).
void KeepFreedMemory() {
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 64 << 20);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
}

factord::Options OptionsFromFlags() {
  factord::Options options;
  options.listen = absl::GetFlag(FLAGS_listen);
  options.metrics_listen = absl::GetFlag(FLAGS_metrics_listen);
  options.cpu_threads = absl::GetFlag(FLAGS_cpu_threads);
  options.cpu_engine = absl::GetFlag(FLAGS_cpu_engine);
  options.backend = absl::GetFlag(FLAGS_backend);
  options.gpu = absl::GetFlag(FLAGS_gpu);
  options.gpu_devices = absl::GetFlag(FLAGS_gpu_devices);
  options.gpu_lanes = absl::GetFlag(FLAGS_gpu_lanes);
  options.gpu_memory_bytes = absl::GetFlag(FLAGS_gpu_memory_bytes);
  options.gpu_pinned_bytes = absl::GetFlag(FLAGS_gpu_pinned_bytes);
  options.gpu_min_flops = absl::GetFlag(FLAGS_gpu_min_flops);
  options.routing_table = absl::GetFlag(FLAGS_routing_table);
  options.max_message_bytes = absl::GetFlag(FLAGS_max_message_bytes);
  options.max_tensors = absl::GetFlag(FLAGS_max_tensors);
  options.memory_budget_bytes = absl::GetFlag(FLAGS_memory_budget_bytes);
  options.max_concurrent_streams = absl::GetFlag(FLAGS_max_concurrent_streams);
  options.max_queued_jobs = absl::GetFlag(FLAGS_max_queued_jobs);
  options.max_batch_matrices = absl::GetFlag(FLAGS_max_batch_matrices);
  options.max_batch_bytes = absl::GetFlag(FLAGS_max_batch_bytes);
  options.max_batch_cost = absl::GetFlag(FLAGS_max_batch_cost);
  options.max_batch_delay = absl::GetFlag(FLAGS_max_batch_delay);
  options.low_priority_ageing = absl::GetFlag(FLAGS_low_priority_ageing);
  options.chunk_bytes = absl::GetFlag(FLAGS_chunk_bytes);
  options.upload_timeout = absl::GetFlag(FLAGS_upload_timeout);
  options.stall_timeout = absl::GetFlag(FLAGS_stall_timeout);
  options.drain_delay = absl::GetFlag(FLAGS_drain_delay);
  options.grace_period = absl::GetFlag(FLAGS_grace_period);
  return options;
}

// Of a command that ended with `status`; says what went wrong.
int ExitCode(const absl::Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "factord: %s\n", std::string(status.message()).c_str());
  return absl::IsInvalidArgument(status) ? 2 : 1;
}

// The first signal asks for a drain, the second one ends the process. A handler, not a blocked
// signal that one thread waits for: OpenBLAS starts threads before main, and those would get it.
sem_t signalled;

void OnSignal(int) {
  static std::atomic<int> signals{0};
  if (signals.fetch_add(1) > 0) {
    constexpr char kMessage[] = "factord: second signal: leaving at once\n";
    [[maybe_unused]] const auto written = write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
    std::_Exit(1);
  }
  sem_post(&signalled);
}

void HandleSignals() {
  sem_init(&signalled, 0, 0);
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  for (int signal : {SIGTERM, SIGINT}) sigaction(signal, &action, nullptr);
}

void WaitForSignal() {
  while (sem_wait(&signalled) != 0) {  // interrupted
  }
}

}  // namespace

int main(int argc, char** argv) {
  KeepFreedMemory();
  absl::SetProgramUsageMessage(
      "factord: batched matrix factorization as a service.\n\n"
      "  factord [--listen=HOST:PORT] [flags]     serves\n"
      "  factord tune [--output=FILE] [flags]     measures this machine's routing table");
  absl::FlagsUsageConfig usage;
  usage.contains_help_flags = [](absl::string_view file) {
    return file.find("server/main.cc") != absl::string_view::npos;
  };
  usage.version_string = [] { return std::string("factord " FACTORD_VERSION "\n"); };
  absl::SetFlagsUsageConfig(usage);
  const std::vector<char*> words = absl::ParseCommandLine(argc, argv);
  spdlog::set_default_logger(spdlog::stderr_color_mt("factord"));
  spdlog::set_level(spdlog::level::from_str(absl::GetFlag(FLAGS_log_level)));

  if (words.size() > 2 || (words.size() == 2 && std::string(words[1]) != "tune")) {
    std::fprintf(stderr, "factord: expected flags, or the command tune; not %s\n", words.back());
    return 2;
  }
  if (words.size() == 2) {
    return ExitCode(factord::TuneCommand(OptionsFromFlags(),
                                         absl::Seconds(absl::GetFlag(FLAGS_tune_seconds)),
                                         absl::GetFlag(FLAGS_output)));
  }

  HandleSignals();
  grpc_init();  // never shut down: that can wait 10 s for one of gRPC's own pollers, and the
                // process ends anyway
  const auto server = factord::Server::Create(OptionsFromFlags());
  if (!server.ok()) return ExitCode(server.status());
  for (const std::string& address : (*server)->addresses())
    std::printf("listening on %s\n", address.c_str());
  if (!(*server)->metrics_address().empty()) {
    std::printf("metrics on http://%s/metrics\n", (*server)->metrics_address().c_str());
  }
  std::fflush(stdout);

  WaitForSignal();
  spdlog::info("asked to stop: draining");
  const bool all_finished = (*server)->Drain();
  spdlog::info(all_finished ? "drained" : "the grace period passed with work unfinished");
  if (!all_finished)
    std::_Exit(1);  // a matrix can take minutes more; whoever sent the signal waits for the exit
  return 0;
}
