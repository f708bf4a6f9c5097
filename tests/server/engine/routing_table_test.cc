#include "server/engine/routing_table.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace factord {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr char kHeader[] =
    "device: NVIDIA H200\ncpu: A CPU: with a colon\nthreads: 16\nsource: measured\n";

std::string ErrorOf(const std::string& text) {
  return std::string(RoutingTable::Parse(text, "t.txt").status().message());
}

TEST(RoutingTable, Parse_ReadsWhatToTextWrites) {
  const RoutingTable table({.device = "NVIDIA H200",
                            .cpu = "A CPU",
                            .threads = 3,
                            .cpu_engine = "simd",
                            .driver = "580.1",
                            .date = "today"},
                           {{Op::kSolve, DType::kF64, false, 100, 10, 8, 12.5, 3},
                            {Op::kFactorize, DType::kF32, true, 4, 5, 1, 1e-3, 0}});

  const auto again = RoutingTable::Parse(table.ToText(), "t.txt");

  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->header(), table.header());
  EXPECT_EQ(again->rows(), table.rows());
}

TEST(RoutingTable, Parse_TakesCommentsAndBlankLines) {
  const auto table = RoutingTable::Parse(
      std::string("# c\n\n") + kHeader + "  solve\tf32 factors 1 1 1 2 -  # a comment\n", "t.txt");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->header().cpu, "A CPU: with a colon");
  EXPECT_EQ(table->rows().size(), 1u);
  EXPECT_EQ(table->rows()[0].gpu_us, 0);
}

TEST(RoutingTable, Parse_AnErrorNamesLineAndField) {
  const auto row = [](const std::string& text) { return ErrorOf(kHeader + text); };
  EXPECT_EQ(row("solve f32 factors 1 1 1 2\n"), "t.txt:5: a row has 8 fields, this one has 7");
  EXPECT_EQ(row("lu f32 factors 1 1 1 2 3\n"), "t.txt:5: op: \"lu\" is unknown");
  EXPECT_EQ(row("solve f16 factors 1 1 1 2 3\n"), "t.txt:5: dtype: \"f16\" is unknown");
  EXPECT_EQ(row("solve f32 r 1 1 1 2 3\n"), "t.txt:5: outputs: \"r\" is neither q nor factors");
  EXPECT_EQ(row("\nsolve f32 factors 0 1 1 2 3\n"),
            "t.txt:6: m: \"0\" is not a whole number of at least 1");
  EXPECT_EQ(row("solve f32 factors 1 x 1 2 3\n"),
            "t.txt:5: n: \"x\" is not a whole number of at least 1");
  EXPECT_EQ(row("solve f32 factors 1 1 99999999999999999999 2 3\n"),
            "t.txt:5: batch: \"99999999999999999999\" is not a whole number of at least 1");
  EXPECT_EQ(row("solve f32 factors 1 1 1 nan 3\n"),
            "t.txt:5: cpu_us: \"nan\" is not a positive time");
  EXPECT_EQ(row("solve f32 factors 1 1 1 - 3\n"), "t.txt:5: cpu_us: \"-\" is not a positive time");
  EXPECT_EQ(row("solve f32 factors 1 1 1 2 inf\n"),
            "t.txt:5: gpu_us: \"inf\" is not a positive time");
  EXPECT_EQ(row("cpu: again\n"), "t.txt:5: cpu: is set twice");
  EXPECT_EQ(row("size: 3\n"), "t.txt:5: size: is no header of a routing table");
  EXPECT_EQ(ErrorOf("threads: no\n"),
            "t.txt:1: threads: \"no\" is not a whole number of at least 1");
  EXPECT_EQ(ErrorOf("source: hearsay\n"),
            "t.txt:1: source: \"hearsay\" is neither measured nor estimated");
  EXPECT_EQ(ErrorOf("device:\n"), "t.txt:1: device: is empty");
  EXPECT_THAT(ErrorOf(""), StartsWith("t.txt:1: device: is not set"));
  EXPECT_THAT(ErrorOf("device: d\ncpu: c\nthreads: 1\n"), HasSubstr("source: is not set"));
}

RoutingTable Squares() {
  return RoutingTable({}, {{Op::kFactorize, DType::kF32, true, 32, 32, 1, 10, 100},
                           {Op::kFactorize, DType::kF32, true, 32, 32, 64, 640, 110},
                           {Op::kFactorize, DType::kF32, true, 128, 128, 1, 400, 300},
                           {Op::kFactorize, DType::kF32, true, 128, 128, 64, 25600, 900},
                           {Op::kFactorize, DType::kF64, true, 128, 128, 64, 50000, 0}});
}

double Us(const std::optional<absl::Duration>& time) {
  return time ? absl::ToDoubleMicroseconds(*time) : -1;
}

TEST(RoutingTable, Predict_GivesTheRowsBack) {
  const RoutingTable table = Squares();
  for (const RoutingRow& row : table.rows()) {
    EXPECT_NEAR(Us(table.Predict(SpecOf(row), row.batch, Backend::kCpu)), row.cpu_us,
                1e-4 * row.cpu_us);
    if (row.gpu_us > 0) {
      EXPECT_NEAR(Us(table.Predict(SpecOf(row), row.batch, Backend::kGpu)), row.gpu_us,
                  1e-4 * row.gpu_us);
    }
  }
}

TEST(RoutingTable, Predict_LiesBetweenItsNeighboursAndGrowsBeyond) {
  const RoutingTable table = Squares();
  Spec spec = SpecOf(table.rows()[0]);
  spec.m = spec.n = 64;
  const double between = Us(table.Predict(spec, 8, Backend::kCpu));
  EXPECT_GT(between, 80);
  EXPECT_LT(between, 25600);
  spec.m = spec.n = 1024;
  EXPECT_GT(Us(table.Predict(spec, 64, Backend::kCpu)), 100 * 25600);
}

TEST(RoutingTable, Predict_KnowsNothingOfOtherClasses) {
  const RoutingTable table = Squares();
  Spec spec = SpecOf(table.rows()[0]);
  spec.q = QMode::kNone;
  EXPECT_FALSE(table.Predict(spec, 1, Backend::kCpu));
  EXPECT_FALSE(table.Predict(SpecOf(table.rows()[4]), 1, Backend::kGpu));
}

TEST(RoutingTable, Predict_ColumnsOfCCountByTheirWork) {
  const RoutingTable table({}, {{Op::kApplyQ, DType::kF64, false, 256, 64, 10, 100, 50}});
  Spec spec = SpecOf(table.rows()[0]);
  spec.p *= 10;
  EXPECT_NEAR(Us(table.Predict(spec, 10, Backend::kGpu)), 500, 50);
}

}  // namespace
}  // namespace factord
