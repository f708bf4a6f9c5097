#ifndef FACTORD_CLIENT_FACTORCTL_LOAD_REPORT_H_
#define FACTORD_CLIENT_FACTORCTL_LOAD_REPORT_H_

#include <string>
#include <vector>

#include "client/factorctl/load.h"
#include "client/factorctl/sweep.h"

namespace factord::client {

// A load run's result as a table for people, and as JSON.
std::string FormatLoad(const LoadOptions& options, const LoadResult& result);
std::string LoadToJson(const LoadOptions& options, const LoadResult& result);

// The same for a series of runs; runs[i] is that with sweep.values[i].
std::string FormatSweep(const LoadOptions& options, const Sweep& sweep,
                        const std::vector<LoadResult>& runs);
std::string SweepToJson(const LoadOptions& options, const Sweep& sweep,
                        const std::vector<LoadResult>& runs);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_FACTORCTL_LOAD_REPORT_H_
