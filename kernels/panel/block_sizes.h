// The sizes that the register panels are built in: what the dispatch starts and what fits are both
// read off this table.
#pragma once

#include "kernels/problem.h"

namespace factord::kernels {

// Holds up to 32 * items rows and max_cols columns; one block of at most `warps` warps has vec
// columns a warp. `warps` also sets the registers of a thread, 65536 / (32 * warps): they hold
// items * vec entries and about 40 words more, or spill.
struct BlockSize {
  int items, vec, warps, max_cols;

  constexpr bool Holds(int rows, int nb, int blocks) const {
    return rows <= 32 * items && nb <= max_cols && nb <= blocks * vec * warps;
  }
};

// In order of preference. A vec of 4 only where 8 columns do not fit a warp's registers: it reads
// each reflector for half as many. Where `warps` exceeds what max_cols needs, several blocks share
// a multiprocessor.
inline constexpr BlockSize kBlockSizesF32[] = {
    {2, 8, 32, 64},    // 64 registers
    {4, 8, 24, 128},   // 80
    {6, 8, 24, 192},   // 80
    {8, 8, 16, 256},   // 128
    {11, 8, 16, 256},  // 128
    {12, 8, 12, 192},  // 168
    {16, 8, 12, 128},  // 168: three blocks of 32 columns, or two of 48
    {24, 8, 8, 64},    // 255
    {32, 4, 8, 64},    // 255
};
inline constexpr BlockSize kBlockSizesF64[] = {
    {2, 8, 16, 64},   // 128
    {4, 8, 16, 128},  // 128
    {6, 8, 12, 192},  // 168
    {8, 8, 8, 128},   // 255
    {12, 8, 8, 128},  // 255
    {16, 4, 8, 64},   // 255
    {22, 4, 8, 64},   // 255
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
