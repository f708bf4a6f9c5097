#include "server/engine/completer.h"

#include <pthread.h>

namespace factord {

Completer::Completer()
    : thread_([this] {
        pthread_setname_np(pthread_self(), "completer");
        Loop();
      }) {}

Completer::~Completer() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    pushed_.Signal();
  }
  thread_.join();
}

void Completer::Push(Batch batch, absl::Status status) {
  absl::MutexLock lock(&mutex_);
  batches_.emplace_back(std::move(batch), std::move(status));
  pushed_.Signal();
}

void Completer::Loop() {
  while (true) {
    std::pair<Batch, absl::Status> next;
    {
      absl::MutexLock lock(&mutex_);
      while (batches_.empty() && !stopped_) pushed_.Wait(&mutex_);
      if (batches_.empty()) return;
      next = std::move(batches_.front());
      batches_.pop_front();
    }
    for (auto& job : next.first.jobs) Complete(std::move(job), next.second);
  }
}

}  // namespace factord
