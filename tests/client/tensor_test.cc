#include "client/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/elements.h"
#include "client/layout.h"
#include "client/tensor_order.h"
#include "tests/client/test_matrices.h"

namespace factord::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Tensor, BytesAreTheProduct) { EXPECT_EQ(*TensorBytes(v1::DTYPE_C128, {2, 3, 4}), 384); }

TEST(Tensor, ZeroDimMeansNoBytesHoweverLargeTheOthers) {
  EXPECT_EQ(*TensorBytes(v1::DTYPE_F32, {int64_t{1} << 62, int64_t{1} << 62, 0}), 0);
}

TEST(Tensor, OverflowingProductIsRefused) {
  EXPECT_FALSE(TensorBytes(v1::DTYPE_F32, {int64_t{1} << 31, int64_t{1} << 30}).ok());
}

TEST(Tensor, NegativeDimIsRefused) {
  EXPECT_EQ(TensorBytes(v1::DTYPE_F32, {3, -1}).status().message(), "dims hold -1, below 0");
}

TEST(Tensor, UnknownTypeIsRefused) {
  EXPECT_EQ(TensorBytes(v1::DTYPE_UNSPECIFIED, {1, 1}).status().message(), "unknown dtype 0");
}

TEST(Tensor, TakeMatrices_RefusesDataOfAnotherSize) {
  v1::Tensor tensor;
  SetTensorShape({v1::DTYPE_F64, {2, 2}, v1::LAYOUT_ROW_MAJOR, {}}, &tensor);
  tensor.set_data("1234");
  const absl::Status status = TakeMatrices(&tensor).status();
  EXPECT_TRUE(absl::IsInternal(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("2x2 f64 has 4 bytes, not 32"));
}

TEST(Tensor, TakeMatrices_NamesTheDefaultLayout) {
  v1::Tensor tensor;
  SetTensorShape({v1::DTYPE_F64, {0, 2}, v1::LAYOUT_UNSPECIFIED, {}}, &tensor);
  EXPECT_EQ(TakeMatrices(&tensor)->layout, v1::LAYOUT_ROW_MAJOR);
}

TEST(Layout, ToRowMajorTransposesEachMatrix) {
  const Matrices batch =
      MakeMatrices(v1::DTYPE_F32, {2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}, v1::LAYOUT_COLUMN_MAJOR);
  EXPECT_THAT(ValuesOf(ToRowMajor(batch)), ElementsAre(1, 3, 2, 4, 5, 7, 6, 8));
}

TEST(Elements, ConvertToKeepsValues) {
  const Matrices matrix = MakeMatrices(v1::DTYPE_F32, {1, 2}, {1.5, -2});
  const Matrices converted = ConvertTo(v1::DTYPE_C128, matrix);
  EXPECT_EQ(converted.dtype, v1::DTYPE_C128);
  EXPECT_THAT(ValuesOf(converted), ElementsAre(1.5, -2));
}

// A stream numbers tensors in the order of the proto's fields; here are its two longest cases,
// written out.
TEST(TensorOrder, FactorizeResponse_CountsQRReflectorsTau) {
  v1::FactorizeResponse response;
  v1::QrFactors* first = response.add_qr();
  v1::Tensor* tau = first->mutable_tau();
  v1::Tensor* r = first->mutable_r();
  v1::Tensor* q = first->mutable_q();
  v1::Tensor* reflectors = first->mutable_reflectors();
  v1::Tensor* second_r = response.add_qr()->mutable_r();
  EXPECT_THAT(TensorsOf(&response), ElementsAre(q, r, reflectors, tau, second_r));
}

TEST(TensorOrder, ApplyQRequest_CountsReflectorsTauC) {
  v1::Start start;
  v1::Application* application = start.mutable_apply_q()->add_applications();
  v1::Tensor* c = application->mutable_c();
  v1::Tensor* tau = application->mutable_factors()->mutable_tau();
  v1::Tensor* reflectors = application->mutable_factors()->mutable_reflectors();
  EXPECT_THAT(TensorsOf(&start), ElementsAre(reflectors, tau, c));
}

}  // namespace
}  // namespace factord::client
