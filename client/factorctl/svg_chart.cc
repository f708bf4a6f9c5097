#include "client/factorctl/svg_chart.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace factord::client {
namespace {

constexpr double kWidth = 760;
constexpr double kHeight = 440;
constexpr double kLeft = 76;
constexpr double kRight = 20;
constexpr double kTop = 64;
constexpr double kBottom = 56;

constexpr absl::string_view kStyle =
    "text{font:13px system-ui,sans-serif;fill:#222}.title{font-size:16px;font-weight:600}"
    ".grid{stroke:#ddd}.frame{fill:none;stroke:#888}.line{fill:none;stroke-width:2}"
    ".s0{stroke:#0b62c4;fill:#0b62c4}.s1{stroke:#c2410c;fill:#c2410c}"
    ".s2{stroke:#15803d;fill:#15803d}.s3{stroke:#7e22ce;fill:#7e22ce}.paper{fill:#fff}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#333}.paper{fill:#111}"
    ".s0{stroke:#6bb0ff;fill:#6bb0ff}.s1{stroke:#fb923c;fill:#fb923c}"
    ".s2{stroke:#4ade80;fill:#4ade80}.s3{stroke:#c084fc;fill:#c084fc}}.line{fill:none}";
constexpr int kColors = 4;

std::string Escaped(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

// One axis's range, and where in it a value lies.
class Scale {
 public:
  Scale(const Chart::Axis& axis, std::vector<double> values, double from, double to)
      : logarithmic_(axis.logarithmic), from_(from), to_(to) {
    for (const Chart::Axis::Tick& tick : axis.ticks) values.push_back(tick.value);
    values.erase(std::remove_if(values.begin(), values.end(), [&](double v) { return !Has(v); }),
                 values.end());
    // A linear axis starts at zero, so that lengths can be compared.
    if (!logarithmic_) values.push_back(0);
    low_ = values.empty() ? 1 : *std::min_element(values.begin(), values.end());
    high_ = values.empty() ? 10 : *std::max_element(values.begin(), values.end());
    if (low_ == high_) high_ = logarithmic_ ? 10 * low_ : low_ + 1;
    if (logarithmic_) {
      low_ /= 1.15;
      high_ *= 1.15;
    } else {
      high_ += 0.05 * (high_ - low_);
    }
  }

  bool Has(double value) const { return std::isfinite(value) && (!logarithmic_ || value > 0); }

  double At(double value) const {
    const double part = logarithmic_ ? std::log(value / low_) / std::log(high_ / low_)
                                     : (value - low_) / (high_ - low_);
    return from_ + part * (to_ - from_);
  }

  std::vector<Chart::Axis::Tick> Ticks(const Chart::Axis& axis) const {
    if (!axis.ticks.empty()) return axis.ticks;
    std::vector<Chart::Axis::Tick> ticks;
    for (double value : logarithmic_ ? LogarithmicTicks(low_, high_) : RoundTicks(low_, high_, 6)) {
      ticks.push_back({value, absl::StrFormat("%.12g", value)});
    }
    return ticks;
  }

 private:
  bool logarithmic_;
  double from_;
  double to_;
  double low_;
  double high_;
};

std::vector<double> Values(const Chart& chart, double Chart::Point::*coordinate) {
  std::vector<double> values;
  for (const Chart::Series& series : chart.series) {
    for (const Chart::Point& point : series.points) values.push_back(point.*coordinate);
  }
  return values;
}

void AppendGrid(const Chart& chart, const Scale& x, const Scale& y, std::string* svg) {
  for (const auto& [value, name] : x.Ticks(chart.x)) {
    absl::StrAppendFormat(svg,
                          "<path class='grid' d='M%.1f %gV%g'/><text x='%.1f' y='%g' "
                          "text-anchor='middle'>%s</text>\n",
                          x.At(value), kTop, kHeight - kBottom, x.At(value), kHeight - kBottom + 18,
                          Escaped(name));
  }
  for (const auto& [value, name] : y.Ticks(chart.y)) {
    absl::StrAppendFormat(svg,
                          "<path class='grid' d='M%g %.1fH%g'/><text x='%g' y='%.1f' "
                          "text-anchor='end'>%s</text>\n",
                          kLeft, y.At(value), kWidth - kRight, kLeft - 6, y.At(value) + 4,
                          Escaped(name));
  }
  absl::StrAppendFormat(svg, "<rect class='frame' x='%g' y='%g' width='%g' height='%g'/>\n", kLeft,
                        kTop, kWidth - kLeft - kRight, kHeight - kTop - kBottom);
  absl::StrAppendFormat(svg, "<text x='%g' y='%g' text-anchor='middle'>%s</text>\n",
                        (kLeft + kWidth - kRight) / 2, kHeight - 14, Escaped(chart.x.label));
  absl::StrAppendFormat(svg,
                        "<text transform='translate(18 %g) rotate(-90)' "
                        "text-anchor='middle'>%s</text>\n",
                        (kTop + kHeight - kBottom) / 2, Escaped(chart.y.label));
}

void AppendSeries(const Chart::Series& series, int color, const Scale& x, const Scale& y,
                  std::string* svg) {
  std::string line;
  std::string marks;
  for (const Chart::Point& point : series.points) {
    if (!x.Has(point.x) || !y.Has(point.y)) continue;
    absl::StrAppendFormat(&line, "%s%.1f %.1f", line.empty() ? "M" : "L", x.At(point.x),
                          y.At(point.y));
    absl::StrAppendFormat(&marks,
                          "<circle class='s%d' cx='%.1f' cy='%.1f' r='3.5'><title>%s</title>"
                          "</circle>\n",
                          color, x.At(point.x), y.At(point.y), Escaped(point.note));
  }
  if (line.empty()) return;
  absl::StrAppendFormat(svg, "<path class='line s%d' d='%s'/>\n%s", color, line, marks);
}

void AppendLegend(const Chart& chart, std::string* svg) {
  double x = kLeft;
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const std::string& name = chart.series[i].name;
    absl::StrAppendFormat(
        svg, "<path class='line s%d' d='M%g %gh18'/><text x='%g' y='%g'>%s</text>\n",
        static_cast<int>(i) % kColors, x, kTop - 12, x + 23, kTop - 8, Escaped(name));
    x += 48 + 8 * static_cast<double>(name.size());
  }
}

}  // namespace

std::vector<double> RoundTicks(double low, double high, int wanted) {
  const double rough = (high - low) / wanted;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double digit = rough / power;
  const double step = power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
  std::vector<double> ticks;
  for (double i = std::ceil(low / step); i * step <= high; ++i) ticks.push_back(i * step);
  return ticks;
}

std::vector<double> LogarithmicTicks(double low, double high) {
  const bool few = high / low < 1000;
  std::vector<double> ticks;
  for (int exponent = static_cast<int>(std::floor(std::log10(low))); std::pow(10, exponent) <= high;
       ++exponent) {
    for (int digit : {1, 2, 5}) {
      const double value = digit * std::pow(10, exponent);
      if ((digit == 1 || few) && value >= low && value <= high) ticks.push_back(value);
    }
  }
  return ticks;
}

std::string ToSvg(const Chart& chart) {
  const Scale x(chart.x, Values(chart, &Chart::Point::x), kLeft, kWidth - kRight);
  const Scale y(chart.y, Values(chart, &Chart::Point::y), kHeight - kBottom, kTop);
  std::string svg = absl::StrFormat(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %g %g' role='img'>\n"
      "<title>%s</title>\n<style>%s</style>\n<rect class='paper' width='%g' height='%g'/>\n"
      "<text class='title' x='%g' y='22'>%s</text>\n<text x='%g' y='40'>%s</text>\n",
      kWidth, kHeight, Escaped(chart.title), kStyle, kWidth, kHeight, kLeft, Escaped(chart.title),
      kLeft, Escaped(chart.subtitle));
  AppendGrid(chart, x, y, &svg);
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    AppendSeries(chart.series[i], static_cast<int>(i) % kColors, x, y, &svg);
  }
  AppendLegend(chart, &svg);
  return absl::StrCat(svg, "</svg>\n");
}

}  // namespace factord::client
