#include "server/engine/cuda_problem.h"

#include "server/core/shape_class.h"

namespace factord {
namespace {

int ClassOf(std::int64_t size) { return static_cast<int>(RoundUpDimension(size)); }

kernels::Op OpOf(Op op) {
  switch (op) {
    case Op::kFactorize:
      return kernels::Op::kFactorize;
    case Op::kFormQ:
      return kernels::Op::kFormQ;
    case Op::kApplyQ:
      return kernels::Op::kApplyQ;
    case Op::kSolve:
      break;
  }
  return kernels::Op::kSolve;
}

kernels::QMode QModeOf(QMode q) {
  switch (q) {
    case QMode::kNone:
      return kernels::QMode::kNone;
    case QMode::kReduced:
      return kernels::QMode::kReduced;
    case QMode::kComplete:
      break;
  }
  return kernels::QMode::kComplete;
}

kernels::Sign SignOf(Sign sign) {
  switch (sign) {
    case Sign::kLapack:
      return kernels::Sign::kLapack;
    case Sign::kNonnegative:
      return kernels::Sign::kNonnegative;
    case Sign::kSpecialOrthogonal:
      break;
  }
  return kernels::Sign::kSpecialOrthogonal;
}

}  // namespace

kernels::Problem ProblemOf(const Spec& spec) {
  return {.op = OpOf(spec.op),
          .m = ClassOf(spec.m),
          .n = ClassOf(spec.n),
          .p = ClassOf(spec.p),
          .q = QModeOf(spec.q),
          .r = spec.r,
          .reflectors = spec.reflectors,
          .sign = SignOf(spec.sign),
          .right = spec.side == Side::kRight,
          .adjoint = spec.q_op == QOp::kAdjoint,
          .column_major = spec.layout == Layout::kColumnMajor,
          .rhs_column_major = spec.rhs_layout == Layout::kColumnMajor};
}

}  // namespace factord
