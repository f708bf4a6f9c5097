// Signals: what the process does when it is sent one.
#pragma once

#include <semaphore.h>

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace factord {

// SIGTERM, SIGINT: the first one is waited for, a second one ends the process. SIGUSR1, SIGUSR2:
// one log level more, one less. SIGHUP: `on_hangup`. One for the process. Handlers, not blocked
// signals that a thread waits for: OpenBLAS starts threads before main, and those would get them.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // Called from a thread of this class, not from a handler. Null: hangups are let go. Once this
  // returns, the one that was set before runs no more.
  void OnHangup(std::function<void()> on_hangup);

  void WaitForStop();

 private:
  void Loop();
  void Act(int signal);

  sem_t stop_;  // a wait that ThreadSanitizer knows too: it lets signals through in those only
  bool stopping_ = false;  // of the thread
  absl::Mutex mutex_;
  std::function<void()> on_hangup_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace factord
