#ifndef FACTORD_CLIENT_LATENCY_HISTOGRAM_H_
#define FACTORD_CLIENT_LATENCY_HISTOGRAM_H_

#include <array>
#include <cstdint>

#include "absl/time/time.h"

namespace factord::client {

// Latencies from 1 us to 1000 s, in buckets that are 1/64 of a power of two wide (HDR style): a
// quantile is within 1 % of the exact one, at any number of samples, in 16 KiB. Latencies outside
// of that range count as its ends.
//
// Not thread-safe: give each thread its own and Merge them.
class LatencyHistogram {
 public:
  void Record(absl::Duration latency);
  void Merge(const LatencyHistogram& other);

  int64_t count() const { return count_; }

  // The smallest recorded latency that at least `quantile` (in [0, 1]) of all are not above. Zero
  // if there are none.
  absl::Duration Quantile(double quantile) const;

  // Exact, but for the range. Zero if there are none.
  absl::Duration Max() const;
  absl::Duration Mean() const;

 private:
  // 2^9 <= 1000 ns and 10^12 ns < 2^40; 64 buckets for each power of two between.
  static constexpr int kMinExponent = 9;
  static constexpr int kMaxExponent = 40;
  static constexpr int kSubBucketBits = 6;
  static constexpr int kBuckets = (kMaxExponent - kMinExponent) << kSubBucketBits;

  static int BucketOf(int64_t ns);
  static int64_t MiddleOf(int bucket);

  std::array<int64_t, kBuckets> buckets_ = {};
  int64_t count_ = 0;
  int64_t min_ns_ = 0;
  int64_t max_ns_ = 0;
  double sum_ns_ = 0;
};

}  // namespace factord::client

#endif  // FACTORD_CLIENT_LATENCY_HISTOGRAM_H_
