#include <algorithm>
#include <span>

#include "kernels/panel/block_sizes.h"
#include "kernels/panel/panel.h"

namespace factord::kernels {
namespace {

std::span<const BlockSize> SizesOf(Dtype dtype) {
  return dtype == Dtype::kF32 ? std::span<const BlockSize>(kBlockSizesF32)
                              : std::span<const BlockSize>(kBlockSizesF64);
}

}  // namespace

int BlockPanelVec(Dtype dtype, int rows, int nb) {
  for (const BlockSize& size : SizesOf(dtype)) {
    if (size.Holds(rows, nb, 1)) return size.vec;
  }
  return 0;
}

bool ClusterPanelFits(Dtype dtype, int rows, int nb, int vec) {
  const auto sizes = SizesOf(dtype);
  return std::any_of(sizes.begin(), sizes.end(), [&](const BlockSize& size) {
    return size.vec == vec && size.Holds(rows, nb, 2);
  });
}

}  // namespace factord::kernels
