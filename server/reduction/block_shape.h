// The shapes that rows are reduced in. They decide R's bits: so each is a function of the element
// type and the number of columns alone, and stands here alone.
#pragma once

#include <algorithm>
#include <cstdint>

#include "server/core/types.h"

namespace factord {

// n + nrhs. A block of so many columns, and kFanIn triangles, are matrices of ordinary size.
inline constexpr std::int64_t kMaxReducedColumns = 2048;

// How many triangles are stacked and factorized together.
inline constexpr int kFanIn = 8;

// Rows of one block: about 4 MiB, which is worth a job of its own; and enough for the triangle that
// is left of it to be small beside it. REQUIRES: 1 <= columns <= kMaxReducedColumns.
constexpr std::int64_t BlockRows(DType dtype, std::int64_t columns) {
  constexpr std::int64_t kBlockBytes = 4 << 20;
  return std::max(4 * columns, kBlockBytes / (columns * SizeOf(dtype)));
}

// Blocks that one stream has in memory, the one that is being filled included: about 32 MiB; at
// least three, so that one is filled and one is reduced while a message brings another. Not part
// of the bits.
constexpr std::int64_t BlocksInMemory(DType dtype, std::int64_t columns) {
  constexpr std::int64_t kBytes = 32 << 20;
  const std::int64_t block_bytes = BlockRows(dtype, columns) * columns * SizeOf(dtype);
  return std::clamp<std::int64_t>(kBytes / block_bytes, 3, 8);
}

}  // namespace factord
