// HistogramCounts: what a histogram held at one moment, and what can be read out of it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace factord {

// A value. counts[i] observations were in (bounds[i-1], bounds[i]]; the last one has no bound.
struct HistogramCounts {
  std::vector<double> bounds;
  std::vector<std::uint64_t> counts;  // one more than bounds

  std::uint64_t total() const;

  // What was observed since `earlier`, of the same histogram; one that is empty held nothing.
  HistogramCounts Since(const HistogramCounts& earlier) const;

  // As Prometheus' histogram_quantile: linear within a bucket, the last bound beyond it. Nothing
  // was observed: nullopt. REQUIRES: 0 <= q <= 1.
  std::optional<double> Quantile(double q) const;
};

}  // namespace factord
