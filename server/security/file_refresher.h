// FileRefresher: the one thread that looks at the files of keys and tokens again and again.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace factord {

// Calls each of `refreshes` once a second, until it is destroyed.
class FileRefresher {
 public:
  explicit FileRefresher(std::vector<std::function<void()>> refreshes);
  ~FileRefresher();

 private:
  void Loop();

  const std::vector<std::function<void()>> refreshes_;
  absl::Mutex mutex_;
  absl::CondVar wake_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace factord
