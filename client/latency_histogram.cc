#include "client/latency_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace factord::client {
namespace {

constexpr int64_t kMinNs = 1000;
constexpr int64_t kMaxNs = 1'000'000'000'000;

}  // namespace

int LatencyHistogram::BucketOf(int64_t ns) {
  const int exponent = std::bit_width(static_cast<uint64_t>(ns)) - 1;
  // The bits after the leading one.
  const int64_t sub_bucket = (ns >> (exponent - kSubBucketBits)) - (int64_t{1} << kSubBucketBits);
  return ((exponent - kMinExponent) << kSubBucketBits) + static_cast<int>(sub_bucket);
}

int64_t LatencyHistogram::MiddleOf(int bucket) {
  const int exponent = (bucket >> kSubBucketBits) + kMinExponent;
  const int64_t sub_bucket = bucket & ((1 << kSubBucketBits) - 1);
  const int64_t width = int64_t{1} << (exponent - kSubBucketBits);
  return ((int64_t{1} << kSubBucketBits) + sub_bucket) * width + width / 2;
}

void LatencyHistogram::Record(absl::Duration latency) {
  const int64_t ns = std::clamp(absl::ToInt64Nanoseconds(latency), kMinNs, kMaxNs);
  ++buckets_[BucketOf(ns)];
  min_ns_ = count_ == 0 ? ns : std::min(min_ns_, ns);
  max_ns_ = std::max(max_ns_, ns);
  sum_ns_ += static_cast<double>(ns);
  ++count_;
}

void LatencyHistogram::Merge(const LatencyHistogram& other) {
  if (other.count_ == 0) return;
  for (int i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
  min_ns_ = count_ == 0 ? other.min_ns_ : std::min(min_ns_, other.min_ns_);
  max_ns_ = std::max(max_ns_, other.max_ns_);
  sum_ns_ += other.sum_ns_;
  count_ += other.count_;
}

absl::Duration LatencyHistogram::Quantile(double quantile) const {
  if (count_ == 0) return absl::ZeroDuration();
  const int64_t rank =
      std::max<int64_t>(1, static_cast<int64_t>(std::ceil(quantile * static_cast<double>(count_))));
  int64_t seen = 0;
  int bucket = 0;
  while (bucket < kBuckets - 1 && (seen += buckets_[bucket]) < rank) ++bucket;
  return absl::Nanoseconds(std::clamp(MiddleOf(bucket), min_ns_, max_ns_));
}

absl::Duration LatencyHistogram::Max() const { return absl::Nanoseconds(max_ns_); }

absl::Duration LatencyHistogram::Mean() const {
  if (count_ == 0) return absl::ZeroDuration();
  return absl::Nanoseconds(sum_ns_ / static_cast<double>(count_));
}

}  // namespace factord::client
