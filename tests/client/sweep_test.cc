#include "client/factorctl/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/factorctl/flags.h"

namespace factord::client {
namespace {

using ::testing::ElementsAre;

TEST(ParseSweep, ReadsOptionAndValues) {
  const absl::StatusOr<Sweep> sweep = ParseSweep("rate:0.5,100,2e3");
  ASSERT_TRUE(sweep.ok()) << sweep.status();
  EXPECT_EQ(sweep->option, SweptOption::kRate);
  EXPECT_THAT(sweep->values, ElementsAre(0.5, 100, 2000));
}

TEST(ParseSweep, RefusesWhatIsNoValue) {
  for (const char* text :
       {"", "rate", "rate:", "rate:0", "rate:-1", "rate:nan", "rate:inf", "rate:1,,2", "rates:1",
        "clients:1.5", "clients:0", "clients:10001", "batch:2.5", "batch:1e10", "batch:x"}) {
    EXPECT_TRUE(IsUsageError(ParseSweep(text).status())) << text;
  }
}

TEST(WithOption, SetsClients) {
  EXPECT_EQ(WithOption(LoadOptions(), SweptOption::kClients, 12).clients, 12);
}

TEST(WithOption, SetsTheRate) {
  EXPECT_EQ(WithOption(LoadOptions(), SweptOption::kRate, 0.5).rate, 0.5);
}

TEST(WithOption, ABatchTakesThePlaceOfLeadingDims) {
  LoadOptions options;
  options.shapes = {{7, 5, 3, 2}, {8, 4}};
  EXPECT_THAT(WithOption(options, SweptOption::kBatch, 100).shapes,
              ElementsAre(Dims{100, 3, 2}, Dims{100, 8, 4}));
}

}  // namespace
}  // namespace factord::client
