#include "client/factord_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <thread>

#include "client/grpc_status.h"
#include "google/rpc/error_details.pb.h"
#include "tests/client/fake_factord.h"
#include "tests/client/fake_qr.h"
#include "tests/client/test_matrices.h"

namespace factord::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::QrOptions ReducedQr() {
  v1::QrOptions qr;
  qr.set_q(v1::Q_MODE_REDUCED);
  qr.set_r(true);
  return qr;
}

v1::QrOptions RawQr() {
  v1::QrOptions qr;
  qr.set_reflectors(true);
  return qr;
}

google::rpc::Status Failure(absl::StatusCode code, const std::string& message) {
  google::rpc::Status status;
  status.set_code(static_cast<int>(code));
  status.set_message(message);
  return status;
}

double MaxDifference(const Matrices& left, const Matrices& right) {
  EXPECT_EQ(left.dims, right.dims);
  EXPECT_EQ(left.layout, right.layout);
  const std::vector<std::complex<double>> a = ValuesOf(left);
  const std::vector<std::complex<double>> b = ValuesOf(right);
  double difference = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference = std::max(difference, std::abs(a[i] - b[i]));
  }
  return difference;
}

class ClientTest : public ::testing::Test {
 protected:
  // Sleeps are only counted; the clock is real, because gRPC's deadlines are.
  ClientOptions Options() {
    ClientOptions options;
    options.target = fake_.target();
    options.environment.sleep = [this](absl::Duration) { ++sleeps_; };
    return options;
  }

  std::unique_ptr<Client> Connect(ClientOptions options) {
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Create(std::move(options));
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  std::unique_ptr<Client> ConnectStreaming() {
    ClientOptions options = Options();
    options.stream_threshold_bytes = 0;
    return Connect(std::move(options));
  }

  // Q and R by the fake itself, without the wire.
  v1::QrFactors Expected(const Matrices& a, const v1::QrOptions& qr) {
    v1::FactorizeRequest request;
    SetTensorShape(a.View(), request.add_a());
    request.mutable_a(0)->set_data(a.data);
    *request.mutable_qr() = qr;
    return FakeFactorize(request).qr(0);
  }

  FakeFactord fake_;
  int sleeps_ = 0;
};

TEST_F(ClientTest, Factorize_SmallRequestIsUnary) {
  const Matrices a = RandomMatrices(v1::DTYPE_F64, {3, 5, 4}, /*seed=*/1);

  const absl::StatusOr<FactorizeResult> result =
      Connect(Options())->Factorize({a.View()}, ReducedQr());

  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(fake_.unary_calls(), 1);
  EXPECT_EQ(fake_.stream_calls(), 0);
  EXPECT_EQ(result->qr[0].q->data, Expected(a, ReducedQr()).q().data());
  EXPECT_EQ(result->qr[0].r->data, Expected(a, ReducedQr()).r().data());
}

TEST_F(ClientTest, Factorize_SetsOnlyWhatWasAskedFor) {
  const Matrices a = RandomMatrices(v1::DTYPE_F64, {5, 4}, /*seed=*/1);

  const absl::StatusOr<FactorizeResult> result = Connect(Options())->Factorize({a.View()}, RawQr());

  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->qr[0].q.has_value());
  EXPECT_FALSE(result->qr[0].r.has_value());
  EXPECT_THAT(result->qr[0].reflectors->dims, ElementsAre(5, 4));
  EXPECT_THAT(result->qr[0].tau->dims, ElementsAre(4));
}

TEST_F(ClientTest, Factorize_LargeRequestIsStreamed) {
  // 5 MB in three chunks; 10 MB of results.
  const Matrices a = RandomMatrices(v1::DTYPE_F64, {10'000, 8, 8}, /*seed=*/2);

  const absl::StatusOr<FactorizeResult> result =
      Connect(Options())->Factorize({a.View()}, ReducedQr());

  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(fake_.unary_calls(), 0);
  EXPECT_EQ(fake_.received_chunks(), 3);
  EXPECT_EQ(result->qr[0].q->data, Expected(a, ReducedQr()).q().data());
  EXPECT_EQ(result->qr[0].r->data, Expected(a, ReducedQr()).r().data());
}

TEST_F(ClientTest, Factorize_SmallInputWithLargeResultIsStreamed) {
  // 24 kB in, 9 MB of complete Q out.
  const Matrices a = RandomMatrices(v1::DTYPE_F64, {1100, 1}, /*seed=*/3);
  v1::QrOptions qr;
  qr.set_q(v1::Q_MODE_COMPLETE);

  const absl::StatusOr<FactorizeResult> result = Connect(Options())->Factorize({a.View()}, qr);

  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(fake_.stream_calls(), 1);
  EXPECT_EQ(result->qr[0].q->data, Expected(a, qr).q().data());
}

TEST_F(ClientTest, Factorize_StreamedTensorsStayApart) {
  const Matrices a = RandomMatrices(v1::DTYPE_F32, {2, 6, 3}, /*seed=*/4);
  const Matrices b = RandomMatrices(v1::DTYPE_C128, {3, 5}, /*seed=*/5, v1::LAYOUT_COLUMN_MAJOR);
  const Matrices empty = RandomMatrices(v1::DTYPE_F32, {0, 6, 3}, /*seed=*/6);

  const absl::StatusOr<FactorizeResult> result =
      ConnectStreaming()->Factorize({a.View(), empty.View(), b.View()}, ReducedQr());

  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(fake_.stream_calls(), 1);
  EXPECT_EQ(result->qr[0].q->data, Expected(a, ReducedQr()).q().data());
  EXPECT_THAT(result->qr[1].r->dims, ElementsAre(0, 3, 3));
  EXPECT_EQ(result->qr[2].r->data, Expected(b, ReducedQr()).r().data());
  EXPECT_EQ(result->qr[2].r->layout, v1::LAYOUT_COLUMN_MAJOR);
}

TEST_F(ClientTest, Factorize_ReportsBadMatrixInStatuses) {
  Matrices a = RandomMatrices(v1::DTYPE_F64, {3, 2, 2}, /*seed=*/7);
  SetElement(a.dtype, 5, std::numeric_limits<double>::quiet_NaN(), &a.data);

  const absl::StatusOr<FactorizeResult> result =
      Connect(Options())->Factorize({a.View()}, ReducedQr());

  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->qr[0].statuses.size(), 1u);
  EXPECT_EQ(result->qr[0].statuses[0].index(), 1);
  EXPECT_EQ(result->qr[0].statuses[0].code(), v1::MATRIX_CODE_NONFINITE_INPUT);
}

TEST_F(ClientTest, Factorize_StreamKeepsStatusesAndReport) {
  Matrices a = RandomMatrices(v1::DTYPE_F64, {3, 2, 2}, /*seed=*/8);
  SetElement(a.dtype, 0, std::numeric_limits<double>::infinity(), &a.data);

  const absl::StatusOr<FactorizeResult> result =
      ConnectStreaming()->Factorize({a.View()}, ReducedQr());

  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->qr[0].statuses.size(), 1u);
  EXPECT_EQ(result->report.batch_matrices(), 3);
}

TEST_F(ClientTest, FormQ_GivesTheQOfFactorize) {
  const Matrices a = RandomMatrices(v1::DTYPE_C128, {2, 5, 3}, /*seed=*/9);
  const std::unique_ptr<Client> client = ConnectStreaming();
  const absl::StatusOr<FactorizeResult> raw = client->Factorize({a.View()}, RawQr());
  ASSERT_TRUE(raw.ok()) << raw.status();

  const absl::StatusOr<FormQResult> formed =
      client->FormQ({{raw->qr[0].reflectors->View(), raw->qr[0].tau->View()}}, v1::Q_MODE_REDUCED);

  ASSERT_TRUE(formed.ok()) << formed.status();
  EXPECT_EQ(formed->q[0].matrices.data, Expected(a, ReducedQr()).q().data());
}

TEST_F(ClientTest, ApplyQ_AdjointUndoesPlain) {
  const Matrices a = RandomMatrices(v1::DTYPE_C128, {5, 3}, /*seed=*/10);
  const Matrices c = RandomMatrices(v1::DTYPE_C128, {5, 2}, /*seed=*/11);
  const std::unique_ptr<Client> client = Connect(Options());
  const absl::StatusOr<FactorizeResult> raw = client->Factorize({a.View()}, RawQr());
  ASSERT_TRUE(raw.ok()) << raw.status();
  const ReflectorsView factors{raw->qr[0].reflectors->View(), raw->qr[0].tau->View()};

  const absl::StatusOr<ApplyQResult> applied =
      client->ApplyQ({{factors, c.View()}}, v1::SIDE_LEFT, v1::Q_OP_PLAIN);
  ASSERT_TRUE(applied.ok()) << applied.status();
  const absl::StatusOr<ApplyQResult> undone =
      client->ApplyQ({{factors, applied->c[0].matrices.View()}}, v1::SIDE_LEFT, v1::Q_OP_ADJOINT);

  ASSERT_TRUE(undone.ok()) << undone.status();
  EXPECT_GT(MaxDifference(applied->c[0].matrices, c), 0.1);
  EXPECT_LT(MaxDifference(undone->c[0].matrices, c), 1e-13);
}

TEST_F(ClientTest, ApplyQ_StreamedOnTheRight) {
  const Matrices a = RandomMatrices(v1::DTYPE_F64, {4, 4}, /*seed=*/12);
  const Matrices identity =
      MakeMatrices(v1::DTYPE_F64, {4, 4}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1});
  const std::unique_ptr<Client> client = ConnectStreaming();
  const absl::StatusOr<FactorizeResult> raw = client->Factorize({a.View()}, RawQr());
  ASSERT_TRUE(raw.ok()) << raw.status();
  const ReflectorsView factors{raw->qr[0].reflectors->View(), raw->qr[0].tau->View()};

  const absl::StatusOr<ApplyQResult> right =
      client->ApplyQ({{factors, identity.View()}}, v1::SIDE_RIGHT, v1::Q_OP_PLAIN);
  const absl::StatusOr<FormQResult> q = client->FormQ({factors}, v1::Q_MODE_COMPLETE);

  ASSERT_TRUE(right.ok()) << right.status();
  ASSERT_TRUE(q.ok()) << q.status();
  EXPECT_LT(MaxDifference(right->c[0].matrices, q->q[0].matrices), 1e-14);
}

TEST_F(ClientTest, Solve_FitsALine) {
  const Matrices a = MakeMatrices(v1::DTYPE_F64, {3, 2}, {1, 0, 1, 1, 1, 2});
  const Matrices b = MakeMatrices(v1::DTYPE_F64, {3, 1}, {1, 3, 5});

  const absl::StatusOr<SolveResult> result = Connect(Options())->Solve({{a.View(), b.View()}});

  ASSERT_TRUE(result.ok()) << result.status();
  const LeastSquaresResult& solution = result->solutions[0];
  EXPECT_LT(MaxDifference(solution.x, MakeMatrices(v1::DTYPE_F64, {2, 1}, {1, 2})), 1e-14);
  EXPECT_LT(std::abs(ValuesOf(solution.residual_norm)[0]), 1e-14);
  EXPECT_THAT(solution.rank, ElementsAre(2));
}

TEST_F(ClientTest, Solve_StreamedGivesTheSameBytes) {
  const Matrices a = RandomMatrices(v1::DTYPE_C64, {4, 6, 2}, /*seed=*/13);
  const Matrices b = RandomMatrices(v1::DTYPE_C64, {4, 6, 3}, /*seed=*/14);

  const absl::StatusOr<SolveResult> unary = Connect(Options())->Solve({{a.View(), b.View()}});
  const absl::StatusOr<SolveResult> streamed = ConnectStreaming()->Solve({{a.View(), b.View()}});

  ASSERT_TRUE(unary.ok()) << unary.status();
  ASSERT_TRUE(streamed.ok()) << streamed.status();
  EXPECT_EQ(fake_.stream_calls(), 1);
  EXPECT_EQ(unary->solutions[0].x.data, streamed->solutions[0].x.data);
  EXPECT_EQ(unary->solutions[0].residual_norm.data, streamed->solutions[0].residual_norm.data);
}

TEST_F(ClientTest, GetServerInfo_BringsTheAnswer) {
  const absl::StatusOr<v1::GetServerInfoResponse> info = Connect(Options())->GetServerInfo();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->version(), "0.0-fake");
}

TEST_F(ClientTest, ClientNameIsSent) {
  ClientOptions options = Options();
  options.client_name = "optimizer-7";
  const Matrices a = RandomMatrices(v1::DTYPE_F64, {2, 2}, /*seed=*/15);

  ASSERT_TRUE(Connect(options)->Factorize({a.View()}, ReducedQr()).ok());

  EXPECT_EQ(fake_.client_name(), "optimizer-7");
}

TEST_F(ClientTest, Refusal_KeepsCodeMessageAndField) {
  google::rpc::Status refusal =
      Failure(absl::StatusCode::kInvalidArgument, "a[0].dims: 7 is not 8");
  google::rpc::BadRequest detail;
  detail.add_field_violations()->set_field("a[0].dims");
  refusal.add_details()->PackFrom(detail);
  fake_.FailNext(refusal, 1);
  const Matrices a = RandomMatrices(v1::DTYPE_F64, {2, 2}, /*seed=*/16);

  const absl::Status status = Connect(Options())->Factorize({a.View()}, ReducedQr()).status();

  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(), "a[0].dims: 7 is not 8");
  EXPECT_EQ(RefusedField(status), "a[0].dims");
}

TEST_F(ClientTest, RefusedStream_EndsThoughChunksAreUnsent) {
  fake_.FailNext(Failure(absl::StatusCode::kResourceExhausted, "too much"), 1);
  const Matrices a{
      v1::DTYPE_F64, {1 << 20, 2, 2}, v1::LAYOUT_ROW_MAJOR, std::string(32 << 20, '\0')};

  const absl::Status status = Connect(Options())->Factorize({a.View()}, ReducedQr()).status();

  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(status.message(), "too much");
}

TEST_F(ClientTest, UnavailableUnary_IsRetried) {
  fake_.FailNext(Failure(absl::StatusCode::kUnavailable, "busy"), 2);
  const Matrices a = RandomMatrices(v1::DTYPE_F64, {2, 2}, /*seed=*/17);

  EXPECT_TRUE(Connect(Options())->Factorize({a.View()}, ReducedQr()).ok());

  EXPECT_EQ(fake_.unary_calls(), 3);
  EXPECT_EQ(sleeps_, 2);
}

TEST_F(ClientTest, UnavailableStream_IsRetriedAsAWhole) {
  fake_.FailNext(Failure(absl::StatusCode::kUnavailable, "busy"), 1);
  const Matrices a = RandomMatrices(v1::DTYPE_F64, {2, 2}, /*seed=*/18);

  const absl::StatusOr<FactorizeResult> result =
      ConnectStreaming()->Factorize({a.View()}, ReducedQr());

  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(fake_.stream_calls(), 2);
  EXPECT_EQ(result->qr[0].r->data, Expected(a, ReducedQr()).r().data());
}

TEST_F(ClientTest, OtherErrors_AreNotRetried) {
  fake_.FailNext(Failure(absl::StatusCode::kInternal, "broken"), 1);
  const Matrices a = RandomMatrices(v1::DTYPE_F64, {2, 2}, /*seed=*/19);

  EXPECT_TRUE(absl::IsInternal(Connect(Options())->Factorize({a.View()}, ReducedQr()).status()));

  EXPECT_EQ(fake_.unary_calls(), 1);
}

TEST_F(ClientTest, LostChunk_IsInternal) {
  fake_.LoseLastChunk();
  const Matrices a = RandomMatrices(v1::DTYPE_F64, {2, 2}, /*seed=*/20);

  const absl::Status status = ConnectStreaming()->Factorize({a.View()}, ReducedQr()).status();

  EXPECT_TRUE(absl::IsInternal(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("0 bytes of tensor 0, not 32"));
}

TEST_F(ClientTest, ReplyOfOtherDims_IsInternal) {
  fake_.SwapDimsOfR();
  const Matrices a = RandomMatrices(v1::DTYPE_F64, {2, 3}, /*seed=*/24);

  const absl::Status status = Connect(Options())->Factorize({a.View()}, ReducedQr()).status();

  EXPECT_EQ(status, absl::InternalError("the server's reply: r is 3x2 f64, expected 2x3 f64"));
}

TEST_F(ClientTest, WrongByteCount_IsRefusedWithoutACall) {
  Matrices a = RandomMatrices(v1::DTYPE_F64, {2, 2}, /*seed=*/21);
  a.data.pop_back();

  const absl::Status status = Connect(Options())->Factorize({a.View()}, ReducedQr()).status();

  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(), "a 0: 2x2 f64 is 32 bytes, and the data have 31");
  EXPECT_EQ(fake_.unary_calls() + fake_.stream_calls(), 0);
}

TEST_F(ClientTest, OneDim_IsRefusedWithoutACall) {
  const Matrices a = RandomMatrices(v1::DTYPE_F64, {4}, /*seed=*/22);
  EXPECT_EQ(Connect(Options())->Factorize({a.View()}, ReducedQr()).status().message(),
            "a 0: 1 dims, at least 2 needed");
}

TEST_F(ClientTest, StreamedProgress_EndsAtAllBytes) {
  const Matrices a = RandomMatrices(v1::DTYPE_F64, {3, 2, 2}, /*seed=*/23);
  int64_t last_done = 0;
  int64_t last_total = 0;
  CallOptions call;
  call.progress = [&](int64_t done, int64_t total) {
    last_done = done;
    last_total = total;
  };

  ASSERT_TRUE(ConnectStreaming()->Factorize({a.View()}, ReducedQr(), call).ok());

  EXPECT_EQ(last_total, 3 * 96);
  EXPECT_EQ(last_done, last_total);
}

TEST_F(ClientTest, PassedDeadline_IsDeadlineExceeded) {
  CallOptions call;
  call.timeout = absl::ZeroDuration();
  const absl::Status status = Connect(Options())->GetServerInfo(call).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
}

TEST_F(ClientTest, NoServer_IsUnavailableAfterAllTries) {
  ClientOptions options = Options();
  options.target = "unix:/nowhere/factord.socket";
  EXPECT_TRUE(absl::IsUnavailable(Connect(options)->GetServerInfo().status()));
  EXPECT_EQ(sleeps_, options.retry.max_attempts - 1);
}

TEST_F(ClientTest, ManyThreadsShareOneClient) {
  const std::unique_ptr<Client> client = ConnectStreaming();
  std::vector<std::thread> threads;
  std::vector<int> is_right(4, 0);
  for (size_t t = 0; t < is_right.size(); ++t) {
    threads.emplace_back([&, t] {
      const Matrices a = RandomMatrices(v1::DTYPE_F64, {50, 4, 4}, /*seed=*/100 + t);
      const absl::StatusOr<FactorizeResult> result = client->Factorize({a.View()}, ReducedQr());
      is_right[t] = result.ok() && result->qr[0].r->data == Expected(a, ReducedQr()).r().data();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(is_right, ElementsAre(1, 1, 1, 1));
}

TEST(ClientOptionsTest, EmptyTarget_IsRefused) {
  ClientOptions options;
  options.target = "";
  EXPECT_EQ(Client::Create(options).status().message(), "target is empty");
}

TEST(ClientOptionsTest, ZeroTimeout_IsRefused) {
  ClientOptions options;
  options.timeout = absl::ZeroDuration();
  EXPECT_EQ(Client::Create(options).status().message(), "timeout is 0, not above 0");
}

TEST(ClientOptionsTest, SmallMessageLimit_IsRefused) {
  ClientOptions options;
  options.max_message_bytes = 1 << 20;
  EXPECT_EQ(Client::Create(options).status().message(),
            "max_message_bytes is 1048576, below 4194304");
}

// gRPC ends the process for metadata that it can not send.
TEST(ClientOptionsTest, TokenOfTwoLines_IsRefusedAndNotRepeated) {
  ClientOptions options;
  options.token = "secret\n";
  EXPECT_EQ(Client::Create(options).status().message(),
            "token holds a space, or what is no visible character");
}

}  // namespace
}  // namespace factord::client
