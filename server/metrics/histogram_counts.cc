#include "server/metrics/histogram_counts.h"

#include <cstddef>
#include <numeric>

namespace factord {

std::uint64_t HistogramCounts::total() const {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

HistogramCounts HistogramCounts::Since(const HistogramCounts& earlier) const {
  HistogramCounts difference = *this;
  for (std::size_t i = 0; i < earlier.counts.size() && i < counts.size(); ++i) {
    difference.counts[i] -= earlier.counts[i];
  }
  return difference;
}

std::optional<double> HistogramCounts::Quantile(double q) const {
  const std::uint64_t all = total();
  if (all == 0 || bounds.empty()) return std::nullopt;
  const double rank = q * static_cast<double>(all);
  double below = 0;
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    const auto here = static_cast<double>(counts[i]);
    if (here > 0 && below + here >= rank) {
      const double low = i == 0 ? 0 : bounds[i - 1];
      return low + (bounds[i] - low) * (rank - below) / here;
    }
    below += here;
  }
  return bounds.back();
}

}  // namespace factord
