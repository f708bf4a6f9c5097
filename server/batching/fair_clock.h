// FairClock: how much service each client has had, so that the next may go to whom is owed most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/time/time.h"

namespace factord {

// Self-clocked fair queueing over clients with equal weights. A client's `time` is the predicted
// cost it has consumed, on a scale all clients share; now() is where the scale stands. Who comes,
// or comes back, starts at now() or at its own time, whichever is later: absence earns no credit,
// and leaving pays no debt.
//
// Memory: clients with jobs waiting, and those that left with a time beyond now(), at most
// kMaxParked of these. A value, movable; not thread-safe. The unit of time is predicted lane time.
class FairClock {
 public:
  struct Account {
    const std::string* client = nullptr;  // not null
    std::uint64_t id = 0;                 // by order of appearance; breaks ties
    absl::Duration time;
    std::int64_t queued = 0;  // jobs waiting
  };

  // Of clients that left. Beyond it the smallest debts are forgiven.
  static constexpr std::size_t kMaxParked = 4096;

  // A job of `client` starts to wait. The account is valid until as many Leave calls.
  Account* Enter(const std::string& client);
  void Leave(Account* account);

  // The client consumed `cost`.
  void Charge(Account* account, absl::Duration cost);

  // Moves now() forward, never back.
  void AdvanceTo(absl::Duration time);
  // Moves now() to the latest time of any client. For moments when nobody waits for a share: no
  // debt is owed to anyone.
  void ForgiveDebts() { AdvanceTo(latest_); }

  absl::Duration now() const { return now_; }
  std::size_t accounts() const { return accounts_.size(); }

 private:
  void Forget(const Account* account);

  absl::node_hash_map<std::string, Account> accounts_;
  absl::btree_map<std::pair<absl::Duration, std::uint64_t>, Account*> parked_;  // by time
  std::uint64_t next_id_ = 0;
  absl::Duration now_;
  absl::Duration latest_;
};

}  // namespace factord
