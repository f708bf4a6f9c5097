// Engines: what this machine has to compute on, found and opened by the options.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/cpu_factorizer.h"
#include "server/engine/gpus.h"
#include "server/engine/router.h"
#include "server/options.h"

namespace factord {

struct Engines {
  std::string cpu_model;
  int cpu_threads = 1;
  CpuEngine cpu_engine = CpuEngine::kSimd;
  std::vector<Gpu> gpus;
  Machine machine;  // all of it, as the router sees it

  // "cpu", then "gpu0", ...: the devices' names in metrics.
  std::vector<std::string> DeviceNames() const;
  // One for the CPU, one for each factorizer of each GPU.
  int lanes() const;
};

// Starts LAPACK, once. FAILED_PRECONDITION where the options ask for a GPU and there is no usable
// one; where they merely allow it, a warning.
absl::StatusOr<Engines> OpenEngines(const Options& options);

}  // namespace factord
