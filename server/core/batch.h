// Batch: jobs of one bucket that run together. Formed by the batcher, run by a lane, then taken
// apart again.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/core/job.h"

namespace factord {

// Why a batch was closed; a metric label.
enum class CloseReason : std::uint8_t { kFull, kIdle, kDeadline, kDelay, kDrain };
inline constexpr int kCloseReasons = 5;

constexpr absl::string_view Name(CloseReason reason) {
  switch (reason) {
    case CloseReason::kFull:
      return "full";
    case CloseReason::kIdle:
      return "idle";
    case CloseReason::kDeadline:
      return "deadline";
    case CloseReason::kDelay:
      return "delay";
    case CloseReason::kDrain:
      return "drain";
  }
  return "";
}

struct Batch {
  std::vector<std::unique_ptr<Job>> jobs;  // never empty
  CloseReason reason = CloseReason::kIdle;

  std::int64_t matrices() const {
    std::int64_t total = 0;
    for (const auto& job : jobs) total += job->count;
    return total;
  }
};

}  // namespace factord
