// Allowance: the memory of one stream. What it always needs is taken from the byte budget when it
// starts, so that a stream that was let in is not stopped half way; only what it needs beyond that
// is taken as it comes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "server/core/byte_budget.h"
#include "server/core/slab.h"
#include "server/metrics/metrics.h"

namespace factord {

// Thread-safe. Shared with the memory taken from it.
class Allowance : public std::enable_shared_from_this<Allowance> {
 public:
  // Some bytes; given back when destroyed. Movable. Default: none.
  class Memory {
   public:
    Memory() = default;
    Memory(Memory&& other) noexcept { *this = std::move(other); }
    Memory& operator=(Memory&& other) noexcept;
    ~Memory() { Return(); }

    std::byte* data() const { return slab_.data(); }

   private:
    friend class Allowance;
    void Return();

    std::shared_ptr<Allowance> allowance_;
    std::int64_t reserved_bytes_ = 0;
    ByteBudget::Reservation beyond_;  // what is not of the reserved bytes
    Slab slab_;
  };

  // Takes `reserved` bytes from the budget. UNAVAILABLE where it is full, RESOURCE_EXHAUSTED where
  // it can never hold them. `metrics` may be null.
  static absl::StatusOr<std::shared_ptr<Allowance>> Create(std::shared_ptr<ByteBudget> budget,
                                                           std::shared_ptr<Metrics> metrics,
                                                           std::int64_t reserved);
  ~Allowance();

  // From what is reserved, else from the budget. UNAVAILABLE where it is full.
  absl::StatusOr<Memory> Take(std::int64_t bytes);

 private:
  Allowance(std::shared_ptr<ByteBudget> budget, std::shared_ptr<Metrics> metrics,
            std::int64_t reserved)
      : budget_(std::move(budget)), metrics_(std::move(metrics)), free_(reserved) {}

  bool TakeReserved(std::int64_t bytes);
  // From the budget. Empty: it is full.
  ByteBudget::Reservation TakeMore(std::int64_t bytes);
  void GiveBack(ByteBudget::Reservation& reservation);

  const std::shared_ptr<ByteBudget> budget_;
  const std::shared_ptr<Metrics> metrics_;
  ByteBudget::Reservation reservation_;
  std::atomic<std::int64_t> free_;
};

}  // namespace factord
