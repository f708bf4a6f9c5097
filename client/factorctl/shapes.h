#ifndef FACTORD_CLIENT_FACTORCTL_SHAPES_H_
#define FACTORD_CLIENT_FACTORCTL_SHAPES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace factord::client {

using Dims = std::vector<int64_t>;

// "1000x32x32" to its dims; at least two, each at least 0. Usage errors.
absl::StatusOr<std::vector<Dims>> ParseShapes(const std::vector<std::string>& words);

// "1000x32x32,8x8".
std::string ShapesName(const std::vector<Dims>& shapes);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_FACTORCTL_SHAPES_H_
