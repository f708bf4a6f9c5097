#include "client/factorctl/svg_chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace factord::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(RoundTicks, AreRound) {
  EXPECT_THAT(RoundTicks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(RoundTicks(0, 700, 6), ElementsAre(0, 200, 400, 600));
  EXPECT_THAT(RoundTicks(3, 4, 2), ElementsAre(3, 3.5, 4));
}

TEST(LogarithmicTicks, ArePowersOfTen) {
  EXPECT_THAT(LogarithmicTicks(1, 10'000), ElementsAre(1, 10, 100, 1000, 10'000));
}

TEST(LogarithmicTicks, HaveMoreDigitsInAShortRange) {
  EXPECT_THAT(LogarithmicTicks(3, 60), ElementsAre(5, 10, 20, 50));
}

Chart OneLine() {
  return {.title = "A < B & C",
          .subtitle = "",
          .x = {.label = "x", .logarithmic = false, .ticks = {}},
          .y = {.label = "y", .logarithmic = true, .ticks = {}},
          .series = {{.name = "s", .points = {{0, 1, "first"}, {10, 100, "second"}}}}};
}

TEST(ToSvg, EscapesText) {
  EXPECT_THAT(ToSvg(OneLine()), HasSubstr("<title>A &lt; B &amp; C</title>"));
}

TEST(ToSvg, HasAMarkForEachPoint) {
  const std::string svg = ToSvg(OneLine());
  EXPECT_THAT(svg, HasSubstr("<title>first</title>"));
  EXPECT_THAT(svg, HasSubstr("<title>second</title>"));
}

TEST(ToSvg, LeavesOutPointsWithoutAPlace) {
  Chart chart = OneLine();
  chart.series[0].points.push_back({5, 0, "no logarithm"});
  chart.series[0].points.push_back({5, std::nan(""), "no number"});
  chart.series[0].points.push_back({INFINITY, 5, "no end"});
  const std::string svg = ToSvg(chart);
  EXPECT_THAT(svg, Not(HasSubstr("<title>no")));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(ToSvg, AnEmptyChartIsAChart) {
  Chart chart = OneLine();
  chart.series.clear();
  EXPECT_THAT(ToSvg(chart), Not(HasSubstr("nan")));
}

TEST(ToSvg, OnePointIsAChart) {
  Chart chart = OneLine();
  chart.series[0].points = {{3, 3, "alone"}};
  const std::string svg = ToSvg(chart);
  EXPECT_THAT(svg, HasSubstr("<title>alone</title>"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace factord::client
