#include "server/core/shape_class.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace factord {
namespace {

constexpr std::int64_t kExactUpTo = 8;
constexpr std::uint64_t kClassesPerOctave = 4;

}  // namespace

std::int64_t RoundUpDimension(std::int64_t size) {
  if (size <= kExactUpTo) return size;
  const auto value = static_cast<std::uint64_t>(size);
  // The octave (2^e, 2^(e+1)] is cut into equal steps.
  const std::uint64_t step = std::bit_floor(value - 1) / kClassesPerOctave;
  const std::uint64_t rounded = (value + step - 1) / step * step;
  constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(std::min(rounded, kMax));
}

}  // namespace factord
