#include "server/rpc/stream_registry.h"

#include <utility>

namespace factord {

StreamRegistry::StreamRegistry(absl::Duration period)
    : period_(period), thread_([this] { Loop(); }) {}

StreamRegistry::~StreamRegistry() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    wake_.Signal();
  }
  thread_.join();
}

void StreamRegistry::Add(std::weak_ptr<Ticking> stream) {
  absl::MutexLock lock(&mutex_);
  streams_.push_back(std::move(stream));
}

void StreamRegistry::TickNow() {
  absl::MutexLock lock(&mutex_);
  tick_now_ = true;
  wake_.Signal();
}

void StreamRegistry::Loop() {
  while (true) {
    std::vector<std::shared_ptr<Ticking>> streams;
    {
      absl::MutexLock lock(&mutex_);
      if (!stopped_ && !tick_now_) wake_.WaitWithTimeout(&mutex_, period_);
      if (stopped_) return;
      tick_now_ = false;
      std::erase_if(streams_, [&](const std::weak_ptr<Ticking>& stream) {
        if (auto owned = stream.lock()) {
          streams.push_back(std::move(owned));
          return false;
        }
        return true;
      });
    }
    for (const auto& stream : streams) stream->Tick(absl::Now());
  }
}

}  // namespace factord
