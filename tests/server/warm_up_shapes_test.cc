#include "server/warm_up_shapes.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace factord {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(WarmUpShapes, AreBatchRowsColumnsAndAType) {
  const auto shapes = ParseWarmUpShapes({"1000x32x16", "1x9x9:c128", "2x3x4:f32"});
  ASSERT_TRUE(shapes.ok()) << shapes.status();
  EXPECT_THAT(*shapes,
              ElementsAre(WarmUpShape{1000, 32, 16, DType::kF32},
                          WarmUpShape{1, 9, 9, DType::kC128}, WarmUpShape{2, 3, 4, DType::kF32}));
  EXPECT_TRUE(ParseWarmUpShapes({})->empty());
}

TEST(WarmUpShapes, NamesTheFlagAndTheShapeThatIsNone) {
  const auto problem = [](const char* text) {
    const auto shapes = ParseWarmUpShapes({"1x2x3", text});
    EXPECT_TRUE(absl::IsInvalidArgument(shapes.status())) << text;
    return std::string(shapes.status().message());
  };
  EXPECT_EQ(problem("32x32"), "warmup_shapes: \"32x32\" is neither BATCHxMxN nor BATCHxMxN:TYPE");
  for (const char* text :
       {"", "x", "1x2x", "1x2x3x4", "ax2x3", "1x2x3.5", "1x2x99999999999999999999"}) {
    EXPECT_THAT(problem(text), HasSubstr("is neither BATCHxMxN nor")) << text;
  }
  EXPECT_THAT(problem("1x2x3:f16"), HasSubstr("has the type \"f16\"; must be one of f32, f64"));
  EXPECT_THAT(problem("1x2x3:"), HasSubstr("has the type \"\""));
  EXPECT_THAT(problem("0x2x3"), HasSubstr("not positive"));
  EXPECT_THAT(problem("1x-2x3"), HasSubstr("not positive"));
  EXPECT_THAT(problem("1x65536x65536"), HasSubstr("more than 2147483647 elements"));
  EXPECT_THAT(problem("1x2x9223372036854775807"), HasSubstr("elements"));
}

}  // namespace
}  // namespace factord
