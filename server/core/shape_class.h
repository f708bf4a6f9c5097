// Shape classes: what sizes count as one, for the batcher and for the choice of kernels.
#pragma once

#include <cstdint>

namespace factord {

// The class of a dimension, named by its largest member: exact up to 8, then four classes an octave
// (10, 12, 14, 16, 20, 24, 28, 32, 40, ...). Empty dimensions are their own class. Monotone and
// idempotent; REQUIRES: size >= 0.
std::int64_t RoundUpDimension(std::int64_t size);

}  // namespace factord
