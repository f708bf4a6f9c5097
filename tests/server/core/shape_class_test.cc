#include "server/core/shape_class.h"

#include <cstdint>
#include <limits>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace factord {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

TEST(RoundUpDimension, IsExactUpToEightThenFourClassesAnOctave) {
  std::set<std::int64_t> classes;
  for (std::int64_t size = 0; size <= 64; ++size) classes.insert(RoundUpDimension(size));

  EXPECT_THAT(classes, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28,
                                            32, 40, 48, 56, 64));
}

TEST(RoundUpDimension, IsMonotoneIdempotentAndNeverFarOff) {
  std::int64_t previous = 0;
  for (std::int64_t size = 0; size <= 200'000; ++size) {
    const std::int64_t rounded = RoundUpDimension(size);

    ASSERT_GE(rounded, size);
    ASSERT_LE(rounded - size, size / 4);
    ASSERT_GE(rounded, previous) << size;
    ASSERT_EQ(RoundUpDimension(rounded), rounded) << size;
    previous = rounded;
  }
}

TEST(RoundUpDimension, CoversTheWholeRangeWithAFewHundredClasses) {
  std::set<std::int64_t> classes = {kMax};
  for (std::int64_t size = 0; size < kMax - kMax / 4;) {
    size = RoundUpDimension(size + 1);
    classes.insert(size);
    ASSERT_EQ(RoundUpDimension(size), size);
  }

  EXPECT_LT(classes.size(), 256u);
  EXPECT_EQ(RoundUpDimension(kMax), kMax);
  EXPECT_EQ(RoundUpDimension(kMax - 1), kMax);
}

}  // namespace
}  // namespace factord
