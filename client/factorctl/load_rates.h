#ifndef FACTORD_CLIENT_FACTORCTL_LOAD_RATES_H_
#define FACTORD_CLIENT_FACTORCTL_LOAD_RATES_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/factorctl/load.h"

namespace factord::client {

inline constexpr struct {
  absl::string_view name;
  double quantile;
} kReportedQuantiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}};

// What reports and plots of a load run are made from. All zero but `failed` where nothing
// succeeded.
struct LoadRates {
  double requests_per_second = 0;
  double matrices_per_second = 0;
  double gflops = 0;
  double sent_mb_per_second = 0;
  double received_mb_per_second = 0;
  int64_t failed = 0;
  double mean_batch_matrices = 0;
  absl::Duration mean_queue;
  absl::Duration mean_compute;
};

LoadRates ComputeRates(const LoadResult& result);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_FACTORCTL_LOAD_RATES_H_
