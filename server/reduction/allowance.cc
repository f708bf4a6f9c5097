#include "server/reduction/allowance.h"

#include "absl/strings/str_cat.h"
#include "server/core/errors.h"
#include "server/core/status_macros.h"

namespace factord {
namespace {

absl::Status BudgetFull(std::int64_t bytes, const ByteBudget& budget) {
  if (bytes > budget.limit()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the stream needs ", bytes, " bytes; the server's memory budget is ", budget.limit()));
  }
  return Overloaded("MEMORY_BUDGET_FULL",
                    absl::StrCat("the stream needs ", bytes, " bytes; ", budget.used(), " of ",
                                 budget.limit(), " are in use"),
                    absl::Milliseconds(100));
}

}  // namespace

Allowance::Memory& Allowance::Memory::operator=(Memory&& other) noexcept {
  Return();
  allowance_ = std::move(other.allowance_);
  reserved_bytes_ = std::exchange(other.reserved_bytes_, 0);
  beyond_ = std::move(other.beyond_);
  slab_ = std::move(other.slab_);
  return *this;
}

void Allowance::Memory::Return() {
  if (!allowance_) return;
  slab_ = Slab();
  allowance_->free_.fetch_add(reserved_bytes_, std::memory_order_relaxed);
  reserved_bytes_ = 0;
  if (beyond_) allowance_->GiveBack(beyond_);
  allowance_.reset();
}

absl::StatusOr<std::shared_ptr<Allowance>> Allowance::Create(std::shared_ptr<ByteBudget> budget,
                                                             std::shared_ptr<Metrics> metrics,
                                                             std::int64_t reserved) {
  std::shared_ptr<Allowance> allowance(
      new Allowance(std::move(budget), std::move(metrics), reserved));
  allowance->reservation_ = allowance->TakeMore(reserved);
  if (!allowance->reservation_) return BudgetFull(reserved, *allowance->budget_);
  return allowance;
}

Allowance::~Allowance() { GiveBack(reservation_); }

ByteBudget::Reservation Allowance::TakeMore(std::int64_t bytes) {
  ByteBudget::Reservation taken = budget_->TryTake(bytes);
  if (taken && metrics_) metrics_->BudgetChanged(budget_->used());
  return taken;
}

void Allowance::GiveBack(ByteBudget::Reservation& reservation) {
  reservation.Return();
  if (metrics_) metrics_->BudgetChanged(budget_->used());
}

bool Allowance::TakeReserved(std::int64_t bytes) {
  std::int64_t free = free_.load(std::memory_order_relaxed);
  do {
    if (bytes > free) return false;
  } while (!free_.compare_exchange_weak(free, free - bytes, std::memory_order_relaxed));
  return true;
}

absl::StatusOr<Allowance::Memory> Allowance::Take(std::int64_t bytes) {
  Memory memory;
  memory.allowance_ = shared_from_this();
  if (TakeReserved(bytes)) {
    memory.reserved_bytes_ = bytes;
  } else {
    memory.beyond_ = TakeMore(bytes);
    if (!memory.beyond_) return BudgetFull(bytes, *budget_);
  }
  ASSIGN_OR_RETURN(memory.slab_, Slab::Create(bytes));
  return memory;
}

}  // namespace factord
