// OpenGpus of a build without CUDA.
#include "server/engine/gpus.h"

namespace factord {

bool GpuEngineIsBuilt() { return false; }

absl::StatusOr<std::vector<Gpu>> OpenGpus(const GpuOptions&) { return std::vector<Gpu>(); }

}  // namespace factord
