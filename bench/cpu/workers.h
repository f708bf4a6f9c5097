// The threads of a case: the calling one and, where there are two, one that waits to be woken, as a
// service's pool does.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace factord::bench::cpu {

class Workers {
 public:
  explicit Workers(int threads);
  ~Workers();

  int threads() const { return static_cast<int>(threads_.size()) + 1; }

  // body(worker) on each thread, worker 0 on the calling one; returns when all have returned.
  void Run(const std::function<void(int worker)>& body);

  // body(worker, first, last) for ranges that make up [0, count); with more than one thread, taken
  // in turn by whoever is free, each but the last a multiple of `multiple` long where there are
  // enough.
  void Split(std::int64_t count, std::int64_t multiple,
             const std::function<void(int worker, std::int64_t first, std::int64_t last)>& body);

 private:
  void Work(int worker);

  const std::function<void(int)>* body_ = nullptr;  // null: leave
  std::atomic<std::uint32_t> round_{0};
  std::atomic<int> busy_{0};
  std::vector<std::thread> threads_;
};

}  // namespace factord::bench::cpu
