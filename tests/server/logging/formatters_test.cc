#include "server/logging/formatters.h"

#include <sstream>

#include "gtest/gtest.h"
#include "server/logging/log.h"
#include "spdlog/sinks/ostream_sink.h"

namespace factord {
namespace {

// What one line becomes.
class Formatters : public ::testing::Test {
 protected:
  std::string Line(std::unique_ptr<spdlog::formatter> formatter, absl::string_view message,
                   const LogFields& fields) {
    std::ostringstream out;
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_st>(out);
    sink->set_formatter(std::move(formatter));
    const auto before = spdlog::default_logger();
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("factord", sink));
    Log(spdlog::level::warn, message, fields);
    spdlog::set_default_logger(before);
    return out.str();
  }
};

TEST_F(Formatters, HumanLinesEndWithTheirFields) {
  const std::string line = Line(HumanFormatter(), "it ended",
                                LogFields()
                                    .Add("rpc", "Solve")
                                    .Add("count", 3)
                                    .AddMilliseconds("total_ms", absl::Microseconds(1500)));
  EXPECT_NE(line.find("] [factord] [warning] it ended rpc=Solve count=3 total_ms=1.500\n"),
            std::string::npos)
      << line;
}

TEST_F(Formatters, HumanLinesAreOneLineEach) {
  const std::string line = Line(HumanFormatter(), "m",
                                LogFields().Add("error", "a\n[info] forged \x1b[31m").Add("e", ""));
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_NE(line.find("error=\"a\\n[info] forged \\x1b[31m\" e=\"\""), std::string::npos) << line;
}

TEST_F(Formatters, JsonLinesAreObjects) {
  const std::string line = Line(JsonFormatter(), "say \"\n\xFF\"",
                                LogFields()
                                    .Add("client", "a\\b")
                                    .Add("count", -3)
                                    .AddMilliseconds("wait_ms", absl::InfiniteDuration()));
  const std::size_t rest = line.find("Z\",");
  ASSERT_NE(rest, std::string::npos) << line;
  EXPECT_EQ(line.rfind("{\"time\":\"", 0), 0u);
  EXPECT_EQ(line.substr(rest),
            "Z\",\"level\":\"warning\",\"message\":\"say \\\"\\n\xEF\xBF\xBD\\\"\","
            "\"client\":\"a\\\\b\",\"count\":-3,\"wait_ms\":0}\n");
}

TEST_F(Formatters, FieldsAreThoseOfOneLine) {
  static_cast<void>(Line(JsonFormatter(), "first", LogFields().Add("a", 1)));
  EXPECT_TRUE(FieldsOfThisLine().values().empty());
}

}  // namespace
}  // namespace factord
