// ThreadPool: a loop's iterations over a fixed set of threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"

namespace factord {

// Used by one caller at a time; that caller works too. Sleeping helpers cost nothing; waking them
// costs some 10 us, so callers run very short loops by themselves.
class ThreadPool {
 public:
  using Body = absl::FunctionRef<void(std::int64_t i, int worker)>;

  // `threads` >= 1 counts the caller: threads - 1 helpers are started.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(helpers_.size()) + 1; }

  // Calls body(i, worker) once for each i in [0, count), in any order, on any of the threads;
  // returns when all are done. 0 <= worker < threads(), no two calls at a time with the same one;
  // the caller is 0. Not from inside a body.
  void ParallelFor(std::int64_t count, Body body) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Help(int worker) ABSL_LOCKS_EXCLUDED(mutex_);
  void Drain(const Body& body, std::int64_t count, int worker);

  std::atomic<std::int64_t> next_{0};

  absl::Mutex mutex_;
  absl::CondVar opened_;
  absl::CondVar left_;
  const Body* body_ ABSL_GUARDED_BY(mutex_) = nullptr;  // null: no loop is open
  std::int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t loop_ ABSL_GUARDED_BY(mutex_) = 0;
  int inside_ ABSL_GUARDED_BY(mutex_) = 0;  // helpers in the open loop
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;

  std::vector<std::thread> helpers_;
};

}  // namespace factord
