#include "server/rpc/codec_reduction.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/errors.h"
#include "server/reduction/block_shape.h"

namespace factord {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Limits TestLimits() { return {.memory_budget_bytes = std::int64_t{8} << 30}; }

v1::ReduceRowsStart Start() {
  v1::ReduceRowsStart start;
  start.set_dtype(v1::DTYPE_F64);
  start.set_n(3);
  start.set_nrhs(1);
  return start;
}

v1::ReducedRows Triangle(std::int64_t rows, std::vector<std::int64_t> dims) {
  v1::ReducedRows reduced;
  reduced.set_rows(rows);
  reduced.mutable_r()->set_dtype(v1::DTYPE_F64);
  for (std::int64_t dim : dims) reduced.mutable_r()->add_dims(dim);
  reduced.mutable_r()->set_data(PlaceholderOf(0));
  return reduced;
}

TEST(DecodeReduceRowsStart, FillsTheOptions) {
  v1::ReduceRowsStart start = Start();
  start.set_solve(true);
  start.set_standard_errors(true);
  start.set_rcond(1e-3);
  start.set_progress_rows(1000);
  start.mutable_run()->set_precision(v1::PRECISION_FAST);
  start.mutable_run()->set_priority(v1::PRIORITY_LOW);
  start.mutable_run()->set_backend(v1::BACKEND_CPU);

  const auto decoded = Decode(start, TestLimits());

  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const ReductionOptions& options = decoded->options;
  EXPECT_EQ(options.dtype, DType::kF64);
  EXPECT_EQ(options.n, 3);
  EXPECT_EQ(options.nrhs, 1);
  EXPECT_TRUE(options.solve && options.standard_errors && options.fast);
  EXPECT_EQ(options.rcond, 1e-3);
  EXPECT_EQ(options.block_rows, 0);
  EXPECT_EQ(decoded->progress_rows, 1000);
  EXPECT_EQ(decoded->request.priority, Priority::kLow);
  EXPECT_EQ(decoded->request.backend, Backend::kCpu);
  ASSERT_EQ(decoded->request.items.size(), 1u);
  EXPECT_EQ(decoded->request.items[0].spec, RowReduction::BlockSpec(options));
}

TEST(DecodeReduceRowsStart, AnUnsetRcondIsTheDefault) {
  EXPECT_LT(Decode(Start(), TestLimits())->options.rcond, 0);
}

TEST(DecodeReduceRowsStart, UpToTheLimitOfColumns) {
  v1::ReduceRowsStart start = Start();
  start.set_n(kMaxReducedColumns - 1);
  EXPECT_TRUE(Decode(start, TestLimits()).ok());
  start.set_nrhs(2);
  EXPECT_EQ(FieldOf(Decode(start, TestLimits()).status()), "start.nrhs");
  start.set_n(kMaxReducedColumns + 1);
  EXPECT_EQ(FieldOf(Decode(start, TestLimits()).status()), "start.n");
}

TEST(DecodeReduceRowsStart, AResultLargerThanAMessageIsRefused) {
  v1::ReduceRowsStart start = Start();
  start.set_dtype(v1::DTYPE_C128);
  start.set_n(kMaxReducedColumns - 1);
  const absl::Status status = Decode(start, TestLimits()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(std::to_string(kMaxReducedColumns * kMaxReducedColumns * 16 + (64 << 10))));
}

TEST(DecodeReducedRows, TakesWhatAStreamLeaves) {
  const ReductionOptions options = Decode(Start(), TestLimits())->options;
  for (const auto& [rows, left] : {std::pair{1, 1}, {4, 4}, {1000, 4}}) {
    const std::array<std::int64_t, 1> sizes = {left * 4 * 8};
    const auto decoded = Decode(Triangle(rows, {left, 4}), sizes, options, TestLimits());
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->rows, rows);
    EXPECT_EQ(decoded->payload, 0);
  }
}

TEST(DecodeReducedRows, RefusesBatchesAndDataOfAnotherSize) {
  const ReductionOptions options = Decode(Start(), TestLimits())->options;
  const std::array<std::int64_t, 1> sizes = {4 * 4 * 8};
  EXPECT_EQ(FieldOf(Decode(Triangle(9, {1, 4, 4}), sizes, options, TestLimits()).status()),
            "reduced.r.dims");
  const std::array<std::int64_t, 1> short_sizes = {4 * 4 * 8 - 1};
  EXPECT_EQ(FieldOf(Decode(Triangle(9, {4, 4}), short_sizes, options, TestLimits()).status()),
            "reduced.r.data");
}

TEST(EncodeReduced, GivesDimsOfWhatWasAskedFor) {
  ReductionOptions options{.dtype = DType::kC64, .n = 3, .nrhs = 2};
  Reduced reduced;
  reduced.rows = 2;
  reduced.r_rows = 2;
  std::vector<OutPayload> payloads;
  v1::ReduceRowsResponse response = Encode(options, reduced, nullptr, payloads);
  EXPECT_THAT(response.result().reduced().r().dims(), ElementsAre(2, 5));
  EXPECT_EQ(response.result().code(), v1::MATRIX_CODE_UNSPECIFIED);
  EXPECT_FALSE(response.result().has_x());
  ASSERT_EQ(payloads.size(), 1u);
  EXPECT_EQ(payloads[0].size, 2 * 5 * 8);

  options.solve = true;
  reduced.code = MatrixCode::kNonfiniteInput;
  reduced.nonfinite = {{30, 10}, {90, 5}};
  payloads.clear();
  response = Encode(options, reduced, nullptr, payloads);
  EXPECT_EQ(response.result().residual_norm().dtype(), v1::DTYPE_F32);
  EXPECT_THAT(response.result().residual_norm().dims(), ElementsAre(2));
  EXPECT_THAT(response.result().x().dims(), ElementsAre(3, 2));
  EXPECT_EQ(response.result().code(), v1::MATRIX_CODE_NONFINITE_INPUT);
  ASSERT_EQ(response.result().nonfinite_size(), 2);
  EXPECT_EQ(response.result().nonfinite(1).first(), 90);
  EXPECT_EQ(payloads.size(), 3u);
}

}  // namespace
}  // namespace factord
