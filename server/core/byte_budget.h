// ByteBudget: bounds the memory of all work in flight. Taken before the memory is, returned when
// the last reference to it is gone.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace factord {

// Thread-safe, lock-free. Must outlive its reservations.
class ByteBudget {
 public:
  // What was taken; returns it when destroyed. Movable.
  class Reservation {
   public:
    Reservation() = default;
    Reservation(Reservation&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), bytes_(other.bytes_) {}
    Reservation& operator=(Reservation&& other) noexcept {
      Return();
      budget_ = std::exchange(other.budget_, nullptr);
      bytes_ = other.bytes_;
      return *this;
    }
    ~Reservation() { Return(); }

    void Return() {
      if (budget_ != nullptr) budget_->used_.fetch_sub(bytes_, std::memory_order_relaxed);
      budget_ = nullptr;
    }

    explicit operator bool() const { return budget_ != nullptr; }

   private:
    friend class ByteBudget;
    Reservation(ByteBudget* budget, std::int64_t bytes) : budget_(budget), bytes_(bytes) {}

    ByteBudget* budget_ = nullptr;
    std::int64_t bytes_ = 0;
  };

  explicit ByteBudget(std::int64_t limit) : limit_(limit) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  // An empty reservation where `bytes` more would pass the limit.
  Reservation TryTake(std::int64_t bytes) {
    std::int64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit_ - used) return {};
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return {this, bytes};
  }

  std::int64_t used() const { return used_.load(std::memory_order_relaxed); }
  std::int64_t limit() const { return limit_; }

 private:
  const std::int64_t limit_;
  std::atomic<std::int64_t> used_{0};
};

}  // namespace factord
