#include "server/trace/span_exporter.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/support/temporary_folder.h"

namespace factord {
namespace {

absl::Time Soon() { return absl::Now() + absl::Seconds(60); }

std::vector<Span> Spans(const std::string& name, std::size_t count = 1) {
  std::vector<Span> spans(count);
  for (Span& span : spans) span.name = name;
  return spans;
}

class SpanExporterTest : public ::testing::Test {
 protected:
  std::unique_ptr<SpanExporter> Create(const std::string& path, std::size_t max_waiting = 100) {
    auto exporter = SpanExporter::Create(
        {.path = path, .service_version = "1", .max_waiting = max_waiting}, metrics_);
    EXPECT_TRUE(exporter.ok()) << exporter.status();
    return *std::move(exporter);
  }

  double Dropped() const {
    for (const auto& family : metrics_.registry()->Collect()) {
      if (family.name == "factord_spans_dropped_total") return family.metric[0].counter.value;
    }
    return -1;
  }

  static std::string Contents(const std::string& path) {
    std::ostringstream all;
    all << std::ifstream(path).rdbuf();
    return all.str();
  }

  const testing::TemporaryFolder folder_;
  const std::string path_ = folder_ / "spans";
  Metrics metrics_{BuildInfo{}};
};

TEST_F(SpanExporterTest, WritesALineForEachRequest) {
  const auto exporter = Create(path_);
  exporter->Add(Spans("one", 3));
  exporter->Add(Spans("two"));
  ASSERT_TRUE(exporter->Flush(Soon()));
  const std::string text = Contents(path_);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_LT(text.find("one"), text.find("two"));
  EXPECT_EQ(Dropped(), 0);
}

TEST_F(SpanExporterTest, WhatIsLeftIsWrittenAtTheEnd_AndAppended) {
  Create(path_)->Add(Spans("one"));
  Create(path_)->Add(Spans("two"));
  const std::string text = Contents(path_);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
}

// A pipe that nobody reads takes 64 KiB, then its writer waits.
TEST_F(SpanExporterTest, AFileThatBlocksBlocksNobodyElse_AndTheRestIsCounted) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  const int reader = open(path_.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  auto exporter = Create(path_, 10);
  const std::string name(1 << 20, 'x');  // more than the pipe holds
  exporter->Add(Spans(name));
  while (Dropped() == 0) exporter->Add(Spans("small"));
  EXPECT_FALSE(exporter->Flush(absl::Now()));
  close(reader);  // the writer gets EPIPE: those are dropped too
  EXPECT_TRUE(exporter->Flush(Soon()));
  EXPECT_GT(Dropped(), 10);
}

TEST_F(SpanExporterTest, ARequestWithMoreSpansThanMayWaitIsDropped) {
  const auto exporter = Create(path_, 10);
  exporter->Add(Spans("large", 11));
  EXPECT_EQ(Dropped(), 11);
}

TEST_F(SpanExporterTest, AfterReopenItWritesToANewFile) {
  const auto exporter = Create(path_);
  exporter->Add(Spans("old"));
  ASSERT_TRUE(exporter->Flush(Soon()));
  ASSERT_EQ(rename(path_.c_str(), (path_ + ".1").c_str()), 0);
  exporter->Reopen();
  exporter->Add(Spans("new"));
  ASSERT_TRUE(exporter->Flush(Soon()));
  EXPECT_NE(Contents(path_ + ".1").find("old"), std::string::npos);
  EXPECT_NE(Contents(path_).find("new"), std::string::npos);
  EXPECT_EQ(Contents(path_).find("old"), std::string::npos);
}

TEST_F(SpanExporterTest, WhatTheDiskDoesNotTakeIsCounted) {
  const auto exporter = Create("/dev/full");
  exporter->Add(Spans("one", 2));
  ASSERT_TRUE(exporter->Flush(Soon()));
  EXPECT_EQ(Dropped(), 2);
}

TEST_F(SpanExporterTest, AFileThatCanNotBeOpenedIsAnError) {
  const auto exporter =
      SpanExporter::Create({.path = "/nowhere/spans", .service_version = "1"}, metrics_);
  EXPECT_EQ(exporter.status().message(),
            "can not write to /nowhere/spans: No such file or directory");
}

}  // namespace
}  // namespace factord
