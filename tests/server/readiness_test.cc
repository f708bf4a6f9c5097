#include "server/readiness.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace factord {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Readiness, ServesAfterTheLastStep) {
  std::vector<bool> said;
  Readiness readiness(2, [&](bool serving) { said.push_back(serving); });
  EXPECT_EQ(readiness.WhyNot(), "warming up");
  readiness.StepDone();
  EXPECT_EQ(readiness.WhyNot(), "warming up");
  EXPECT_THAT(said, IsEmpty());
  readiness.StepDone();
  EXPECT_EQ(readiness.WhyNot(), std::nullopt);
  EXPECT_THAT(said, ElementsAre(true));
}

TEST(Readiness, DrainsOnceAndForGood) {
  std::vector<bool> said;
  Readiness readiness(1, [&](bool serving) { said.push_back(serving); });
  readiness.StepDone();
  readiness.Drain();
  readiness.Drain();
  EXPECT_EQ(readiness.WhyNot(), "draining");
  EXPECT_THAT(said, ElementsAre(true, false));
}

TEST(Readiness, AWarmUpThatEndsWhileDrainingDoesNotServe) {
  std::vector<bool> said;
  Readiness readiness(1, [&](bool serving) { said.push_back(serving); });
  readiness.Drain();
  readiness.StepDone();
  EXPECT_EQ(readiness.WhyNot(), "draining");
  EXPECT_THAT(said, ElementsAre(false));
}

}  // namespace
}  // namespace factord
