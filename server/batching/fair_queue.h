// FairQueue: the order in which jobs of one priority level go. Internal to the batcher.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "server/batching/fair_clock.h"
#include "server/batching/queued_job.h"

namespace factord {

// Urgent jobs first, earliest deadline first. Then fair over clients: whose first job would finish
// earliest on the FairClock goes first; within a client by arrival. All operations take O(log)
// amortized time.
//
// A job may be in several queues (all of its level; those of its bucket), and clients are charged
// for what leaves by any of them: so a client's place is corrected when it reaches the front. That
// is enough because times only grow.
//
// A value, movable; owns nothing; not thread-safe. A job's `urgent`, `level` and `account` must not
// change while it is in.
class FairQueue {
 public:
  bool empty() const { return urgent_.empty() && order_.empty(); }

  void Add(QueuedJob* job);
  void Remove(QueuedJob* job);

  // The next to go, null if empty.
  QueuedJob* First();

  // The time of the client whose turn it is; nullopt if no client waits for its turn.
  std::optional<absl::Duration> NextStart();

 private:
  struct Line {
    absl::btree_map<std::uint64_t, QueuedJob*> jobs;  // by arrival, never empty
    absl::Duration finish;                            // its key in order_; not later than FinishOf
  };

  static absl::Duration FinishOf(const Line& line);
  void Reorder(Line& line);
  Line* NextLine();

  absl::btree_map<std::pair<absl::Time, std::uint64_t>, QueuedJob*> urgent_;  // by deadline
  absl::flat_hash_map<FairClock::Account*, Line> lines_;
  // By finish, then by the client's appearance.
  absl::btree_map<std::pair<absl::Duration, std::uint64_t>, FairClock::Account*> order_;
};

}  // namespace factord
