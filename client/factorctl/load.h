#ifndef FACTORD_CLIENT_FACTORCTL_LOAD_H_
#define FACTORD_CLIENT_FACTORCTL_LOAD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/factorctl/shapes.h"
#include "client/factord_client.h"
#include "client/latency_histogram.h"

namespace factord::client {

// One run of the load generator.
struct LoadOptions {
  ClientOptions client;
  std::vector<Dims> shapes;  // each request is one tensor of one of these, chosen at random
  v1::DType dtype = v1::DTYPE_F32;
  v1::QrOptions qr;
  v1::RunOptions run;

  int clients = 8;            // threads, each with one request at a time
  bool own_channels = false;  // a connection for each thread; else one for all
  double rate = 0;  // requests a second, open loop; 0: closed loop, each thread as fast as it can
  absl::Duration warmup = absl::Seconds(2);  // requests meant to start before this are not counted
  absl::Duration duration =
      absl::Seconds(10);  // after the warm-up; may be infinite if `requests` is set
  int64_t requests = 0;   // ends the run after that many counted requests; 0: no limit
  uint64_t seed = 1;      // of matrices, arrivals and the mix of shapes
};

// What became of the requests that were meant to start after the warm-up.
struct LoadResult {
  // Of the requests that succeeded. In an open loop it runs from the intended start, so that a
  // stalled server is charged for the requests that could not be sent meanwhile (no coordinated
  // omission).
  LatencyHistogram latency;
  absl::Duration elapsed;  // from the warm-up's end to the last reply
  int64_t succeeded = 0;
  std::map<absl::StatusCode, int64_t> errors;
  absl::Status last_error;
  // Open loop: arrivals that no thread had time for before the run was given up, one timeout after
  // its planned end.
  int64_t unsent = 0;
  int64_t matrices = 0;
  int64_t matrices_not_ok = 0;
  double flops = 0;
  double sent_bytes = 0;
  double received_bytes = 0;
  // Sums over the succeeded requests' RunReports.
  double batch_matrices = 0;
  absl::Duration queue;
  absl::Duration compute;

  void Merge(const LoadResult& other);
};

// Runs the load and blocks until it is over. Inputs are made before the clock starts. `progress` is
// told now and then how far the run is, in milliseconds or requests; never from two threads at
// once. Errors of single requests are counted, not returned.
absl::StatusOr<LoadResult> RunLoad(
    const LoadOptions& options, const std::function<void(int64_t done, int64_t total)>& progress);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_FACTORCTL_LOAD_H_
