// The sizes that the register panels are built in: what the dispatch starts and what fits are both read off this table.
#pragma once

#include "kernels/problem.h"

namespace factord::kernels {

// Holds up to 32 * items rows, and in one block vec * max_warps columns, up to max_cols in all the blocks of a cluster.
// max_warps also bounds the registers of a thread, 65536 / (32 * max_warps), which must hold items * vec entries and more.
struct BlockSize {
  int items, vec, max_warps, max_cols;

  constexpr bool Holds(int rows, int nb, int blocks) const {
    return rows <= 32 * items && nb <= max_cols && nb <= blocks * vec * max_warps;
  }
};

// In order of preference.
inline constexpr BlockSize kBlockSizesF32[] = {
    {2, 8, 8, 64}, {4, 8, 16, 128}, {6, 8, 24, 192}, {8, 8, 16, 256}, {12, 8, 16, 256}, {16, 8, 12, 128}, {32, 4, 8, 64},
};
inline constexpr BlockSize kBlockSizesF64[] = {
    {2, 8, 8, 64}, {4, 8, 16, 128}, {6, 8, 16, 192}, {8, 8, 12, 192}, {12, 8, 8, 128}, {16, 4, 8, 64},
};

template <Dtype kDtype>
constexpr auto& BlockSizes() {
  if constexpr (kDtype == Dtype::kF32) {
    return kBlockSizesF32;
  } else {
    return kBlockSizesF64;
  }
}

}  // namespace factord::kernels
