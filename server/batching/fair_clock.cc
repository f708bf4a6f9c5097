#include "server/batching/fair_clock.h"

#include <algorithm>

namespace factord {

FairClock::Account* FairClock::Enter(const std::string& client) {
  auto [it, inserted] = accounts_.try_emplace(client);
  Account& account = it->second;
  if (inserted) {
    account.client = &it->first;
    account.id = next_id_++;
  } else if (account.queued == 0) {
    parked_.erase({account.time, account.id});
  }
  if (account.queued++ == 0) account.time = std::max(account.time, now_);
  return &account;
}

void FairClock::Leave(Account* account) {
  if (--account->queued > 0) return;
  if (account->time <= now_) {
    Forget(account);
    return;
  }
  parked_.emplace(std::pair(account->time, account->id), account);
  if (parked_.size() > kMaxParked) {
    Forget(parked_.begin()->second);
    parked_.erase(parked_.begin());
  }
}

void FairClock::Forget(const Account* account) {
  accounts_.erase(accounts_.find(*account->client));
}

void FairClock::Charge(Account* account, absl::Duration cost) {
  account->time += cost;
  latest_ = std::max(latest_, account->time);
}

void FairClock::AdvanceTo(absl::Duration time) {
  now_ = std::max(now_, time);
  while (!parked_.empty() && parked_.begin()->first.first <= now_) {
    Forget(parked_.begin()->second);
    parked_.erase(parked_.begin());
  }
}

}  // namespace factord
