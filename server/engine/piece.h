// Piece: consecutive matrices of one job, the unit in which engines share a batch out.
#pragma once

#include <cstdint>

#include "server/core/job.h"

namespace factord {

struct Piece {
  Job* job = nullptr;
  std::int64_t first = 0;  // in the job
  std::int64_t count = 0;
};

}  // namespace factord
