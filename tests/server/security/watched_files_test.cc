#include "server/security/watched_files.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "tests/support/temporary_folder.h"

namespace factord {
namespace {

// The text of a file that says whether it is good.
class WatchedFilesTest : public ::testing::Test {
 protected:
  using Watched = WatchedFiles<std::string>;

  void Write(const std::string& text) { std::ofstream(path_) << text; }

  absl::StatusOr<std::shared_ptr<Watched>> Open() {
    return Watched::Open({{.flag = "flag", .path = path_}},
                         [this](const std::vector<FileText>& files) -> absl::StatusOr<std::string> {
                           ++parsed_;
                           if (absl::StartsWith(files[0].text, "good")) return files[0].text;
                           return absl::InvalidArgumentError("not good");
                         });
  }

  const testing::TemporaryFolder folder_;
  const std::string path_ = folder_ / "watched";
  int parsed_ = 0;
};

TEST_F(WatchedFilesTest, Open_NamesTheFlagAndTheFileThatIsNotThere) {
  EXPECT_EQ(Open().status().message(),
            "flag: can not read " + path_ + ": No such file or directory");
}

TEST_F(WatchedFilesTest, Open_RefusesAnEndlessFile) {
  const auto endless =
      Watched::Open({{.flag = "flag", .path = "/dev/zero"}},
                    [](const std::vector<FileText>&) { return absl::StatusOr<std::string>(""); });

  EXPECT_EQ(endless.status().message(), "flag: /dev/zero is larger than 1048576 bytes");
}

TEST_F(WatchedFilesTest, Refresh_TakesWhatIsGoodAndKeepsItWhereTheNewIsNot) {
  Write("good 1");
  const auto watched = Open();
  ASSERT_TRUE(watched.ok()) << watched.status();

  Write("good 2");
  (*watched)->Refresh();
  EXPECT_EQ(*(*watched)->value(), "good 2");

  Write("bad");
  (*watched)->Refresh();
  EXPECT_EQ(*(*watched)->value(), "good 2");

  std::filesystem::remove(path_);
  (*watched)->Refresh();
  EXPECT_EQ(*(*watched)->value(), "good 2");

  Write("good 3");
  (*watched)->Refresh();
  EXPECT_EQ(*(*watched)->value(), "good 3");
}

TEST_F(WatchedFilesTest, Refresh_ParsesNothingTwice) {
  Write("good");
  const auto watched = Open();
  ASSERT_TRUE(watched.ok()) << watched.status();
  (*watched)->Refresh();
  EXPECT_EQ(parsed_, 1);

  Write("bad");
  (*watched)->Refresh();
  (*watched)->Refresh();
  EXPECT_EQ(parsed_, 2);
}

}  // namespace
}  // namespace factord
