#include "server/reduction/row_reduction.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/errors.h"
#include "tests/server/reduction/reducer.h"

namespace factord::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsNan;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<double> Rows(std::int64_t m, std::int64_t columns, std::uint64_t seed = 7) {
  return Normal<double>(columns, m, seed);  // of whatever order: all are alike
}

TEST(RowReduction, NoRowsLeaveAnEmptyTriangleAndAZeroSolution) {
  Reducer reducer({.n = 2, .nrhs = 1, .solve = true, .standard_errors = true});
  const Reduced& result = reducer.Finish();
  EXPECT_EQ(result.rows, 0);
  EXPECT_EQ(result.r_rows, 0);
  EXPECT_EQ(result.rank, 0);
  EXPECT_EQ(result.code, std::nullopt);
  EXPECT_THAT(Values<double>(result.solution.x, 2), Each(0.0));
  EXPECT_THAT(Values<double>(result.solution.residual_norm, 1), Each(0.0));
  EXPECT_THAT(Values<double>(result.solution.standard_errors, 2), Each(IsNan()));
}

TEST(RowReduction, NoRowsAndNothingToSolveNeedNoJob) {
  Reducer reducer({.n = 2});
  ASSERT_EQ(reducer.reduction().Finish(), absl::OkStatus());
  EXPECT_EQ(reducer.waiting(), 0u);
  EXPECT_NE(reducer.reduction().result(), nullptr);
}

TEST(RowReduction, FewerRowsThanColumnsHaveTheShortestSolution) {
  Reducer reducer({.n = 3, .nrhs = 1, .solve = true, .standard_errors = true});
  const std::vector<double> rows = {1, 0, 1, 2,    //
                                    0, 1, 0, -5};  // x_0 + x_2 = 2, x_1 = -5
  ASSERT_TRUE(reducer.reduction().Append(BytesOf(rows)).ok());
  const Reduced& result = reducer.Finish();
  EXPECT_EQ(result.r_rows, 2);
  EXPECT_EQ(result.rank, 2);
  EXPECT_EQ(result.code, std::nullopt);
  const auto x = Values<double>(result.solution.x, 3);
  EXPECT_NEAR(x[0], 1, 1e-15);
  EXPECT_NEAR(x[1], -5, 1e-14);
  EXPECT_NEAR(x[2], 1, 1e-15);
  EXPECT_NEAR(Values<double>(result.solution.residual_norm, 1)[0], 0, 1e-14);
  EXPECT_THAT(Values<double>(result.solution.standard_errors, 3), Each(IsNan()));
}

// Of a line through points the text books have formulas.
TEST(RowReduction, StandardErrorsOfALine) {
  const std::vector<double> x = {1, 2, 3, 4, 5, 6}, y = {1.1, 1.9, 3.2, 3.9, 5.1, 5.8};
  std::vector<double> rows;
  for (std::size_t i = 0; i < x.size(); ++i) rows.insert(rows.end(), {1, x[i], y[i], -2 * y[i]});
  Reducer reducer({.n = 2, .nrhs = 2, .solve = true, .standard_errors = true, .block_rows = 2});
  ASSERT_TRUE(reducer.reduction().Append(BytesOf(rows)).ok());
  const Reduced& result = reducer.Finish();

  const double count = 6, x_mean = 3.5, y_mean = 3.5, s_xx = 17.5;
  double s_xy = 0, sse = 0;
  for (std::size_t i = 0; i < x.size(); ++i) s_xy += (x[i] - x_mean) * (y[i] - y_mean);
  const double slope = s_xy / s_xx, intercept = y_mean - slope * x_mean;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sse += std::pow(y[i] - intercept - slope * x[i], 2);
  }
  const double sigma = std::sqrt(sse / (count - 2));
  const auto solution = Values<double>(result.solution.x, 4);
  const auto errors = Values<double>(result.solution.standard_errors, 4);
  EXPECT_NEAR(solution[0], intercept, 1e-13);
  EXPECT_NEAR(solution[2], slope, 1e-13);
  EXPECT_NEAR(solution[3], -2 * slope, 1e-13);
  EXPECT_NEAR(Values<double>(result.solution.residual_norm, 2)[1], 2 * std::sqrt(sse), 1e-13);
  EXPECT_NEAR(errors[0], sigma * std::sqrt(1 / count + x_mean * x_mean / s_xx), 1e-13);
  EXPECT_NEAR(errors[2], sigma / std::sqrt(s_xx), 1e-13);
  EXPECT_NEAR(errors[3], 2 * sigma / std::sqrt(s_xx), 1e-13);
}

TEST(RowReduction, DependentColumnsAreReportedAndHaveNoStandardErrors) {
  std::vector<double> rows;
  for (int i = 0; i < 40; ++i) rows.insert(rows.end(), {1.0 * i, 2.0 * i, 5.0 * i});
  Reducer reducer({.n = 2, .nrhs = 1, .solve = true, .standard_errors = true, .block_rows = 8});
  ASSERT_TRUE(reducer.reduction().Append(BytesOf(rows)).ok());
  const Reduced& result = reducer.Finish();
  EXPECT_EQ(result.rank, 1);
  EXPECT_EQ(result.code, MatrixCode::kRankDeficient);
  const auto x = Values<double>(result.solution.x, 2);
  EXPECT_NEAR(x[0], 1, 1e-13);  // the shortest (x_0, x_1) with x_0 + 2 x_1 = 5
  EXPECT_NEAR(x[1], 2, 1e-13);
  EXPECT_THAT(Values<double>(result.solution.standard_errors, 2), Each(IsNan()));
}

TEST(RowReduction, ALastRowThatIsNotWholeIsAnError) {
  Reducer reducer({.n = 3});
  const std::vector<double> rows = Rows(18, 3);
  ASSERT_TRUE(reducer.reduction().Append(BytesOf(rows).first(17 * 24 + 5)).ok());
  const absl::Status status = reducer.reduction().Finish();
  EXPECT_EQ(FieldOf(status), "rows");
  EXPECT_THAT(std::string(status.message()), HasSubstr("after 5 of 24 bytes of row 17"));
}

TEST(RowReduction, ATriangleNeedsWholeRowsBeforeIt) {
  Reducer reducer({.n = 3});
  const std::vector<double> rows = Rows(2, 3);
  ASSERT_TRUE(reducer.reduction().Append(BytesOf(rows).first(30)).ok());
  const absl::Status status = reducer.AppendTriangle<double>(1, {1, 2, 3});
  EXPECT_EQ(FieldOf(status), "reduced");
  EXPECT_THAT(std::string(status.message()), HasSubstr("6 of 24 bytes of row 1"));
}

TEST(RowReduction, RowsAreCountedTo63Bits) {
  Reducer reducer({.n = 1});
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  ASSERT_TRUE(reducer.AppendTriangle<double>(kMost, {3}).ok());
  EXPECT_EQ(FieldOf(reducer.AppendTriangle<double>(1, {4})), "reduced.rows");
  ASSERT_TRUE(reducer.AppendTriangle<double>(0, {}).ok());
  const Reduced& result = reducer.Finish();
  EXPECT_EQ(result.rows, kMost);
  EXPECT_THAT(reducer.R<double>(), ElementsAre(3));
}

// Also what LAPACK would not write: the rows stand for others, and are rows like others.
TEST(RowReduction, ATriangleComesInWhereItStands) {
  Reducer reducer({.n = 2, .block_rows = 3});
  const std::vector<double> first = {3, 4, 0, 5}, last = {1, 1};
  ASSERT_TRUE(reducer.reduction().Append(BytesOf(first)).ok());
  ASSERT_TRUE(reducer.AppendTriangle<double>(100, {1, 2, 7, 8}).ok());
  ASSERT_TRUE(reducer.reduction().Append(BytesOf(last)).ok());
  EXPECT_EQ(reducer.Finish().rows, 103);
  Reducer whole({.n = 2});
  const std::vector<double> all = {3, 4, 0, 5, 1, 2, 7, 8, 1, 1};
  ASSERT_TRUE(whole.reduction().Append(BytesOf(all)).ok());
  whole.Finish();
  const auto got = reducer.R<double>(), expected = whole.R<double>();
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-14);
}

TEST(RowReduction, NonfiniteRowsAreNamedByBlock) {
  Reducer reducer({.n = 2, .nrhs = 1, .solve = true, .block_rows = 10});
  std::vector<double> rows = Rows(95, 3);
  rows[3 * 34 + 1] = kNan;
  rows[3 * 91] = std::numeric_limits<double>::infinity();
  ASSERT_TRUE(reducer.reduction().Append(BytesOf(rows)).ok());
  ASSERT_TRUE(reducer.AppendTriangle<double>(1000, {1, 2, 3, 0, kNan, 1, 0, 0, 1}).ok());
  const Reduced& result = reducer.Finish();
  EXPECT_EQ(result.code, MatrixCode::kNonfiniteInput);
  EXPECT_THAT(result.nonfinite, ElementsAre(RowSpan{30, 10}, RowSpan{90, 5}, RowSpan{95, 1000}));
  EXPECT_EQ(result.rank, -1);
  EXPECT_THAT(reducer.R<double>(), AllOf(::testing::SizeIs(9), Each(IsNan())));
  EXPECT_THAT(Values<double>(result.solution.x, 2), Each(IsNan()));
  EXPECT_THAT(Values<double>(result.solution.residual_norm, 1), Each(IsNan()));
}

TEST(RowReduction, OnlyTheFirstNonfiniteRangesAreKept) {
  Reducer reducer({.n = 1, .block_rows = 1});
  const std::vector<double> rows(2000, kNan);
  ASSERT_TRUE(reducer.reduction().Append(BytesOf(rows)).ok());
  const Reduced& result = reducer.Finish();
  ASSERT_EQ(result.nonfinite.size(), kMaxNonfinite);
  EXPECT_EQ(result.nonfinite.back(), (RowSpan{1023, 1}));
}

TEST(RowReduction, ANormThatDoesNotFitIsOutOfRange) {
  constexpr double kLarge = std::numeric_limits<double>::max();
  for (std::int64_t block_rows : {1, 3, 100}) {
    Reducer reducer({.n = 2, .nrhs = 1, .solve = true, .block_rows = block_rows});
    const std::vector<double> rows = {kLarge, 1, 1, kLarge, 2, 1, kLarge, 4, 1, kLarge, 4, 4};
    ASSERT_TRUE(reducer.reduction().Append(BytesOf(rows)).ok());
    const Reduced& result = reducer.Finish();
    EXPECT_EQ(result.code, MatrixCode::kResultOutOfRange);
    EXPECT_THAT(reducer.R<double>(), Each(IsNan()));
    EXPECT_THAT(result.nonfinite, ElementsAre());
  }
}

TEST(RowReduction, ASolutionThatDoesNotFitLeavesR) {
  Reducer reducer({.n = 1, .nrhs = 1, .solve = true});
  const std::vector<double> rows = {0x1p-1000, 0x1p1000};
  ASSERT_TRUE(reducer.reduction().Append(BytesOf(rows)).ok());
  const Reduced& result = reducer.Finish();
  EXPECT_EQ(result.code, MatrixCode::kResultOutOfRange);
  EXPECT_THAT(Values<double>(result.solution.x, 1), ElementsAre(INFINITY));
  EXPECT_THAT(reducer.R<double>(), ElementsAre(0x1p-1000, 0x1p1000));
}

// The residual's square is far out of range.
TEST(RowReduction, ResidualNormsNearTheEndsOfTheRange) {
  for (double unit : {0x1p1020, 0x1p-1060}) {
    Reducer reducer({.n = 1, .nrhs = 2, .solve = true, .block_rows = 2});
    const std::vector<double> rows = {1, 0, unit, 0, 3 * unit, unit, 0, 4 * unit, 0};
    ASSERT_TRUE(reducer.reduction().Append(BytesOf(rows)).ok());
    const Reduced& result = reducer.Finish();
    EXPECT_EQ(result.code, std::nullopt);
    EXPECT_THAT(Values<double>(result.solution.residual_norm, 2),
                ElementsAre(::testing::DoubleEq(5 * unit), ::testing::DoubleEq(unit)));
  }
}

TEST(RowReduction, TheDefaultRcondIsThatOfABlockAtMost) {
  const ReductionOptions options{.dtype = DType::kF32, .n = 1, .nrhs = 1, .solve = true};
  const auto rcond = [&](std::int64_t rows) { return TriangleSolve(options, rows).spec().rcond; };
  EXPECT_EQ(rcond(1000), 2000 * 0x1p-24);
  EXPECT_EQ(rcond(options.rows_of_block()), rcond(1'000'000'000));
  EXPECT_LT(rcond(1'000'000'000), 0.1);
}

TEST(RowReduction, ReadingStopsWhileBlocksAreUnderWay) {
  Reducer reducer({.n = 4, .block_rows = 16});
  const std::vector<double> block = Rows(16, 4);
  int appended = 0;
  while (reducer.reduction().has_room()) {
    ASSERT_TRUE(reducer.reduction().Append(BytesOf(block)).ok());
    ASSERT_LT(++appended, 100);
  }
  EXPECT_GE(appended, 2);
  EXPECT_EQ(reducer.waiting(), static_cast<std::size_t>(appended));
  EXPECT_EQ(reducer.reduction().rows_reduced(), 0);
  reducer.RunOne();
  EXPECT_TRUE(reducer.reduction().has_room());
  EXPECT_EQ(reducer.reduction().rows_reduced(), 16);
}

TEST(RowReduction, WhatAJobEndsWithEndsTheStream) {
  Reducer reducer({.n = 4, .block_rows = 16});
  const std::vector<double> rows = Rows(64, 4);
  ASSERT_TRUE(reducer.reduction().Append(BytesOf(rows)).ok());
  reducer.RunOne(absl::UnavailableError("the GPU is gone"));
  reducer.RunOne();
  EXPECT_EQ(reducer.reduction().status(), absl::UnavailableError("the GPU is gone"));
  EXPECT_EQ(reducer.reduction().Append(BytesOf(rows)), absl::UnavailableError("the GPU is gone"));
  EXPECT_EQ(reducer.reduction().Finish(), absl::UnavailableError("the GPU is gone"));
  reducer.RunAll();
  EXPECT_EQ(reducer.reduction().result(), nullptr);
}

TEST(RowReduction, AFullQueueEndsTheStream) {
  Reducer reducer({.n = 4, .block_rows = 16});
  const std::vector<double> rows = Rows(16, 4);
  reducer.refusal = absl::UnavailableError("full");
  EXPECT_EQ(reducer.reduction().Append(BytesOf(rows)), absl::UnavailableError("full"));
}

TEST(RowReduction, MemoryDoesNotDependOnTheRows) {
  const ReductionOptions options{.n = 8, .block_rows = 64};
  const std::vector<double> block = Rows(64, 8);
  std::int64_t at_start = 0;
  for (int blocks : {1, 100, 8 * 8 * 8 * 8}) {
    Reducer reducer(options);
    at_start = reducer.budget().used();
    for (int i = 0; i < blocks; ++i) {
      ASSERT_TRUE(reducer.reduction().Append(BytesOf(block)).ok());
      if (!reducer.reduction().has_room()) reducer.RunAll();
      // The fourth and fifth level are over what every stream gets.
      ASSERT_LE(reducer.budget().used(), at_start + 2 * 8 * 8 * 8 * 8);
    }
    reducer.Finish();
    reducer.Drop();
    EXPECT_EQ(reducer.budget().used(), 0);
  }
  EXPECT_LT(at_start, 40 << 20);
}

TEST(RowReduction, MessagesOfManyBlocksTakeMoreOfTheBudget) {
  Reducer reducer({.n = 64});
  const std::int64_t at_start = reducer.budget().used();
  const std::vector<double> rows = Rows(20 * 8192, 64);
  ASSERT_TRUE(reducer.reduction().Append(BytesOf(rows)).ok());
  EXPECT_GT(reducer.budget().used(), at_start + 11 * (4 << 20));
  reducer.Drop();
  EXPECT_EQ(reducer.budget().used(), 0);
}

TEST(RowReduction, BudgetFullAndBudgetTooSmallAreToldApart) {
  Reducer small({.n = 64}, 1, 1 << 20);
  EXPECT_EQ(small.created().code(), absl::StatusCode::kResourceExhausted);
  const auto budget = std::make_shared<ByteBudget>(64 << 20);
  const auto others = budget->TryTake(60 << 20);
  const auto created = RowReduction::Create({.n = 64}, budget, nullptr, nullptr, nullptr);
  EXPECT_EQ(ReasonOf(created.status()), "MEMORY_BUDGET_FULL");
}

TEST(RowReduction, TheWidestRowsFitTheirBlocks) {
  const ReductionOptions options{.dtype = DType::kC128, .n = kMaxReducedColumns};
  const Spec block = RowReduction::BlockSpec(options);
  EXPECT_EQ(block.m, 4 * kMaxReducedColumns);
  EXPECT_LE(block.m * block.n, std::numeric_limits<std::int32_t>::max());
  EXPECT_EQ(RowReduction::BlockSpec({.n = 64}).m, 8192);
  EXPECT_EQ(RowReduction::BlockSpec({.dtype = DType::kF32, .n = 1}).m, 1 << 20);
}

}  // namespace
}  // namespace factord::testing
