#include "server/core/spec.h"

#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace factord {
namespace {

using enum Operand;
using testing::ElementsAre;
using testing::IsEmpty;

Spec Of(Op op, std::int64_t m, std::int64_t n, std::int64_t p = 0) {
  Spec spec;
  spec.op = op;
  spec.m = m;
  spec.n = n;
  spec.p = p;
  return spec;
}

std::vector<Operand> Outputs(const Spec& spec) {
  const auto outputs = OutputsOf(spec);
  return {outputs.begin(), outputs.end()};
}

void ExpectExtent(const Spec& spec, Operand operand, std::int64_t rows, std::int64_t cols) {
  const Extent extent = ExtentOf(spec, operand);
  EXPECT_EQ(extent.rows, rows) << static_cast<int>(operand);
  EXPECT_EQ(extent.cols, cols) << static_cast<int>(operand);
}

TEST(Spec, FactorizeExtentsTallAndWide) {
  Spec tall = Of(Op::kFactorize, 5, 3);
  tall.q = QMode::kReduced;
  ExpectExtent(tall, kA, 5, 3);
  ExpectExtent(tall, kQ, 5, 3);
  ExpectExtent(tall, kR, 3, 3);
  ExpectExtent(tall, kReflectors, 5, 3);
  ExpectExtent(tall, kTau, 3, 1);
  tall.q = QMode::kComplete;
  ExpectExtent(tall, kQ, 5, 5);

  Spec wide = Of(Op::kFactorize, 3, 5);
  wide.q = QMode::kReduced;
  ExpectExtent(wide, kQ, 3, 3);
  ExpectExtent(wide, kR, 3, 5);
  ExpectExtent(wide, kTau, 3, 1);
}

TEST(Spec, FactorizeExtentsOfEmptyMatrices) {
  Spec no_columns = Of(Op::kFactorize, 4, 0);
  no_columns.q = QMode::kComplete;
  ExpectExtent(no_columns, kQ, 4, 4);
  ExpectExtent(no_columns, kR, 0, 0);
  EXPECT_EQ(MatrixBytes(no_columns, kA), 0);
  EXPECT_EQ(FlopsOf(Of(Op::kFactorize, 4, 0)), 0);

  const Spec no_rows = Of(Op::kFactorize, 0, 4);
  ExpectExtent(no_rows, kR, 0, 4);
  EXPECT_EQ(MatrixBytes(no_rows, kR), 0);
}

TEST(Spec, ApplyExtentsFollowTheSide) {
  Spec apply = Of(Op::kApplyQ, 6, 4, 3);
  ExpectExtent(apply, kRhs, 6, 3);
  ExpectExtent(apply, kResult, 6, 3);
  apply.side = Side::kRight;
  ExpectExtent(apply, kRhs, 3, 6);
  ExpectExtent(apply, kResult, 3, 6);
}

TEST(Spec, SolveExtents) {
  const Spec solve = Of(Op::kSolve, 6, 4, 2);
  ExpectExtent(solve, kRhs, 6, 2);
  ExpectExtent(solve, kResult, 4, 2);
  ExpectExtent(solve, kResidualNorm, 2, 1);
  ExpectExtent(solve, kRank, 1, 1);
}

TEST(Spec, OutputsAreAnySubsetInApiOrder) {
  Spec spec = Of(Op::kFactorize, 4, 4);
  EXPECT_THAT(Outputs(spec), IsEmpty());
  spec.r = true;
  EXPECT_THAT(Outputs(spec), ElementsAre(kR));
  spec.q = QMode::kComplete;
  EXPECT_THAT(Outputs(spec), ElementsAre(kQ, kR));
  spec.reflectors = true;
  EXPECT_THAT(Outputs(spec), ElementsAre(kQ, kR, kReflectors, kTau));
  spec.q = QMode::kNone;
  spec.r = false;
  EXPECT_THAT(Outputs(spec), ElementsAre(kReflectors, kTau));
}

TEST(Spec, InputsAndOutputsOfAnOperationAreDifferentOperands) {
  for (int op = 0; op < kOps; ++op) {
    Spec spec = Of(static_cast<Op>(op), 4, 4, 4);
    spec.q = QMode::kReduced;
    spec.r = spec.reflectors = true;
    const auto inputs = InputsOf(spec);
    std::set<Operand> all(inputs.begin(), inputs.end());
    const std::vector<Operand> outputs = Outputs(spec);
    all.insert(outputs.begin(), outputs.end());

    EXPECT_FALSE(inputs.empty());
    EXPECT_FALSE(outputs.empty());
    EXPECT_EQ(all.size(), inputs.size() + outputs.size());
  }
}

TEST(Spec, BytesFollowTheType) {
  Spec spec = Of(Op::kSolve, 6, 4, 2);
  spec.dtype = DType::kC128;
  EXPECT_EQ(MatrixBytes(spec, kA), 6 * 4 * 16);
  EXPECT_EQ(MatrixBytes(spec, kResidualNorm), 2 * 8);  // real
  EXPECT_EQ(MatrixBytes(spec, kRank), 4);
  spec.dtype = DType::kC64;
  EXPECT_EQ(MatrixBytes(spec, kResidualNorm), 2 * 4);
}

TEST(Spec, RightHandSidesHaveTheirOwnLayout) {
  Spec spec = Of(Op::kSolve, 6, 4, 2);
  spec.rhs_layout = Layout::kColumnMajor;
  EXPECT_EQ(LayoutOf(spec, kA), Layout::kRowMajor);
  EXPECT_EQ(LayoutOf(spec, kRhs), Layout::kColumnMajor);
  EXPECT_EQ(LayoutOf(spec, kResult), Layout::kColumnMajor);
}

// LAPACK's counts: geqrf 2mn^2 - 2/3 n^3 (m >= n), the same with m and n exchanged when wide.
TEST(Spec, FlopsAreLapacks) {
  EXPECT_DOUBLE_EQ(FlopsOf(Of(Op::kFactorize, 30, 12)), 2.0 * 30 * 144 - 2.0 / 3 * 1728);
  EXPECT_DOUBLE_EQ(FlopsOf(Of(Op::kFactorize, 12, 30)), 2.0 * 30 * 144 - 2.0 / 3 * 1728);

  Spec form = Of(Op::kFormQ, 30, 12);
  form.q = QMode::kReduced;
  EXPECT_DOUBLE_EQ(FlopsOf(form), 2.0 * 30 * 144 - 2.0 / 3 * 1728);
  form.q = QMode::kComplete;
  EXPECT_DOUBLE_EQ(FlopsOf(form), 4.0 * 900 * 12 - 4.0 * 30 * 144 + 4.0 / 3 * 1728);

  EXPECT_DOUBLE_EQ(FlopsOf(Of(Op::kApplyQ, 30, 12, 5)), (4.0 * 30 * 12 - 2.0 * 144) * 5);

  Spec factorize = Of(Op::kFactorize, 30, 12);
  factorize.dtype = DType::kC64;
  EXPECT_DOUBLE_EQ(FlopsOf(factorize), 4 * FlopsOf(Of(Op::kFactorize, 30, 12)));
}

TEST(Spec, FlopsAreNeverNegative) {
  for (int op = 0; op < kOps; ++op) {
    for (std::int64_t m = 0; m <= 12; ++m) {
      for (std::int64_t n = 0; n <= 12; ++n) {
        for (const QMode q : {QMode::kNone, QMode::kReduced, QMode::kComplete}) {
          Spec spec = Of(static_cast<Op>(op), m, n, 3);
          spec.q = q;
          if (spec.op == Op::kFormQ && q == QMode::kNone) continue;
          ASSERT_GE(FlopsOf(spec), 0) << op << " " << m << " " << n;
        }
      }
    }
  }
}

}  // namespace
}  // namespace factord
