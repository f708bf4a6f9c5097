#include "client/row_reducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "client/factord_client.h"
#include "tests/client/fake_factord.h"
#include "tests/client/test_matrices.h"

namespace factord::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

google::rpc::Status Failure(absl::StatusCode code, const std::string& message) {
  google::rpc::Status status;
  status.set_code(static_cast<int>(code));
  status.set_message(message);
  return status;
}

v1::ReduceRowsStart Start(int64_t n, int64_t nrhs = 0) {
  v1::ReduceRowsStart start;
  start.set_dtype(v1::DTYPE_F64);
  start.set_n(n);
  start.set_nrhs(nrhs);
  start.set_solve(nrhs > 0);
  start.set_standard_errors(nrhs > 0);
  return start;
}

double MaxDifference(const Matrices& left, const std::vector<std::complex<double>>& right) {
  const std::vector<std::complex<double>> values = ValuesOf(left);
  EXPECT_EQ(values.size(), right.size());
  double difference = 0;
  for (size_t i = 0; i < std::min(values.size(), right.size()); ++i) {
    difference = std::max(difference, std::abs(values[i] - right[i]));
  }
  return difference;
}

// Rows of R are determined up to their signs.
Matrices Magnitudes(const Matrices& r) {
  std::vector<std::complex<double>> values = ValuesOf(r);
  for (std::complex<double>& value : values) value = std::abs(value);
  return MakeMatrices(r.dtype, r.dims, values);
}

class RowReducerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ClientOptions options;
    options.target = fake_.target();
    options.client_name = "rows";
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Create(options);
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }

  std::unique_ptr<RowReducer> Begin(const v1::ReduceRowsStart& start) {
    absl::StatusOr<std::unique_ptr<RowReducer>> reducer = client_->ReduceRows(start);
    EXPECT_TRUE(reducer.ok()) << reducer.status();
    return *std::move(reducer);
  }

  // What a reducer makes of all of it at once.
  RowReduction Reduce(const v1::ReduceRowsStart& start, const Matrices& rows) {
    const std::unique_ptr<RowReducer> reducer = Begin(start);
    EXPECT_TRUE(reducer->Add(rows.data).ok());
    absl::StatusOr<RowReduction> result = reducer->Finish();
    EXPECT_TRUE(result.ok()) << result.status();
    return *std::move(result);
  }

  FakeFactord fake_;
  std::unique_ptr<Client> client_;
};

TEST_F(RowReducerTest, R_IsThatOfFactorize) {
  const Matrices a = RandomMatrices(v1::DTYPE_F64, {20, 3}, /*seed=*/1);
  v1::QrOptions qr;
  qr.set_r(true);
  const absl::StatusOr<FactorizeResult> expected = client_->Factorize({a.View()}, qr);

  const RowReduction result = Reduce(Start(3), a);

  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_EQ(result.reduced.r.data, expected->qr[0].r->data);
  EXPECT_THAT(result.reduced.r.dims, ElementsAre(3, 3));
  EXPECT_EQ(result.reduced.rows, 20);
  EXPECT_FALSE(result.x.has_value());
  EXPECT_EQ(fake_.client_name(), "rows");
}

TEST_F(RowReducerTest, Pieces_NeedNotBeWholeRows) {
  const Matrices a = RandomMatrices(v1::DTYPE_F64, {20, 3}, /*seed=*/2);
  const std::unique_ptr<RowReducer> reducer = Begin(Start(3));
  for (size_t first = 0; first < a.data.size(); first += 7) {
    ASSERT_TRUE(reducer->Add(absl::string_view(a.data).substr(first, 7)).ok());
  }

  const absl::StatusOr<RowReduction> result = reducer->Finish();

  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->reduced.r.data, Reduce(Start(3), a).reduced.r.data);
}

TEST_F(RowReducerTest, Messages_AreOfTwoMebibytes) {
  Reduce(Start(1), Matrices{v1::DTYPE_F64, {}, v1::LAYOUT_ROW_MAJOR, std::string(5 << 20, '\0')});

  EXPECT_EQ(fake_.received_chunks(), 3);
}

TEST_F(RowReducerTest, Solve_FitsALine) {
  // y = 1 + 2 t, but for a last point that is off by 3.
  const Matrices rows = MakeMatrices(v1::DTYPE_F64, {4, 3}, {1, -1, -1, 1, 0, 1, 1, 1, 3, 1, 0, 4});

  const RowReduction result = Reduce(Start(2, 1), rows);

  // A^T A = diag(4, 2): x = (7/4, 2), the residuals (-3, -3, -3, 9)/4.
  EXPECT_LT(MaxDifference(*result.x, {1.75, 2}), 1e-14);
  EXPECT_LT(MaxDifference(*result.residual_norm, {std::sqrt(6.75)}), 1e-14);
  const double sigma = std::sqrt(6.75 / 2);
  EXPECT_LT(MaxDifference(*result.standard_errors, {sigma / 2, sigma / std::sqrt(2)}), 1e-14);
  EXPECT_EQ(result.rank, 2);
  EXPECT_THAT(result.x->dims, ElementsAre(2, 1));
}

TEST_F(RowReducerTest, Merge_GoesOnFromOtherRows) {
  const Matrices a = RandomMatrices(v1::DTYPE_F64, {20, 3}, /*seed=*/3);
  const Matrices b = RandomMatrices(v1::DTYPE_F64, {10, 3}, /*seed=*/4);
  const RowReduction first = Reduce(Start(3), a);
  const std::unique_ptr<RowReducer> reducer = Begin(Start(3));
  ASSERT_TRUE(reducer->Merge(first.reduced).ok());
  ASSERT_TRUE(reducer->Add(b.data).ok());

  const absl::StatusOr<RowReduction> result = reducer->Finish();

  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->reduced.rows, 30);
  const Matrices both{v1::DTYPE_F64, {30, 3}, v1::LAYOUT_ROW_MAJOR, a.data + b.data};
  EXPECT_LT(MaxDifference(Magnitudes(result->reduced.r),
                          ValuesOf(Magnitudes(Reduce(Start(3), both).reduced.r))),
            1e-13);
}

TEST_F(RowReducerTest, FewRows_GiveAWideR) {
  const RowReduction result = Reduce(Start(3), MakeMatrices(v1::DTYPE_F64, {1, 3}, {3, 4, 5}));
  EXPECT_THAT(result.reduced.r.dims, ElementsAre(1, 3));
}

TEST_F(RowReducerTest, Nonfinite_IsReported) {
  const RowReduction result =
      Reduce(Start(1), MakeMatrices(v1::DTYPE_F64, {2, 1}, {1, std::nan("")}));
  EXPECT_EQ(result.code, v1::MATRIX_CODE_NONFINITE_INPUT);
  ASSERT_EQ(result.nonfinite.size(), 1u);
  EXPECT_EQ(result.nonfinite[0].count(), 2);
}

TEST_F(RowReducerTest, Refusal_EndsRowsThatAreStillSent) {
  fake_.FailNext(Failure(absl::StatusCode::kUnavailable, "busy"), 1);
  const std::string megabyte(1 << 20, '\0');
  absl::StatusOr<std::unique_ptr<RowReducer>> reducer = client_->ReduceRows(Start(1));
  absl::Status status = reducer.status();
  while (status.ok()) status = (*reducer)->Add(megabyte);

  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(status.message(), "busy");
  EXPECT_EQ(fake_.stream_calls(), 1);
  if (reducer.ok()) {
    EXPECT_EQ((*reducer)->Add(megabyte), status);
    EXPECT_EQ((*reducer)->Finish().status(), status);
  }
}

TEST_F(RowReducerTest, Unfinished_IsCancelled) {
  {
    const std::unique_ptr<RowReducer> reducer = Begin(Start(2));
    ASSERT_TRUE(reducer->Add("1234").ok());
  }
  EXPECT_EQ(Reduce(Start(1), MakeMatrices(v1::DTYPE_F64, {1, 1}, {2})).reduced.rows, 1);
}

TEST_F(RowReducerTest, DeadlineThatHasPassed_StartsNothing) {
  CallOptions call;
  call.timeout = absl::ZeroDuration();
  EXPECT_TRUE(absl::IsDeadlineExceeded(client_->ReduceRows(Start(1), call).status()));
  EXPECT_EQ(fake_.stream_calls(), 0);
}

TEST_F(RowReducerTest, MissingResult_IsAnError) {
  fake_.LoseLastChunk();
  const std::unique_ptr<RowReducer> reducer = Begin(Start(1));
  const absl::Status status = reducer->Finish().status();
  EXPECT_TRUE(absl::IsInternal(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("without a result"));
}

TEST_F(RowReducerTest, ResultThatContradictsItself_IsAnError) {
  fake_.SwapDimsOfR();
  const std::unique_ptr<RowReducer> reducer = Begin(Start(1));
  ASSERT_TRUE(reducer->Add(MakeMatrices(v1::DTYPE_F64, {1, 1}, {2}).data).ok());
  const absl::Status status = reducer->Finish().status();
  EXPECT_TRUE(absl::IsInternal(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("r is 1x1, not 0x1"));
}

}  // namespace
}  // namespace factord::client
