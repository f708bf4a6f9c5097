// Tuner: measures what a routing table holds.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/engine/factorizer.h"
#include "server/engine/routing_table.h"

namespace factord {

// Rows without times: every operation, real types, squares from 4 to 4096, tall and wide shapes,
// counts from 1 to 32768 as far as a batch stays below 32 MiB. A coarse grid comes first, then what
// is between; each by ascending work.
std::vector<RoutingRow> TuneGrid();

struct TuneOptions {
  absl::Duration budget = absl::Seconds(180);
  // Told before each row is measured how much is done, 0 to 1. May be null.
  std::function<void(double done, const RoutingRow& row)> progress;
  std::function<absl::Time()> clock = absl::Now;
};

// The grid's rows with the median time of up to 5 batches on each engine, each batch of fresh
// random matrices in host memory. `gpu` may be null. A row that would take more than a fiftieth of
// the budget, going by those before it, is left out, and so is all that the budget does not reach.
// An error is an engine's.
absl::StatusOr<std::vector<RoutingRow>> Tune(Factorizer& cpu, Factorizer* gpu,
                                             std::span<const RoutingRow> grid,
                                             const TuneOptions& options);

}  // namespace factord
