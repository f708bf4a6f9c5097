#include "server/security/file_refresher.h"

#include <utility>

#include "absl/time/time.h"

namespace factord {
namespace {

// A token that was struck out should not work for long, and to read a few small files costs some
// tens of microseconds.
constexpr absl::Duration kPeriod = absl::Seconds(1);

}  // namespace

FileRefresher::FileRefresher(std::vector<std::function<void()>> refreshes)
    : refreshes_(std::move(refreshes)), thread_([this] { Loop(); }) {}

FileRefresher::~FileRefresher() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    wake_.Signal();
  }
  thread_.join();
}

void FileRefresher::Loop() {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (!stopped_) wake_.WaitWithTimeout(&mutex_, kPeriod);
      if (stopped_) return;
    }
    for (const auto& refresh : refreshes_) refresh();
  }
}

}  // namespace factord
