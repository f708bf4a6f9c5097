#include "server/batching/fair_clock.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace factord {
namespace {

using absl::Milliseconds;

// Enters, consumes `cost`, leaves; returns the client's time after that.
absl::Duration Visit(FairClock& clock, const std::string& client, absl::Duration cost) {
  FairClock::Account* account = clock.Enter(client);
  clock.Charge(account, cost);
  const absl::Duration time = account->time;
  clock.Leave(account);
  return time;
}

TEST(FairClock, LeavingPaysNoDebt) {
  FairClock clock;
  Visit(clock, "a", Milliseconds(50));

  EXPECT_EQ(clock.Enter("a")->time, Milliseconds(50));
  EXPECT_EQ(clock.Enter("b")->time, absl::ZeroDuration());
}

TEST(FairClock, AbsenceEarnsNoCredit) {
  FairClock clock;
  Visit(clock, "a", Milliseconds(50));

  clock.AdvanceTo(Milliseconds(80));

  EXPECT_EQ(clock.accounts(), 0u);
  EXPECT_EQ(clock.Enter("a")->time, Milliseconds(80));
}

TEST(FairClock, NeverGoesBack) {
  FairClock clock;
  clock.AdvanceTo(Milliseconds(80));
  clock.AdvanceTo(Milliseconds(30));
  EXPECT_EQ(clock.now(), Milliseconds(80));
}

TEST(FairClock, ForgivingPutsEveryoneOnAPar) {
  FairClock clock;
  Visit(clock, "a", Milliseconds(50));
  Visit(clock, "b", Milliseconds(20));

  clock.ForgiveDebts();

  EXPECT_EQ(clock.accounts(), 0u);
  EXPECT_EQ(clock.Enter("a")->time, clock.Enter("b")->time);
}

TEST(FairClock, RemembersABoundedNumberAndTheLargestDebtsLongest) {
  FairClock clock;
  for (int i = 1; i <= 10'000; ++i) Visit(clock, absl::StrCat(i), Milliseconds(i));

  EXPECT_EQ(clock.accounts(), FairClock::kMaxParked);
  EXPECT_EQ(clock.Enter("10000")->time, Milliseconds(10'000));
  EXPECT_EQ(clock.Enter("1")->time, absl::ZeroDuration());
}

}  // namespace
}  // namespace factord
