#include "server/engine/gpus.h"

#include <algorithm>

namespace factord {

bool Gpu::healthy() const {
  return std::all_of(factorizers.begin(), factorizers.end(),
                     [](const auto& factorizer) { return factorizer->healthy(); });
}

}  // namespace factord
