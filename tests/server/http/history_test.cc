#include "server/http/history.h"

#include "gtest/gtest.h"

namespace factord {
namespace {

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1);

MetricsSnapshot At(absl::Duration after) {
  MetricsSnapshot snapshot;
  snapshot.taken = kStart + after;
  return snapshot;
}

TEST(History, KeepsTwoMinutes) {
  History history;
  for (int i = 0; i < 200; ++i) history.Add(At(i * History::kStep));
  EXPECT_EQ(history.samples().size(), History::kKept);
  EXPECT_EQ(history.samples().back().taken, kStart + 199 * History::kStep);
  EXPECT_EQ(history.samples().back().taken - history.samples().front().taken, absl::Minutes(2));
}

TEST(History, ComparesWithAMinuteAgo_OrTheStart) {
  History history;
  EXPECT_EQ(history.Before(kStart), nullptr);
  for (int i = 0; i < 50; ++i) history.Add(At(i * History::kStep));
  EXPECT_EQ(history.Before(kStart + absl::Seconds(99))->taken, kStart + absl::Seconds(38));
  EXPECT_EQ(history.Before(kStart + absl::Seconds(98))->taken, kStart + absl::Seconds(38));
  EXPECT_EQ(history.Before(kStart + absl::Seconds(30))->taken, kStart);
}

}  // namespace
}  // namespace factord
