#include "server/signals.h"

#include <semaphore.h>
#include <signal.h>

#include <atomic>
#include <cstdlib>
#include <utility>

#include "server/logging/setup.h"
#include "spdlog/spdlog.h"

namespace factord {
namespace {

constexpr int kHandled[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};

// What a handler may touch: how often each came, and one post for each.
std::atomic<int> came[NSIG];
sem_t posted;
std::atomic<bool> over{false};

void OnSignal(int signal) {
  came[signal].fetch_add(1);
  sem_post(&posted);
}

void Wait(sem_t* semaphore) {
  while (sem_wait(semaphore) != 0) {  // interrupted
  }
}

}  // namespace

Signals::Signals() {
  sem_init(&posted, 0, 0);
  sem_init(&stop_, 0, 0);
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  for (int signal : kHandled) sigaction(signal, &action, nullptr);
  thread_ = std::thread([this] { Loop(); });
}

// The handlers stay: what still comes is let go.
Signals::~Signals() {
  over.store(true);
  sem_post(&posted);
  thread_.join();
}

void Signals::OnHangup(std::function<void()> on_hangup) {
  absl::MutexLock lock(&mutex_);
  on_hangup_ = std::move(on_hangup);
}

void Signals::WaitForStop() { Wait(&stop_); }

void Signals::Loop() {
  while (!over.load()) {
    Wait(&posted);
    for (int signal : kHandled) {
      for (; came[signal].load() > 0; came[signal].fetch_sub(1)) Act(signal);
    }
  }
}

void Signals::Act(int signal) {
  if (signal == SIGUSR1 || signal == SIGUSR2) return ChangeLogLevel(signal == SIGUSR1 ? 1 : -1);
  if (signal == SIGHUP) {
    absl::MutexLock lock(&mutex_);
    if (on_hangup_) on_hangup_();
    return;
  }
  if (!std::exchange(stopping_, true)) {
    sem_post(&stop_);
    return;
  }
  spdlog::warn("second signal: leaving at once");
  std::_Exit(1);
}

}  // namespace factord
