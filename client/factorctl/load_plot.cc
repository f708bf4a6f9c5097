#include "client/factorctl/load_plot.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/factorctl/load_rates.h"
#include "client/factorctl/report.h"
#include "client/factorctl/svg_chart.h"

namespace factord::client {
namespace {

double Milliseconds(const LoadResult& result, double quantile) {
  return absl::ToDoubleMilliseconds(result.latency.Quantile(quantile));
}

// What was run, under a chart's title.
std::string Subtitle(const LoadOptions& options) {
  return absl::StrCat(ShapesName(options.shapes), " ", DTypeName(options.dtype), ", ",
                      absl::FormatDuration(options.duration), " each, server ",
                      options.client.target);
}

Chart LatencyAgainstLoad(const LoadOptions& options, const Sweep& sweep,
                         const std::vector<LoadResult>& runs) {
  Chart chart{.title = "Latency against load",
              .subtitle = Subtitle(options),
              .x = {.label = "requests/s that succeeded", .logarithmic = false, .ticks = {}},
              .y = {.label = "latency, ms", .logarithmic = true, .ticks = {}},
              .series = {}};
  for (const auto& [name, quantile] : kReportedQuantiles) {
    Chart::Series series{.name = std::string(name), .points = {}};
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (runs[i].succeeded == 0) continue;
      series.points.push_back(
          {ComputeRates(runs[i]).requests_per_second, Milliseconds(runs[i], quantile),
           absl::StrFormat("%s %g: %s %s", Name(sweep.option), sweep.values[i], name,
                           ShortDuration(runs[i].latency.Quantile(quantile)))});
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

Chart ThroughputAgainstBatch(const LoadOptions& options, const Sweep& sweep,
                             const std::vector<LoadResult>& runs) {
  Chart chart{.title = "Throughput against batch size",
              .subtitle = Subtitle(options),
              .x = {.label = "matrices in a request", .logarithmic = true, .ticks = {}},
              .y = {.label = "GFlop/s, end to end", .logarithmic = true, .ticks = {}},
              .series = {{.name = absl::StrCat(options.clients, " clients"), .points = {}}}};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const LoadRates rates = ComputeRates(runs[i]);
    chart.series[0].points.push_back(
        {sweep.values[i], rates.gflops,
         absl::StrFormat("batch %g: %.4g GFlop/s, %.4g matrices/s", sweep.values[i], rates.gflops,
                         rates.matrices_per_second)});
  }
  return chart;
}

}  // namespace

std::string PlotLoad(const LoadOptions& options, const LoadResult& result) {
  Chart chart{.title = "Latency at each quantile",
              .subtitle = Subtitle(options),
              .x = {.label = "of the requests were faster", .logarithmic = true, .ticks = {}},
              .y = {.label = "latency, ms", .logarithmic = true, .ticks = {}},
              .series = {{.name = absl::StrCat(result.succeeded, " requests"), .points = {}}}};
  // Equal steps to the right leave out a tenth of what the step before did.
  for (double left_out = 0.5; left_out * static_cast<double>(result.succeeded) >= 1;
       left_out /= 1.5) {
    const absl::Duration latency = result.latency.Quantile(1 - left_out);
    chart.series[0].points.push_back(
        {1 / left_out, absl::ToDoubleMilliseconds(latency),
         absl::StrFormat("%.6g %%: %s", 100 * (1 - left_out), ShortDuration(latency))});
  }
  double tick = 2;
  for (absl::string_view name : {"50 %", "90 %", "99 %", "99.9 %", "99.99 %"}) {
    if (tick <= static_cast<double>(result.succeeded)) {
      chart.x.ticks.push_back({tick, std::string(name)});
    }
    tick = tick == 2 ? 10 : 10 * tick;
  }
  return ToSvg(chart);
}

std::string PlotSweep(const LoadOptions& options, const Sweep& sweep,
                      const std::vector<LoadResult>& runs) {
  return ToSvg(sweep.option == SweptOption::kBatch ? ThroughputAgainstBatch(options, sweep, runs)
                                                   : LatencyAgainstLoad(options, sweep, runs));
}

}  // namespace factord::client
