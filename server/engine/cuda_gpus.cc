#include <fstream>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/core/status_macros.h"
#include "server/engine/cuda_factorizer.h"
#include "server/engine/cuda_status.h"
#include "server/engine/gpus.h"

namespace factord {
namespace {

// Of a device's memory, one lane's: 1 / kMemoryShare.
constexpr std::size_t kMemoryShare = 8;

std::string VersionName(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

// CUDA says the same of a driver that is too old and of one that is not there.
absl::StatusOr<int> DevicesWithoutDriver() {
  int driver = 0, runtime = 0;
  RETURN_IF_CUDA_ERROR(cudaDriverGetVersion(&driver));
  if (driver == 0) return 0;
  RETURN_IF_CUDA_ERROR(cudaRuntimeGetVersion(&runtime));
  return absl::UnavailableError(absl::StrCat("the NVIDIA driver is too old: it knows CUDA ",
                                             VersionName(driver), ", this program is built with ",
                                             VersionName(runtime)));
}

// 0 where there is no GPU, or nothing to drive one.
absl::StatusOr<int> DeviceCount() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess) return count;
  static_cast<void>(cudaGetLastError());
  if (error == cudaErrorNoDevice) return 0;
  if (error == cudaErrorInsufficientDriver) return DevicesWithoutDriver();
  return CudaError(error, "cudaGetDeviceCount");
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun ..." where the kernel says so,
// else the newest CUDA version that the driver knows.
absl::StatusOr<std::string> DriverVersion() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  for (absl::string_view word : absl::StrSplit(line, ' ')) {
    if (!word.empty() && word.find_first_not_of("0123456789.") == absl::string_view::npos) {
      return std::string(word);
    }
  }
  int version = 0;
  RETURN_IF_CUDA_ERROR(cudaDriverGetVersion(&version));
  return absl::StrCat("of CUDA ", VersionName(version));
}

absl::StatusOr<Gpu> Open(int device, const GpuOptions& options) {
  Gpu gpu;
  gpu.index = device;
  cudaDeviceProp properties = {};
  RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&properties, device));
  gpu.name = properties.name;
  gpu.memory_bytes = properties.totalGlobalMem;
  int runtime = 0;
  RETURN_IF_CUDA_ERROR(cudaRuntimeGetVersion(&runtime));
  gpu.cuda = VersionName(runtime);
  ASSIGN_OR_RETURN(gpu.driver, DriverVersion());
  const std::size_t device_bytes =
      options.device_bytes > 0 ? options.device_bytes : gpu.memory_bytes / kMemoryShare;
  for (int lane = 0; lane < options.lanes; ++lane) {
    ASSIGN_OR_RETURN(gpu.factorizers.emplace_back(),
                     CudaFactorizer::Create({.device = device,
                                             .device_bytes = device_bytes,
                                             .host_bytes = options.host_bytes,
                                             .cpu_threads = options.cpu_threads}));
    gpu.reserved_bytes += device_bytes;
    gpu.pinned_bytes += options.host_bytes;
  }
  return gpu;
}

}  // namespace

bool GpuEngineIsBuilt() { return true; }

absl::StatusOr<std::vector<Gpu>> OpenGpus(const GpuOptions& options) {
  ASSIGN_OR_RETURN(const int count, DeviceCount());
  std::vector<int> devices = options.devices;
  if (devices.empty()) {
    devices.resize(static_cast<std::size_t>(count));
    std::iota(devices.begin(), devices.end(), 0);
  }
  std::vector<Gpu> gpus;
  for (int device : devices) {
    if (device >= count) {
      return absl::FailedPreconditionError(
          absl::StrCat("there is no device ", device, ": CUDA sees ", count));
    }
    ASSIGN_OR_RETURN(gpus.emplace_back(), Open(device, options));
  }
  return gpus;
}

}  // namespace factord
