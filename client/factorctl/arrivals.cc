#include "client/factorctl/arrivals.h"

#include <random>

namespace factord::client {

std::vector<absl::Duration> PoissonArrivals(double rate, absl::Duration warmup, absl::Duration end,
                                            int64_t max_count, uint64_t seed) {
  std::vector<absl::Duration> arrivals;
  std::mt19937_64 generator(seed);
  std::exponential_distribution<double> gap_seconds(rate);
  int64_t measured = 0;
  absl::Duration at = absl::ZeroDuration();
  while (true) {
    at += absl::Seconds(gap_seconds(generator));
    if (at >= end) return arrivals;
    if (at >= warmup && ++measured > max_count && max_count > 0) return arrivals;
    arrivals.push_back(at);
  }
}

}  // namespace factord::client
