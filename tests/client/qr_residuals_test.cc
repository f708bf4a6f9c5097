#include "client/factorctl/qr_residuals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "client/factorctl/qr_flops.h"
#include "client/factorctl/report.h"
#include "tests/client/fake_qr.h"
#include "tests/client/test_matrices.h"

namespace factord::client {
namespace {

struct Factored {
  Matrices a;
  Matrices q;
  Matrices r;
};

Factored Factor(v1::DType dtype, std::vector<int64_t> dims, v1::QMode mode, v1::Layout layout,
                uint64_t seed) {
  Factored factored;
  factored.a = RandomMatrices(dtype, std::move(dims), seed, layout);
  v1::FactorizeRequest request;
  SetTensorShape(factored.a.View(), request.add_a());
  request.mutable_a(0)->set_data(factored.a.data);
  request.mutable_qr()->set_q(mode);
  request.mutable_qr()->set_r(true);
  v1::FactorizeResponse response = FakeFactorize(request);
  factored.q = *TakeMatrices(response.mutable_qr(0)->mutable_q());
  factored.r = *TakeMatrices(response.mutable_qr(0)->mutable_r());
  return factored;
}

std::vector<QrResiduals> Residuals(const Factored& factored) {
  return ComputeQrResiduals(factored.a.View(), factored.q.View(), factored.r.View());
}

struct Case {
  v1::DType dtype;
  std::vector<int64_t> dims;
  v1::QMode mode;
  v1::Layout layout;
};

class QrResidualsProperty : public ::testing::TestWithParam<Case> {};

TEST_P(QrResidualsProperty, GoodFactorsAreSmall) {
  const Factored factored =
      Factor(GetParam().dtype, GetParam().dims, GetParam().mode, GetParam().layout, /*seed=*/31);
  const std::vector<QrResiduals> residuals = Residuals(factored);
  ASSERT_EQ(residuals.size(), 2u);
  for (const QrResiduals& one : residuals) {
    EXPECT_LT(one.residual, 30);
    EXPECT_LT(one.orthogonality, 30);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, QrResidualsProperty,
    ::testing::Values(Case{v1::DTYPE_F32, {2, 7, 3}, v1::Q_MODE_REDUCED, v1::LAYOUT_ROW_MAJOR},
                      Case{v1::DTYPE_F64, {2, 3, 7}, v1::Q_MODE_REDUCED, v1::LAYOUT_COLUMN_MAJOR},
                      Case{v1::DTYPE_C64, {2, 7, 3}, v1::Q_MODE_COMPLETE, v1::LAYOUT_COLUMN_MAJOR},
                      Case{v1::DTYPE_C128, {2, 5, 5}, v1::Q_MODE_REDUCED, v1::LAYOUT_ROW_MAJOR}));

TEST(QrResiduals, WrongRShowsInTheResidualOnly) {
  Factored factored =
      Factor(v1::DTYPE_F64, {4, 4}, v1::Q_MODE_REDUCED, v1::LAYOUT_ROW_MAJOR, /*seed=*/32);
  SetElement(v1::DTYPE_F64, 0, GetElement(v1::DTYPE_F64, 0, factored.r.data) * 1.001,
             &factored.r.data);
  EXPECT_GT(Residuals(factored)[0].residual, 1e6);
  EXPECT_LT(Residuals(factored)[0].orthogonality, 30);
}

TEST(QrResiduals, WrongQShowsInTheOrthogonality) {
  Factored factored =
      Factor(v1::DTYPE_F64, {4, 4}, v1::Q_MODE_REDUCED, v1::LAYOUT_ROW_MAJOR, /*seed=*/33);
  SetElement(v1::DTYPE_F64, 5, 3.0, &factored.q.data);
  EXPECT_GT(Residuals(factored)[0].orthogonality, 1e6);
}

TEST(QrResiduals, NanIsNotLost) {
  Factored factored =
      Factor(v1::DTYPE_F64, {4, 4}, v1::Q_MODE_REDUCED, v1::LAYOUT_ROW_MAJOR, /*seed=*/34);
  SetElement(v1::DTYPE_F64, 0, std::numeric_limits<double>::quiet_NaN(), &factored.r.data);
  EXPECT_TRUE(std::isnan(Residuals(factored)[0].residual));
}

v1::QrOptions Options(v1::QMode q) {
  v1::QrOptions options;
  options.set_q(q);
  return options;
}

TEST(QrFlops, TallRIsLapacksCount) {
  // 2 m n^2 - 2 n^3 / 3
  EXPECT_DOUBLE_EQ(QrFlops({10, 6, 3}, v1::DTYPE_F32, Options(v1::Q_MODE_UNSPECIFIED)), 10 * 90.0);
}

TEST(QrFlops, ReducedQOfTallDoubles) {
  EXPECT_DOUBLE_EQ(QrFlops({6, 3}, v1::DTYPE_F32, Options(v1::Q_MODE_REDUCED)), 180);
}

TEST(QrFlops, CompleteQIsOrgqrOfAllColumns) {
  // 90 + 4 m^2 k - 4 m k^2 + 4 k^3 / 3
  EXPECT_DOUBLE_EQ(QrFlops({6, 3}, v1::DTYPE_F32, Options(v1::Q_MODE_COMPLETE)), 90 + 252);
}

TEST(QrFlops, ComplexCountsFourfold) {
  EXPECT_DOUBLE_EQ(QrFlops({6, 3}, v1::DTYPE_C64, Options(v1::Q_MODE_UNSPECIFIED)), 360);
}

TEST(ShortDurationTest, PicksTheUnitThatSuits) {
  EXPECT_EQ(ShortDuration(absl::Nanoseconds(12)), "12 ns");
  EXPECT_EQ(ShortDuration(absl::Nanoseconds(12345)), "12.3 us");
  EXPECT_EQ(ShortDuration(absl::Nanoseconds(999'900)), "1 ms");
  EXPECT_EQ(ShortDuration(absl::Seconds(1234)), "1234 s");
}

}  // namespace
}  // namespace factord::client
