// The shapes that a server runs once before it says SERVING: --warmup_shapes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/core/types.h"

namespace factord {

struct WarmUpShape {
  std::int64_t batch = 1;  // all at least 1
  std::int64_t m = 1;
  std::int64_t n = 1;
  DType dtype = DType::kF32;

  bool operator==(const WarmUpShape&) const = default;
};

// Each "BATCHxMxN" or "BATCHxMxN:TYPE", TYPE f32 (if not said), f64, c64 or c128.
// INVALID_ARGUMENT naming warmup_shapes and the first that is none.
absl::StatusOr<std::vector<WarmUpShape>> ParseWarmUpShapes(const std::vector<std::string>& texts);

}  // namespace factord
