#include "server/engine/problem.h"

namespace factord {
namespace {

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
          .m = static_cast<int>(spec.m),
          .n = static_cast<int>(spec.n),
          .p = static_cast<int>(spec.p),
          .q = QModeOf(spec.q),
          .r = spec.r,
          .reflectors = spec.reflectors,
          .sign = SignOf(spec.sign),
          .right = spec.side == Side::kRight,
          .adjoint = spec.q_op == QOp::kAdjoint,
          .column_major = spec.layout == Layout::kColumnMajor,
          .rhs_column_major = spec.rhs_layout == Layout::kColumnMajor};
}

std::optional<MatrixCode> CodeOf(std::uint32_t status) {
  if (status & kernels::kNonfiniteInput) return MatrixCode::kNonfiniteInput;
  if (status & kernels::kResultOutOfRange) return MatrixCode::kResultOutOfRange;
  return std::nullopt;
}

bool IsUnproven(std::uint32_t status) {
  return (status & kernels::kRankUnproven) && !(status & kernels::kNonfiniteInput);
}

void WriteRank(const Job& job, std::int64_t i, std::uint32_t status) {
  if (job.spec.op != Op::kSolve) return;
  *job.matrix<std::int32_t>(Operand::kRank, i) =
      status & kernels::kNonfiniteInput ? -1 : static_cast<std::int32_t>(job.spec.n);
}

}  // namespace factord
