#include "server/rpc/codec.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/errors.h"
#include "server/rpc/wire.h"

namespace factord {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Limits TestLimits() {
  Limits limits;
  limits.memory_budget_bytes = std::int64_t{8} << 30;
  return limits;
}

v1::Tensor TensorOf(v1::DType dtype, std::vector<std::int64_t> dims) {
  v1::Tensor tensor;
  tensor.set_dtype(dtype);
  for (std::int64_t dim : dims) tensor.add_dims(dim);
  return tensor;
}

v1::FactorizeRequest QrRequest(v1::DType dtype, std::vector<std::int64_t> dims) {
  v1::FactorizeRequest request;
  *request.add_a() = TensorOf(dtype, std::move(dims));
  request.mutable_qr()->set_q(v1::Q_MODE_REDUCED);
  request.mutable_qr()->set_r(true);
  return request;
}

absl::StatusOr<DecodedRequest> DecodeShapes(const auto& request,
                                            const Limits& limits = TestLimits()) {
  return Decode(request, DataMode::kShapeOnly, {}, limits);
}

void ExpectInvalid(const absl::Status& status, const std::string& field, const std::string& text) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(FieldOf(status).value_or("none"), field);
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

TEST(DecodeFactorize, FillsTheSpec) {
  v1::FactorizeRequest request = QrRequest(v1::DTYPE_C64, {2, 5, 7, 3});
  request.mutable_a(0)->set_layout(v1::LAYOUT_COLUMN_MAJOR);
  request.mutable_qr()->set_sign(v1::SIGN_NONNEGATIVE);
  request.mutable_run()->set_priority(v1::PRIORITY_LOW);

  const auto decoded = DecodeShapes(request);

  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const Spec expected{.op = Op::kFactorize,
                      .dtype = DType::kC64,
                      .layout = Layout::kColumnMajor,
                      .m = 7,
                      .n = 3,
                      .q = QMode::kReduced,
                      .r = true,
                      .sign = Sign::kNonnegative};
  EXPECT_EQ(decoded->items[0].spec, expected);
  EXPECT_EQ(decoded->items[0].count, 10);
  EXPECT_THAT(decoded->items[0].batch_dims, ElementsAre(2, 5));
  EXPECT_EQ(decoded->priority, Priority::kLow);
  EXPECT_EQ(decoded->inputs[0].bytes, 10 * 7 * 3 * 8);
  EXPECT_EQ(decoded->outputs[0].bytes, 10 * 7 * 3 * 8);
  EXPECT_EQ(decoded->outputs[1].bytes, 10 * 3 * 3 * 8);
}

TEST(DecodeFactorize, SlotsAreAlignedAndDoNotOverlap) {
  v1::FactorizeRequest request = QrRequest(v1::DTYPE_F32, {3, 5});
  *request.add_a() = TensorOf(v1::DTYPE_F64, {2, 1, 1});
  request.mutable_qr()->set_reflectors(true);

  const auto decoded = DecodeShapes(request);

  ASSERT_TRUE(decoded.ok());
  std::int64_t end = 0;
  for (const TensorSlot& slot : decoded->outputs) {
    EXPECT_EQ(slot.offset % 64, 0);
    EXPECT_GE(slot.offset, end);
    end = slot.offset + slot.bytes;
  }
  EXPECT_LE(end, decoded->output_bytes);
}

TEST(DecodeFactorize, DataOfTheWrongSize_NamesBothNumbers) {
  v1::FactorizeRequest request = QrRequest(v1::DTYPE_F32, {4, 3});
  request.mutable_a(0)->set_data(PlaceholderOf(0));
  for (std::int64_t bytes : {std::int64_t{47}, std::int64_t{49}, std::int64_t{96}}) {
    const auto decoded = Decode(request, DataMode::kInline, {&bytes, 1}, TestLimits());
    ExpectInvalid(decoded.status(), "a[0].data",
                  absl::StrCat("has ", bytes, " bytes; dims 4x3 of f32 need 48"));
  }
  request.mutable_a(0)->clear_data();
  ExpectInvalid(Decode(request, DataMode::kInline, {}, TestLimits()).status(), "a[0].data",
                "has 0 bytes");
}

TEST(DecodeFactorize, NegativeDims_AreRefused) {
  for (std::int64_t bad : {std::int64_t{-1}, -(std::int64_t{1} << 31), INT64_MIN}) {
    ExpectInvalid(DecodeShapes(QrRequest(v1::DTYPE_F32, {2, bad, 3})).status(), "a[0].dims[1]",
                  absl::StrCat("is ", bad));
  }
}

TEST(DecodeFactorize, DimsWhoseProductWraps_AreRefused) {
  const std::int64_t big = std::int64_t{1} << 32;
  ExpectInvalid(DecodeShapes(QrRequest(v1::DTYPE_F32, {65536, 65536})).status(), "a[0].dims",
                "2147483647");
  ExpectInvalid(DecodeShapes(QrRequest(v1::DTYPE_F32, {big, big, 16, 1})).status(), "a[0].dims",
                "2^63-1");
  ExpectInvalid(DecodeShapes(QrRequest(v1::DTYPE_C128, {std::int64_t{1} << 59, 1, 1})).status(),
                "a[0].dims", "2^63-1");
  ExpectInvalid(DecodeShapes(QrRequest(v1::DTYPE_F32, {big, big, 1, 0})).status(), "a[0].dims",
                "2^63-1");
  ExpectInvalid(DecodeShapes(QrRequest(v1::DTYPE_F32, {big, 0})).status(), "a[0].dims",
                "4294967296x0");
}

TEST(DecodeFactorize, MoreThanTheServersMemory_SaysHowMuch) {
  Limits limits = TestLimits();
  limits.memory_budget_bytes = 1 << 20;

  const auto decoded = DecodeShapes(QrRequest(v1::DTYPE_F32, {1000, 1000}), limits);

  EXPECT_EQ(decoded.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(decoded.status().message()), HasSubstr("4000000 bytes"));
  EXPECT_THAT(std::string(decoded.status().message()), HasSubstr("1048576"));
}

TEST(DecodeFactorize, CompleteQOfATallMatrix_IsCountedBeforeMemory) {
  v1::FactorizeRequest request = QrRequest(v1::DTYPE_F32, {65536, 8});
  request.mutable_qr()->set_q(v1::Q_MODE_COMPLETE);
  ExpectInvalid(DecodeShapes(request).status(), "a[0]", "65536x65536");
}

TEST(DecodeFactorize, SizesAroundTwoToThe31_AreExact) {
  // 58,720,256 rows of 36 and 37 columns straddle 2^31 elements.
  Limits limits = TestLimits();
  limits.memory_budget_bytes = std::int64_t{1} << 40;
  const auto fits = DecodeShapes(QrRequest(v1::DTYPE_F32, {58720256, 36}), limits);
  ASSERT_TRUE(fits.ok()) << fits.status();
  EXPECT_EQ(fits->inputs[0].bytes, 8455716864);
  ExpectInvalid(DecodeShapes(QrRequest(v1::DTYPE_F32, {58720256, 37}), limits).status(),
                "a[0].dims", "2147483647");
}

TEST(DecodeFactorize, EmptyDims_GiveEmptyResults) {
  const auto decoded = DecodeShapes(QrRequest(v1::DTYPE_F64, {1, 0, 2, 4, 5}));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->items[0].count, 0);
  EXPECT_EQ(decoded->outputs[0].bytes, 0);

  const v1::StreamResult response = Encode(*decoded, nullptr, true);
  EXPECT_THAT(response.factorize().qr(0).q().dims(), ElementsAre(1, 0, 2, 4, 4));
  EXPECT_THAT(response.factorize().qr(0).r().dims(), ElementsAre(1, 0, 2, 4, 5));
}

TEST(DecodeFactorize, TooManyTensors_AreRefused) {
  Limits limits = TestLimits();
  limits.max_tensors = 2;
  v1::FactorizeRequest request = QrRequest(v1::DTYPE_F32, {2, 2});
  for (int i = 0; i < 2; ++i) *request.add_a() = request.a(0);
  ExpectInvalid(DecodeShapes(request, limits).status(), "a", "has 3 entries; the limit is 2");
  request.clear_a();
  EXPECT_TRUE(DecodeShapes(request, limits).ok());
}

TEST(DecodeFactorize, UnknownEnums_AreRefusedByName) {
  const auto with = [](auto change) {
    v1::FactorizeRequest request = QrRequest(v1::DTYPE_F32, {2, 2});
    change(request);
    return DecodeShapes(request).status();
  };
  ExpectInvalid(with([](auto& r) { r.mutable_a(0)->set_dtype(v1::DTYPE_UNSPECIFIED); }),
                "a[0].dtype", "is not set");
  ExpectInvalid(with([](auto& r) { r.mutable_a(0)->set_dtype(static_cast<v1::DType>(9)); }),
                "a[0].dtype", "unknown value 9");
  ExpectInvalid(with([](auto& r) { r.mutable_a(0)->set_layout(static_cast<v1::Layout>(-3)); }),
                "a[0].layout", "unknown value -3");
  ExpectInvalid(with([](auto& r) { r.mutable_qr()->set_q(static_cast<v1::QMode>(7)); }), "qr.q",
                "7");
  ExpectInvalid(with([](auto& r) { r.mutable_qr()->set_sign(static_cast<v1::Sign>(7)); }),
                "qr.sign", "7");
  ExpectInvalid(with([](auto& r) { r.mutable_run()->set_backend(static_cast<v1::Backend>(7)); }),
                "run.backend", "7");
  ExpectInvalid(
      with([](auto& r) { r.mutable_run()->set_precision(static_cast<v1::Precision>(7)); }),
      "run.precision", "7");
  ExpectInvalid(with([](auto& r) { r.mutable_run()->set_priority(static_cast<v1::Priority>(7)); }),
                "run.priority", "7");
  ExpectInvalid(with([](auto& r) { r.clear_qr(); }), "factorization", "is not set");
  ExpectInvalid(with([](auto& r) { r.mutable_qr()->Clear(); }), "qr", "no output");
  ExpectInvalid(with([](auto& r) { r.mutable_a(0)->mutable_dims()->Truncate(1); }), "a[0].dims",
                "has 1 dims");
}

TEST(DecodeFactorize, SignsThatDoNotFit_AreRefused) {
  v1::FactorizeRequest packed = QrRequest(v1::DTYPE_F32, {4, 4});
  packed.mutable_qr()->set_reflectors(true);
  packed.mutable_qr()->set_sign(v1::SIGN_NONNEGATIVE);
  ExpectInvalid(DecodeShapes(packed).status(), "qr.sign", "reflectors");

  v1::FactorizeRequest tall = QrRequest(v1::DTYPE_F32, {5, 4});
  tall.mutable_qr()->set_sign(v1::SIGN_SPECIAL_ORTHOGONAL);
  ExpectInvalid(DecodeShapes(tall).status(), "qr.sign", "a[0] has f32 ones of 5x4");

  v1::FactorizeRequest complex = QrRequest(v1::DTYPE_C64, {4, 4});
  complex.mutable_qr()->set_sign(v1::SIGN_SPECIAL_ORTHOGONAL);
  ExpectInvalid(DecodeShapes(complex).status(), "qr.sign", "a[0] has c64 ones of 4x4");
}

TEST(DecodeFormQ, TauOfTheWrongLength_NamesBothNumbers) {
  v1::FormQRequest request;
  v1::Reflectors& factors = *request.add_factors();
  *factors.mutable_reflectors() = TensorOf(v1::DTYPE_F64, {2, 5, 3});
  *factors.mutable_tau() = TensorOf(v1::DTYPE_F64, {2, 4});
  ExpectInvalid(DecodeShapes(request).status(), "factors[0].tau.dims",
                "has 4 entries; must have 3");

  *factors.mutable_tau() = TensorOf(v1::DTYPE_F64, {3, 3});
  ExpectInvalid(DecodeShapes(request).status(), "factors[0].tau.dims", "[3]");

  *factors.mutable_tau() = TensorOf(v1::DTYPE_F32, {2, 3});
  ExpectInvalid(DecodeShapes(request).status(), "factors[0].tau.dtype", "f32");

  factors.clear_tau();
  ExpectInvalid(DecodeShapes(request).status(), "factors[0].tau", "is not set");
}

TEST(DecodeApplyQ, CHasTheSideOfQ) {
  v1::ApplyQRequest request;
  v1::Application& application = *request.add_applications();
  *application.mutable_factors()->mutable_reflectors() = TensorOf(v1::DTYPE_C128, {6, 4});
  *application.mutable_factors()->mutable_tau() = TensorOf(v1::DTYPE_C128, {4});
  *application.mutable_c() = TensorOf(v1::DTYPE_C128, {6, 2});
  auto decoded = DecodeShapes(request);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->items[0].spec.p, 2);

  request.set_side(v1::SIDE_RIGHT);
  ExpectInvalid(DecodeShapes(request).status(), "applications[0].c.dims",
                "has 2 columns; must have 6");
}

TEST(DecodeSolve, BHasTheRowsOfA) {
  v1::SolveRequest request;
  v1::LeastSquaresProblem& problem = *request.add_problems();
  *problem.mutable_a() = TensorOf(v1::DTYPE_F64, {9, 7, 3});
  *problem.mutable_b() = TensorOf(v1::DTYPE_F64, {9, 6, 1});
  ExpectInvalid(DecodeShapes(request).status(), "problems[0].b.dims", "has 6 rows; must have 7");
  problem.clear_b();
  ExpectInvalid(DecodeShapes(request).status(), "problems[0].b", "is not set");
}

TEST(DecodeSolve, RcondOutsideItsRange_IsRefused) {
  v1::SolveRequest request;
  *request.add_problems()->mutable_a() = TensorOf(v1::DTYPE_F64, {3, 3});
  *request.mutable_problems(0)->mutable_b() = TensorOf(v1::DTYPE_F64, {3, 1});
  for (double bad : {-1e-3, 1.0, std::numeric_limits<double>::quiet_NaN()}) {
    request.set_rcond(bad);
    ExpectInvalid(DecodeShapes(request).status(), "rcond", "[0, 1)");
  }
  request.set_rcond(0);
  EXPECT_EQ(DecodeShapes(request)->items[0].spec.rcond, 0);
}

TEST(Encode, NumbersTensorsInTheApisOrder) {
  v1::SolveRequest request;
  for (int i = 0; i < 2; ++i) {
    *request.add_problems()->mutable_a() = TensorOf(v1::DTYPE_C64, {4, 3, 2});
    *request.mutable_problems(i)->mutable_b() = TensorOf(v1::DTYPE_C64, {4, 3, 5});
  }
  const auto decoded = DecodeShapes(request);
  ASSERT_TRUE(decoded.ok()) << decoded.status();

  const v1::StreamResult response = Encode(*decoded, nullptr, true);

  EXPECT_THAT(decoded->outputs,
              ElementsAre(testing::Field(&TensorSlot::operand, Operand::kResult),
                          testing::Field(&TensorSlot::operand, Operand::kResidualNorm),
                          testing::Field(&TensorSlot::operand, Operand::kResult),
                          testing::Field(&TensorSlot::operand, Operand::kResidualNorm),
                          testing::Field(&TensorSlot::operand, Operand::kRank),
                          testing::Field(&TensorSlot::operand, Operand::kRank)));
  EXPECT_EQ(IndexOf(response.solve().solutions(1).x().data()), 2);
  EXPECT_THAT(response.solve().solutions(1).x().dims(), ElementsAre(4, 2, 5));
  EXPECT_EQ(response.solve().solutions(1).residual_norm().dtype(), v1::DTYPE_F32);
  EXPECT_THAT(response.solve().solutions(1).residual_norm().dims(), ElementsAre(4, 5));
}

}  // namespace
}  // namespace factord
