#ifndef FACTORD_CLIENT_FACTORCTL_ARRIVALS_H_
#define FACTORD_CLIENT_FACTORCTL_ARRIVALS_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"

namespace factord::client {

// The intended starts of an open loop's requests, counted from the run's start, in order: a Poisson
// process of `rate` arrivals a second up to `end`, at most `max_count` of them at or after `warmup`
// (0: no limit). The same seed gives the same times.
std::vector<absl::Duration> PoissonArrivals(double rate, absl::Duration warmup, absl::Duration end,
                                            int64_t max_count, uint64_t seed);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_FACTORCTL_ARRIVALS_H_
