// BucketSnapshot: what waits in one bucket at one moment.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "server/batching/bucket.h"
#include "server/core/types.h"

namespace factord {

struct BucketSnapshot {
  Bucket bucket;
  Backend backend = Backend::kCpu;
  std::int64_t jobs = 0;
  std::int64_t matrices = 0;
  std::int64_t bytes = 0;  // inputs and outputs
  absl::Time oldest;       // when the job that has waited longest came
};

}  // namespace factord
