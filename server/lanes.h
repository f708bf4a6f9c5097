// Lanes: the threads that run batches, and what becomes of work whose device fails.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/batching/dispatcher.h"
#include "server/core/batch.h"
#include "server/core/cost_model.h"
#include "server/core/types.h"
#include "server/engine/factorizer.h"
#include "server/engine/gpus.h"
#include "server/engine/lane.h"
#include "server/metrics/metrics.h"

namespace factord {

// One lane for the CPU: a batch has all cores, so a second one beside it would only take turns with
// it. One for each factorizer of each GPU.
//
// A batch that a GPU can't run goes back to the dispatcher, which has it run on the CPU. A lane
// whose factorizer is not healthy any more has ended; with the last one the dispatcher loses the
// GPU. All that is passed in must outlive this, and the dispatcher be stopped before it is
// destroyed.
class Lanes {
 public:
  // By backend.
  using Costs = std::array<CostModel, kBackends>;
  // Called on each lane's thread before its first batch.
  using WarmUpLane = std::function<void(Backend backend, Factorizer& factorizer)>;

  // `warm_up` may be null.
  Lanes(Factorizer& cpu, const std::vector<Gpu>& gpus, Dispatcher& dispatcher, Costs& costs,
        Metrics& metrics, WarmUpLane warm_up = nullptr);
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  // Some lane of some GPU takes batches. Thread-safe.
  bool gpu_healthy() const { return gpu_lanes_ > 0; }

 private:
  // `device`: as in Metrics.
  void Add(const std::string& name, Backend backend, std::size_t device, Factorizer& factorizer);
  std::optional<Batch> NextBatch(Backend backend, std::size_t device, Factorizer& factorizer,
                                 bool first);
  void CountOut(std::size_t device);
  void Finished(Backend backend, std::size_t device, const Batch& batch, absl::Duration elapsed,
                const absl::Status& status);
  void Failed(std::size_t device, const Factorizer& factorizer, Batch batch,
              const absl::Status& status);

  Dispatcher& dispatcher_;
  Costs& costs_;
  Metrics& metrics_;
  const WarmUpLane warm_up_;
  std::atomic<int> gpu_lanes_;                // that take batches
  std::vector<std::unique_ptr<Lane>> lanes_;  // last: they use all of the above
};

}  // namespace factord
