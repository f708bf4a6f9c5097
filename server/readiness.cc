#include "server/readiness.h"

#include <utility>

namespace factord {

Readiness::Readiness(int steps, std::function<void(bool serving)> announce)
    : announce_(std::move(announce)), steps_left_(steps) {}

void Readiness::StepDone() {
  absl::MutexLock lock(&mutex_);
  if (--steps_left_ > 0 || phase_ != Phase::kWarmingUp) return;
  phase_ = Phase::kServing;
  announce_(true);
}

void Readiness::Drain() {
  absl::MutexLock lock(&mutex_);
  if (phase_ == Phase::kDraining) return;
  phase_ = Phase::kDraining;
  announce_(false);
}

std::optional<std::string> Readiness::WhyNot() const {
  absl::MutexLock lock(&mutex_);
  switch (phase_) {
    case Phase::kWarmingUp:
      return "warming up";
    case Phase::kServing:
      return std::nullopt;
    case Phase::kDraining:
      break;
  }
  return "draining";
}

}  // namespace factord
