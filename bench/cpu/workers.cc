#include "bench/cpu/workers.h"

#include <algorithm>

namespace factord::bench::cpu {

Workers::Workers(int threads) {
  for (int worker = 1; worker < threads; ++worker)
    threads_.emplace_back([this, worker] { Work(worker); });
}

Workers::~Workers() {
  body_ = nullptr;
  ++round_;
  round_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::Work(int worker) {
  for (std::uint32_t round = 1;; ++round) {
    round_.wait(round - 1);
    if (body_ == nullptr) return;
    (*body_)(worker);
    if (--busy_ == 0) busy_.notify_one();
  }
}

void Workers::Run(const std::function<void(int)>& body) {
  if (!threads_.empty()) {
    body_ = &body;
    busy_ = static_cast<int>(threads_.size());
    ++round_;
    round_.notify_all();
  }
  body(0);
  for (int busy = busy_; busy != 0; busy = busy_) busy_.wait(busy);
}

void Workers::Split(std::int64_t count, std::int64_t multiple,
                    const std::function<void(int, std::int64_t, std::int64_t)>& body) {
  if (threads() == 1) return body(0, 0, count);
  constexpr std::int64_t kRanges = 32;  // so that none waits long for the other's last
  if (count < 4 * threads() * multiple) multiple = 1;
  const std::int64_t length = (count / kRanges / multiple + 1) * multiple;
  std::atomic<std::int64_t> next{0};
  Run([&](int worker) {
    for (std::int64_t first = next.fetch_add(length); first < count; first = next.fetch_add(length))
      body(worker, first, std::min(first + length, count));
  });
}

}  // namespace factord::bench::cpu
