// CostModel: how long work takes on one backend of this machine, from what it took before.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "server/core/spec.h"

namespace factord {

struct Prediction {
  absl::Duration time;
  bool measured = false;  // from runs of this class; else from a default rate
};

// One rate (ns of wall time a flop, a running mean) for each operation, type and size class of one
// matrix. Thread-safe, lock-free: a lost update costs one sample.
class CostModel {
 public:
  explicit CostModel(Backend backend = Backend::kCpu) : backend_(backend) {}

  Prediction Predict(const Spec& spec, std::int64_t count) const;

  // A batch of `count` such matrices took `elapsed`.
  void Observe(const Spec& spec, std::int64_t count, absl::Duration elapsed);

 private:
  static constexpr int kSizeClasses = 48;  // log2 of a matrix's flops
  struct Rate {
    std::atomic<float> ns_per_flop{0};  // 0: never seen
  };

  static std::size_t ClassOf(const Spec& spec);

  const Backend backend_;
  std::array<Rate, kOps * kDTypes * kSizeClasses> rates_;
};

}  // namespace factord
