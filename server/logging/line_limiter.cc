#include "server/logging/line_limiter.h"

#include <utility>

namespace factord {

bool LineLimiter::Allows(std::size_t kind, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  Kind& state = kinds_[kind];
  if (now >= state.ends) {
    state.ends = now + window_;
    state.written = 0;
  }
  if (state.written < lines_) {
    ++state.written;
    return true;
  }
  ++state.suppressed;
  return false;
}

std::vector<LineLimiter::Suppressed> LineLimiter::TakeSuppressed(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  std::vector<Suppressed> all;
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    Kind& state = kinds_[kind];
    if (state.suppressed == 0 || now < state.ends) continue;
    all.push_back({kind, std::exchange(state.suppressed, 0)});
  }
  return all;
}

}  // namespace factord
