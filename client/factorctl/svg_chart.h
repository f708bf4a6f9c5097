#ifndef FACTORD_CLIENT_FACTORCTL_SVG_CHART_H_
#define FACTORD_CLIENT_FACTORCTL_SVG_CHART_H_

#include <string>
#include <vector>

namespace factord::client {

// A line chart, as data.
struct Chart {
  struct Axis {
    std::string label;  // with its unit
    bool logarithmic = false;
    // Values to mark, with their names. Empty: round numbers in the range of the points.
    struct Tick {
      double value;
      std::string name;
    };
    std::vector<Tick> ticks;
  };
  struct Point {
    double x;
    double y;
    std::string note;  // shown when the pointer rests on it
  };
  struct Series {
    std::string name;
    std::vector<Point> points;
  };

  std::string title;
  std::string subtitle;
  Axis x;
  Axis y;
  std::vector<Series> series;
};

// The chart as an SVG file of its own, readable on light and on dark paper. Points that have no
// place (not finite, or not positive on a logarithmic axis) are left out.
std::string ToSvg(const Chart& chart);

// Round numbers (1, 2 or 5 times a power of ten) from `low` to `high`, about `wanted` of them.
std::vector<double> RoundTicks(double low, double high, int wanted);
// Powers of ten in the range, with 2 and 5 times them where those are few. REQUIRES: 0 < low <=
// high.
std::vector<double> LogarithmicTicks(double low, double high);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_FACTORCTL_SVG_CHART_H_
