#include "client/factorctl/load_rates.h"

namespace factord::client {

LoadRates ComputeRates(const LoadResult& result) {
  LoadRates rates;
  for (const auto& [code, count] : result.errors) rates.failed += count;
  const double seconds = absl::ToDoubleSeconds(result.elapsed);
  if (result.succeeded == 0 || seconds <= 0) return rates;
  const double succeeded = static_cast<double>(result.succeeded);
  rates.requests_per_second = succeeded / seconds;
  rates.matrices_per_second = static_cast<double>(result.matrices) / seconds;
  rates.gflops = result.flops / seconds * 1e-9;
  rates.sent_mb_per_second = result.sent_bytes / seconds * 1e-6;
  rates.received_mb_per_second = result.received_bytes / seconds * 1e-6;
  rates.mean_batch_matrices = result.batch_matrices / succeeded;
  rates.mean_queue = result.queue / succeeded;
  rates.mean_compute = result.compute / succeeded;
  return rates;
}

}  // namespace factord::client
