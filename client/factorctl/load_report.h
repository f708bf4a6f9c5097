#ifndef FACTORD_CLIENT_FACTORCTL_LOAD_REPORT_H_
#define FACTORD_CLIENT_FACTORCTL_LOAD_REPORT_H_

#include <string>

#include "client/factorctl/load.h"

namespace factord::client {

// A load run's result as a table for people, and as JSON.
std::string FormatLoad(const LoadOptions& options, const LoadResult& result);
std::string LoadToJson(const LoadOptions& options, const LoadResult& result);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_FACTORCTL_LOAD_REPORT_H_
