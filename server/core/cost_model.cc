#include "server/core/cost_model.h"

#include <algorithm>
#include <cmath>

namespace factord {
namespace {

// Before anything has run, by backend: what LAPACK reaches on one current core with matrices of a
// few dozen columns; a tenth of what a current GPU reaches with many of them.
constexpr double kDefaultNsPerFlop[kBackends] = {0.5, 0.005};
constexpr double kWeightOfNew = 0.25;
// Scaling, copying and bookkeeping of even an empty matrix, expressed as work.
constexpr double kFlopsPerMatrix = 200;
// Of a batch, whatever is in it: left out of the rate, or a lone small matrix would make a large
// batch of them look slow. By backend.
constexpr absl::Duration kBatchOverhead[kBackends] = {absl::Microseconds(10),
                                                      absl::Microseconds(60)};

double Work(const Spec& spec) { return FlopsOf(spec) + kFlopsPerMatrix; }

}  // namespace

std::size_t CostModel::ClassOf(const Spec& spec) {
  const int size = std::clamp(static_cast<int>(std::log2(Work(spec))), 0, kSizeClasses - 1);
  return (static_cast<std::size_t>(spec.op) * kDTypes + static_cast<std::size_t>(spec.dtype)) *
             kSizeClasses +
         static_cast<std::size_t>(size);
}

Prediction CostModel::Predict(const Spec& spec, std::int64_t count) const {
  const float seen = rates_[ClassOf(spec)].ns_per_flop.load(std::memory_order_relaxed);
  const double rate = seen > 0 ? seen : kDefaultNsPerFlop[static_cast<std::size_t>(backend_)];
  return {absl::Nanoseconds(rate * Work(spec) * static_cast<double>(count)), seen > 0};
}

void CostModel::Observe(const Spec& spec, std::int64_t count, absl::Duration elapsed) {
  if (count <= 0) return;
  auto& rate = rates_[ClassOf(spec)].ns_per_flop;
  const absl::Duration work_time =
      std::max(elapsed - kBatchOverhead[static_cast<std::size_t>(backend_)], elapsed / 4);
  const double sample =
      absl::ToDoubleNanoseconds(work_time) / (Work(spec) * static_cast<double>(count));
  const float old = rate.load(std::memory_order_relaxed);
  rate.store(static_cast<float>(old > 0 ? old + kWeightOfNew * (sample - old) : sample),
             std::memory_order_relaxed);
}

}  // namespace factord
