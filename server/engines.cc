#include "server/engines.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/core/status_macros.h"
#include "server/engine/cpu_count.h"
#include "server/engine/lapack.h"
#include "spdlog/spdlog.h"

namespace factord {
namespace {

// Of each GPU lane, for the rare matrices whose rank the device can't tell.
constexpr int kRankThreads = 4;

// Half of a lane's buffers is one part's. On the device a matrix has beside it a workspace, up to
// some four times as large.
constexpr std::int64_t kPinnedShare = 2;
constexpr std::int64_t kDeviceShare = 10;

std::string CpuModel() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    const std::size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos)
      return line.substr(colon + 2);
  }
  return "CPU";
}

GpuOptions GpuOptionsFrom(const Options& options, int cpu_threads) {
  return {.devices = options.GpuDevices(),
          .lanes = options.gpu_lanes,
          .device_bytes = static_cast<std::size_t>(options.gpu_memory_bytes),
          .host_bytes = static_cast<std::size_t>(options.gpu_pinned_bytes),
          .cpu_threads = std::min(cpu_threads, kRankThreads)};
}

// Why there is no GPU, if the options ask for one; a warning, if they would have taken it.
absl::Status ExplainNoGpu(const Options& options, const absl::Status& problem) {
  const std::string why = !GpuEngineIsBuilt() ? "this build has no GPU engine"
                          : problem.ok()      ? "CUDA finds no GPU"
                                              : std::string(problem.message());
  if (options.gpu == "required") {
    return absl::FailedPreconditionError(absl::StrCat("gpu: is required, but ", why));
  }
  if (options.backend == "gpu") {
    return absl::FailedPreconditionError(absl::StrCat("backend: is gpu, but ", why));
  }
  if (!options.gpu_devices.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("gpu_devices: are named, but ", why));
  }
  if (GpuEngineIsBuilt()) spdlog::warn("all work runs on the CPU: {}", why);
  return absl::OkStatus();
}

Machine MachineOf(const Engines& engines) {
  Machine machine{.cpu = engines.cpu_model,
                  .threads = engines.cpu_threads,
                  .cpu_engine = std::string(Name(engines.cpu_engine))};
  if (engines.gpus.empty()) return machine;
  machine.gpu = engines.gpus.front().name;
  for (const Gpu& gpu : engines.gpus) {
    const auto lanes = static_cast<std::int64_t>(gpu.factorizers.size());
    machine.gpu_matrix_bytes =
        std::min({machine.gpu_matrix_bytes,
                  static_cast<std::int64_t>(gpu.pinned_bytes) / lanes / kPinnedShare,
                  static_cast<std::int64_t>(gpu.reserved_bytes) / lanes / kDeviceShare});
  }
  return machine;
}

}  // namespace

std::vector<std::string> Engines::DeviceNames() const {
  std::vector<std::string> names = {"cpu"};
  for (const Gpu& gpu : gpus) names.push_back(absl::StrCat("gpu", gpu.index));
  return names;
}

int Engines::lanes() const {
  std::size_t lanes = 1;
  for (const Gpu& gpu : gpus) lanes += gpu.factorizers.size();
  return static_cast<int>(lanes);
}

absl::StatusOr<Engines> OpenEngines(const Options& options) {
  InitializeLapack();
  Engines engines;
  engines.cpu_model = CpuModel();
  engines.cpu_threads = options.cpu_threads > 0 ? options.cpu_threads : CpuCount();
  engines.cpu_engine = options.cpu_engine == "lapack" ? CpuEngine::kLapack : CpuEngine::kSimd;
  if (options.gpu != "off") {
    absl::StatusOr<std::vector<Gpu>> gpus = OpenGpus(GpuOptionsFrom(options, engines.cpu_threads));
    const absl::Status opened = gpus.status();
    if (opened.ok()) engines.gpus = *std::move(gpus);
    if (engines.gpus.empty()) RETURN_IF_ERROR(ExplainNoGpu(options, opened));
  }
  engines.machine = MachineOf(engines);
  return engines;
}

}  // namespace factord
