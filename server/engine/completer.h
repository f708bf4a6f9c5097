// Completer: ends the jobs of batches that ran, on a thread of its own. Replying to the many
// requests of a batch takes long enough that the lane should run its next batch meanwhile.
#pragma once

#include <deque>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/core/batch.h"

namespace factord {

// Thread-safe. Unbounded, but what waits in it holds its share of the byte budget, so there is
// never much.
class Completer {
 public:
  Completer();
  // Completes what is left.
  ~Completer();
  Completer(const Completer&) = delete;
  Completer& operator=(const Completer&) = delete;

  // Completes each job of the batch with `status`, soon, in order.
  void Push(Batch batch, absl::Status status);

 private:
  void Loop();

  absl::Mutex mutex_;
  absl::CondVar pushed_;
  std::deque<std::pair<Batch, absl::Status>> batches_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace factord
