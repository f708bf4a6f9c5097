#include "server/flags.h"

#include <fstream>
#include <map>

#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temporary_folder.h"

namespace factord {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FlagsTest : public ::testing::Test {
 protected:
  // The sentence about arguments that are wrong.
  static std::string Error(const std::vector<std::string>& arguments) {
    const absl::Status status = ReadCommandLine(arguments).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }

  std::string FileOf(const std::string& text) const {
    const std::string path = folder_ / "flags";
    std::ofstream(path) << text;
    return path;
  }

  const testing::TemporaryFolder folder_;
  const absl::FlagSaver saver_;
};

TEST_F(FlagsTest, EachIsInOneGroup) {
  std::map<std::string, int> groups;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    if (absl::EndsWith(flag->Filename(), "server/flags.cc")) groups[std::string(name)] = 0;
  }
  ASSERT_GT(groups.size(), 30);
  for (const FlagGroup& group : FlagGroups()) {
    for (const FlagRow& row : group.flags) {
      ASSERT_TRUE(groups.contains(std::string(row.name))) << row.name << " is no flag";
      ++groups[std::string(row.name)];
    }
  }
  for (const auto& [name, count] : groups) EXPECT_EQ(count, 1) << name;
}

TEST_F(FlagsTest, EachSaysInASentenceWhatItIs) {
  for (const FlagGroup& group : FlagGroups()) {
    for (const FlagRow& row : group.flags) {
      const absl::CommandLineFlag* flag = absl::FindCommandLineFlag(row.name);
      EXPECT_TRUE(absl::EndsWith(flag->Help(), ".")) << row.name << ": " << flag->Help();
      EXPECT_EQ(row.value.empty(), flag->IsOfType<bool>()) << row.name;
      EXPECT_EQ(row.value == "DURATION", flag->IsOfType<absl::Duration>()) << row.name;
      EXPECT_EQ(row.value == "BYTES", absl::EndsWith(row.name, "_bytes")) << row.name;
      EXPECT_TRUE(!absl::StrContains(row.value, '|') || flag->IsOfType<std::string>()) << row.name;
    }
  }
}

TEST_F(FlagsTest, WithoutAny_OptionsAreTheDefaults) {
  ASSERT_TRUE(ReadCommandLine({}).ok());
  const Options options = OptionsFromFlags();
  EXPECT_EQ(options.listen, Options().listen);
  EXPECT_EQ(options.max_batch_cost, Options().max_batch_cost);
  EXPECT_EQ(options.chunk_bytes, Options().chunk_bytes);
}

TEST_F(FlagsTest, WaysToWriteThem) {
  const auto line = ReadCommandLine({"--cpu_threads=3", "--max-tensors", "7", "-gpu=off", "tune",
                                     "--listen=a:1,b:2", "--drain_delay=1m"});
  ASSERT_TRUE(line.ok()) << line.status();
  const Options options = OptionsFromFlags();
  EXPECT_THAT(line->words, ElementsAre("tune"));
  EXPECT_EQ(options.cpu_threads, 3);
  EXPECT_EQ(options.max_tensors, 7);
  EXPECT_EQ(options.gpu, "off");
  EXPECT_THAT(options.listen, ElementsAre("a:1", "b:2"));
  EXPECT_EQ(options.drain_delay, absl::Minutes(1));
}

TEST_F(FlagsTest, BooleansNeedNoValue) {
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    if (!absl::EndsWith(flag->Filename(), "server/flags.cc") || !flag->IsOfType<bool>()) continue;
    ASSERT_TRUE(ReadCommandLine({absl::StrCat("--no", name)}).ok());
    EXPECT_EQ(flag->TryGet<bool>(), false) << name;
    ASSERT_TRUE(ReadCommandLine({absl::StrCat("--", name)}).ok());
    EXPECT_EQ(flag->TryGet<bool>(), true) << name;
    EXPECT_EQ(Error({absl::StrCat("--", name, "=maybe")}),
              absl::StrCat(name, ": is \"maybe\"; must be true or false"));
  }
}

TEST_F(FlagsTest, LastOfSeveralCounts) {
  ASSERT_TRUE(ReadCommandLine({"--cpu_threads=3", "--cpu_threads=4"}).ok());
  EXPECT_EQ(OptionsFromFlags().cpu_threads, 4);
}

TEST_F(FlagsTest, AfterTwoDashesAllAreWords) {
  const auto line = ReadCommandLine({"--", "--cpu_threads=3", "--help"});
  ASSERT_TRUE(line.ok());
  EXPECT_THAT(line->words, ElementsAre("--cpu_threads=3", "--help"));
  EXPECT_FALSE(line->help);
  EXPECT_EQ(OptionsFromFlags().cpu_threads, 0);
}

TEST_F(FlagsTest, HelpAndVersionLeaveTheRestUnread) {
  EXPECT_TRUE(ReadCommandLine({"--help", "--nosuch"})->help);
  EXPECT_TRUE(ReadCommandLine({"-h"})->help);
  EXPECT_TRUE(ReadCommandLine({"--version", "--nosuch"})->version);
}

TEST_F(FlagsTest, WrongOnes_AreNamed_WithWhatTheyTake) {
  EXPECT_EQ(Error({"--nosuch"}), "there is no flag --nosuch; factord --help lists them");
  EXPECT_EQ(Error({"--nocpu_threads"}),
            "there is no flag --nocpu_threads; factord --help lists them");
  EXPECT_EQ(Error({"--cpu_threads=x"}),
            "cpu_threads: is \"x\"; must be a whole number up to 2147483647");
  EXPECT_EQ(Error({"--cpu_threads=4000000000"}),
            "cpu_threads: is \"4000000000\"; must be a whole number up to 2147483647");
  EXPECT_EQ(Error({"--max_tensors", "1.5"}), "max_tensors: is \"1.5\"; must be a whole number");
  EXPECT_EQ(Error({"--max_batch_cost=5"}),
            "max_batch_cost: is \"5\"; must be a duration such as 500ms, 2s or 1m");
  EXPECT_EQ(Error({"--tune_seconds=long"}), "tune_seconds: is \"long\"; must be a number");
  EXPECT_EQ(Error({"--log_level=loud"}),
            "log_level: is \"loud\"; must be one of trace, debug, info, warning, error, off");
  EXPECT_EQ(Error({"--gpu_lanes"}), "gpu_lanes: needs a value: LANES");
}

TEST_F(FlagsTest, FlagFile_CountsWhereItIsNamed) {
  const std::string path =
      FileOf("# of this machine\n--cpu_threads=3\n\n  --max_tensors=7\n--gpu=off\n");
  ASSERT_TRUE(ReadCommandLine({"--max_tensors=9", "--flagfile", path, "--cpu_threads=5"}).ok());
  EXPECT_EQ(OptionsFromFlags().cpu_threads, 5);
  EXPECT_EQ(OptionsFromFlags().max_tensors, 7);
  EXPECT_EQ(OptionsFromFlags().gpu, "off");
}

TEST_F(FlagsTest, FlagFile_Wrong) {
  EXPECT_EQ(Error({"--flagfile=/nowhere/flags"}), "flagfile: cannot read /nowhere/flags");
  EXPECT_EQ(Error({"--flagfile=/"}), "flagfile: cannot read /");
  EXPECT_EQ(Error({"--flagfile=" + FileOf("--flagfile=/nowhere/flags\n")}),
            "flagfile: is in a flag file");
  EXPECT_EQ(Error({"--flagfile=" + FileOf("--chunk_bytes=big\n")}),
            "chunk_bytes: is \"big\"; must be a whole number");
}

TEST_F(FlagsTest, Help_SaysKindDefaultAndUnit_WhateverIsSet) {
  ASSERT_TRUE(ReadCommandLine({"--max_message_bytes=1"}).ok());
  const std::string help = HelpText();
  EXPECT_THAT(help,
              HasSubstr("\nStopping:\n"
                        "  --drain_delay=DURATION\n"
                        "      After SIGTERM: how long health says NOT_SERVING while requests "
                        "are still\n"
                        "      taken. Default: 0.\n"));
  EXPECT_THAT(help, HasSubstr("Largest gRPC message, either way. Default: 67108864 (64 MiB).\n"));
  EXPECT_THAT(help, HasSubstr("--routing_table=FILE\n"));
  EXPECT_THAT(help, HasSubstr("the built-in table that fits best.\n      Default: none.\n"));
}

}  // namespace
}  // namespace factord
