// WarmUp: what lanes run once before they take requests, so that the first ones do not pay for it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/batching/batcher_options.h"
#include "server/core/byte_budget.h"
#include "server/core/spec.h"
#include "server/core/types.h"
#include "server/engine/factorizer.h"
#include "server/warm_up_shapes.h"

namespace factord {

// Each lane runs one batch of each shape that is routed to its backend: geqrf, and Q formed; as
// many matrices as the shape has, or as a batch may. What can't be run is logged, and no reason not
// to serve. Thread-safe.
class WarmUp {
 public:
  // Where so many such matrices would go.
  using RouteOf = std::function<Backend(const Spec& spec, std::int64_t count)>;

  WarmUp(std::vector<WarmUpShape> shapes, RouteOf route, const BatcherOptions& limits,
         std::shared_ptr<ByteBudget> budget);

  // On a lane's thread: waits for Begin, then runs until all is done or cancelled.
  void Run(Backend backend, Factorizer& factorizer);

  void Begin() { Become(State::kBegun); }
  // Nothing more is begun; a batch that runs ends by itself. Final.
  void Cancel() { Become(State::kCancelled); }

  // Some lane is in Run.
  bool running() const;

 private:
  enum class State { kWaiting, kBegun, kCancelled };

  void Become(State state);
  bool WaitForBegin();
  bool cancelled() const;
  void RunShape(const WarmUpShape& shape, Backend backend, Factorizer& factorizer);
  std::int64_t CountOf(const WarmUpShape& shape, const Spec& spec, Backend backend) const;

  const std::vector<WarmUpShape> shapes_;
  const RouteOf route_;
  const BatcherOptions limits_;
  const std::shared_ptr<ByteBudget> budget_;

  mutable absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kWaiting;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace factord
