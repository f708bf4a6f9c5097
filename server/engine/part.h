// Part: as much of a batch as is sent to a device, computed and fetched together, and how it lies
// in the buffers on both sides. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "server/core/batch.h"
#include "server/core/spec.h"
#include "server/engine/piece.h"

namespace factord {

// The image of a part, the same on host and device. All of it 16-byte aligned:
//   run descriptors | inputs, run by run, operand by operand | statuses | outputs, likewise
// What goes in is one range, what comes out another.
struct Part {
  // Consecutive matrices of one shape: one kernels::Run.
  struct Run {
    Spec spec;
    std::vector<Piece> pieces;
    std::int64_t first = 0;  // in the part
    std::int64_t count = 0;
    std::array<std::size_t, kOperands> at{};  // where each operand's first matrix lies
  };

  std::vector<Run> runs;
  std::int64_t count = 0;     // matrices
  std::size_t out_begin = 0;  // of what comes out: one status (uint32) a matrix first
  std::size_t bytes = 0;
};

struct PartLimits {
  // Whether an image of `bytes` with `count` matrices has room. Monotone.
  std::function<bool(std::size_t bytes, std::int64_t count)> has_room;
  // A part may exceed one of these, not both: enough to share the time of a launch and of a copy,
  // little enough that the parts' stages overlap.
  std::size_t enough_bytes = 0;
  std::int64_t enough_matrices = 0;
};

// In order, each as large as the limits allow. RESOURCE_EXHAUSTED where a single matrix has no
// room.
absl::StatusOr<std::vector<Part>> CutIntoParts(const Batch& batch, const PartLimits& limits);

}  // namespace factord
