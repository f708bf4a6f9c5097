#include "kernels/tiny/tiny.h"

namespace factord::kernels {

bool IsTiny(const Problem& problem) {
  return problem.op != Op::kSolve && problem.m <= 32 && problem.n <= 32;
}

}  // namespace factord::kernels
