#include "client/factorctl/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace factord::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// One flag of each kind.
class FlagsTest : public ::testing::Test {
 protected:
  FlagsTest() : flags_("test", "A", "Does nothing.") {
    flags_.Bool("verbose", &verbose_, "Say more.");
    flags_.Int("count", &count_, "How many.");
    flags_.Double("rate", &rate_, "Per second.");
    flags_.String("out_file", "FILE", &out_file_, "Where to.");
    flags_.Strings("x", "NAME", &x_, "Columns.");
    flags_.Duration("timeout", &timeout_, "How long.");
    flags_.Choice<int>("mode", {{"one", 1}, {"two", 2}}, &mode_, "Which.");
  }

  std::string Error(const std::vector<std::string>& arguments) {
    const absl::Status status = flags_.Parse(arguments).status();
    EXPECT_TRUE(IsUsageError(status)) << status;
    return std::string(status.message());
  }

  bool verbose_ = false;
  int64_t count_ = 7;
  double rate_ = 0.5;
  std::string out_file_;
  std::vector<std::string> x_ = {"default"};
  absl::Duration timeout_ = absl::Seconds(60);
  int mode_ = 2;
  FlagSet flags_;
};

TEST_F(FlagsTest, ReadsValueAfterEqualsSign) {
  ASSERT_TRUE(flags_.Parse({"--count=3"}).ok());
  EXPECT_EQ(count_, 3);
}

TEST_F(FlagsTest, ReadsValueFromTheNextWord) {
  ASSERT_TRUE(flags_.Parse({"--rate", "2e3"}).ok());
  EXPECT_EQ(rate_, 2000);
}

TEST_F(FlagsTest, BoolNeedsNoValue) {
  EXPECT_THAT(*flags_.Parse({"--verbose", "A.npy"}), ElementsAre("A.npy"));
  EXPECT_TRUE(verbose_);
}

TEST_F(FlagsTest, BoolTakesValue) {
  verbose_ = true;
  ASSERT_TRUE(flags_.Parse({"--verbose=false"}).ok());
  EXPECT_FALSE(verbose_);
}

TEST_F(FlagsTest, DashAndUnderscoreAreTheSame) {
  ASSERT_TRUE(flags_.Parse({"--out-file=q.npy"}).ok());
  EXPECT_EQ(out_file_, "q.npy");
}

TEST_F(FlagsTest, StringsCollectAndReplaceTheDefault) {
  ASSERT_TRUE(flags_.Parse({"--x=a,b", "--x=c"}).ok());
  EXPECT_THAT(x_, ElementsAre("a", "b", "c"));
}

TEST_F(FlagsTest, ReadsDuration) {
  ASSERT_TRUE(flags_.Parse({"--timeout=1.5s"}).ok());
  EXPECT_EQ(timeout_, absl::Milliseconds(1500));
}

TEST_F(FlagsTest, ReadsChoice) {
  ASSERT_TRUE(flags_.Parse({"--mode=one"}).ok());
  EXPECT_EQ(mode_, 1);
}

TEST_F(FlagsTest, AfterTwoDashesAllIsPositional) {
  EXPECT_THAT(*flags_.Parse({"--", "--count=3"}), ElementsAre("--count=3"));
  EXPECT_EQ(count_, 7);
}

TEST_F(FlagsTest, UnknownFlag_IsNamed) {
  EXPECT_EQ(Error({"--cuont=3"}), "there is no flag --cuont");
}

TEST_F(FlagsTest, MissingValue_IsNamed) { EXPECT_EQ(Error({"--count"}), "--count needs a value"); }

TEST_F(FlagsTest, BadNumber_IsQuoted) {
  EXPECT_EQ(Error({"--count=3.5"}), "--count is '3.5', expected N");
}

TEST_F(FlagsTest, BadChoice_ListsThem) {
  EXPECT_EQ(Error({"--mode=three"}), "--mode is 'three', expected one|two");
}

TEST_F(FlagsTest, NegativeDuration_IsRefused) {
  EXPECT_EQ(Error({"--timeout=-1s"}), "--timeout is '-1s', expected DURATION");
}

TEST_F(FlagsTest, HelpStopsParsing) {
  ASSERT_TRUE(flags_.Parse({"--help", "--nonsense"}).ok());
  EXPECT_TRUE(flags_.HelpWanted());
}

TEST_F(FlagsTest, HelpHasEveryFlagWithItsDefault) {
  EXPECT_EQ(flags_.Help(),
            "Usage: factorctl test A [flags]\n\nDoes nothing.\n\nFlags:\n"
            "  --verbose\n      Say more. Default: false.\n"
            "  --count=N\n      How many. Default: 7.\n"
            "  --rate=X\n      Per second. Default: 0.5.\n"
            "  --out_file=FILE\n      Where to. Default: none.\n"
            "  --x=NAME\n      Columns. Default: default.\n"
            "  --timeout=DURATION\n      How long. Default: 1m.\n"
            "  --mode=one|two\n      Which. Default: two.\n");
}

TEST(UsageErrorTest, OtherErrorsAreNotUsageErrors) {
  EXPECT_FALSE(IsUsageError(absl::InvalidArgumentError("x")));
}

}  // namespace
}  // namespace factord::client
