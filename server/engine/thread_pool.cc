#include "server/engine/thread_pool.h"

namespace factord {

ThreadPool::ThreadPool(int threads) {
  helpers_.reserve(static_cast<std::size_t>(threads > 1 ? threads - 1 : 0));
  for (int worker = 1; worker < threads; ++worker) {
    helpers_.emplace_back([this, worker] { Help(worker); });
  }
}

ThreadPool::~ThreadPool() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
    opened_.SignalAll();
  }
  for (std::thread& helper : helpers_) helper.join();
}

void ThreadPool::ParallelFor(std::int64_t count, Body body) {
  if (count <= 1 || helpers_.empty()) {
    for (std::int64_t i = 0; i < count; ++i) body(i, 0);
    return;
  }
  {
    absl::MutexLock lock(&mutex_);
    next_.store(0, std::memory_order_relaxed);
    body_ = &body;
    count_ = count;
    ++loop_;
    // The caller takes one iteration itself.
    if (count > threads() - 1) {
      opened_.SignalAll();
    } else {
      for (std::int64_t i = 1; i < count; ++i) opened_.Signal();
    }
  }
  Drain(body, count, 0);
  // A helper that wakes only now finds the loop closed: nobody waits for a thread that never came.
  absl::MutexLock lock(&mutex_);
  body_ = nullptr;
  while (inside_ > 0) left_.Wait(&mutex_);
}

void ThreadPool::Help(int worker) {
  std::uint64_t seen = 0;
  absl::MutexLock lock(&mutex_);
  while (true) {
    while (!stop_ && (body_ == nullptr || loop_ == seen)) opened_.Wait(&mutex_);
    if (stop_) return;
    seen = loop_;
    const Body* body = body_;
    const std::int64_t count = count_;
    ++inside_;
    mutex_.Unlock();
    Drain(*body, count, worker);
    mutex_.Lock();
    if (--inside_ == 0) left_.Signal();
  }
}

void ThreadPool::Drain(const Body& body, std::int64_t count, int worker) {
  for (std::int64_t i = next_.fetch_add(1, std::memory_order_relaxed); i < count;
       i = next_.fetch_add(1, std::memory_order_relaxed)) {
    body(i, worker);
  }
}

}  // namespace factord
