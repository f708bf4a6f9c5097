// Gpus: the GPU engines of this machine, by device. What the server sees of CUDA; where it is built
// without, there are none.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/factorizer.h"

namespace factord {

struct GpuOptions {
  // CUDA's numbers. Empty: all that are visible.
  std::vector<int> devices = {};
  // Factorizers of a device, each for a lane of its own: two, so that one copies while the other
  // computes.
  int lanes = 2;
  // Of one factorizer; see CudaFactorizerOptions. device_bytes 0: an eighth of the device's memory.
  std::size_t device_bytes = 0;
  std::size_t host_bytes = std::size_t{1} << 30;
  int cpu_threads = 1;
};

struct Gpu {
  int index = 0;                   // as CUDA counts
  std::string name;                // "NVIDIA H200"
  std::size_t memory_bytes = 0;    // of the device
  std::size_t reserved_bytes = 0;  // of it, by all factorizers together
  std::size_t pinned_bytes = 0;    // of the host, likewise
  std::string cuda;                // the runtime's version, "13.0"
  std::string driver;              // the driver's, "580.65.06"; or the CUDA version it knows
  std::vector<std::unique_ptr<Factorizer>>
      factorizers;  // on one device: healthy all or, soon, none

  bool healthy() const;
};

// Whether this is a build with CUDA.
bool GpuEngineIsBuilt();

// The devices asked for; none where there is no driver. UNAVAILABLE with CUDA's error where a
// device is there but can't be used, e.g. for lack of memory. FAILED_PRECONDITION where one that is
// named is not there.
absl::StatusOr<std::vector<Gpu>> OpenGpus(const GpuOptions& options);

}  // namespace factord
