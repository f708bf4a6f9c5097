// Lane: the thread that takes batches and runs them on one Factorizer, one after the other.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/core/batch.h"
#include "server/engine/completer.h"
#include "server/engine/factorizer.h"

namespace factord {

// Starts on construction. The factorizer must outlive it and be used by no other thread.
class Lane {
 public:
  // Blocks until there is a batch; nothing means that the lane is to stop.
  using NextBatch = std::function<std::optional<Batch>()>;
  // Told of every batch that was run, before its jobs complete (a lone job at once, several on a
  // thread of their own). On the lane's thread.
  using Finished = std::function<void(Batch& batch, absl::Time started, absl::Duration elapsed,
                                      const absl::Status& status)>;
  // Takes over a batch that could not be run, after Finished. On the lane's thread, which takes no
  // more batches once the factorizer is not healthy.
  using Failed = std::function<void(Batch batch, const absl::Status& status)>;

  // `name` (15 characters count) is the thread's, for debuggers and top. `finished` may be null;
  // where `failed` is, a failed batch's jobs complete with the error.
  Lane(const std::string& name, Factorizer& factorizer, NextBatch next_batch, Finished finished,
       Failed failed = nullptr);
  // Waits for the thread: NextBatch must have returned nothing, or be about to.
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

 private:
  void Loop();
  void RunBatch(Batch& batch);

  Factorizer& factorizer_;
  const NextBatch next_batch_;
  const Finished finished_;
  const Failed failed_;
  Completer completer_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace factord
