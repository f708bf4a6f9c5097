#ifndef FACTORD_CLIENT_FACTORCTL_LOAD_PLOT_H_
#define FACTORD_CLIENT_FACTORCTL_LOAD_PLOT_H_

#include <string>
#include <vector>

#include "client/factorctl/load.h"
#include "client/factorctl/sweep.h"

namespace factord::client {

// As a picture (SVG): of one run its latency at each quantile; of clients or rates latency against
// requests a second; of batches the rate of arithmetic against the batch.
std::string PlotLoad(const LoadOptions& options, const LoadResult& result);
std::string PlotSweep(const LoadOptions& options, const Sweep& sweep,
                      const std::vector<LoadResult>& runs);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_FACTORCTL_LOAD_PLOT_H_
