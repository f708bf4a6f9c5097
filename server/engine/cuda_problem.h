// What the kernels are asked for a spec.
#pragma once

#include "kernels/problem.h"
#include "server/core/spec.h"

namespace factord {

// m, n and p are the shape class's. REQUIRES: GpuTakes(spec), and dimensions that an int holds.
kernels::Problem ProblemOf(const Spec& spec);

}  // namespace factord
