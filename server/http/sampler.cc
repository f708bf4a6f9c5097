#include "server/http/sampler.h"

#include <utility>

namespace factord {

Sampler::Sampler(const Metrics& metrics) : metrics_(metrics), thread_([this] { Loop(); }) {}

Sampler::~Sampler() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    stop_wake_.Signal();
  }
  thread_.join();
}

void Sampler::Read(const std::function<void(const History&)>& read) const {
  absl::MutexLock lock(&mutex_);
  read(history_);
}

void Sampler::Loop() {
  absl::MutexLock lock(&mutex_);
  while (!stopped_) {
    history_.Add(metrics_.Snapshot());
    const absl::Time next = history_.samples().back().taken + History::kStep;
    while (!stopped_ && !stop_wake_.WaitWithDeadline(&mutex_, next)) {
    }
  }
}

}  // namespace factord
