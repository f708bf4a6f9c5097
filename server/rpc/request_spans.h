// The spans of a request that ended.
#pragma once

#include <vector>

#include "absl/time/time.h"
#include "server/rpc/request_record.h"
#include "server/trace/span.h"

namespace factord {

// The request's own and, below it, decode; queue and run of each of its first jobs; encode. pack,
// compute and unpack, which are sums over threads and no intervals, are attributes of run.
std::vector<Span> SpansOf(const RequestRecord& record, int grpc_code, absl::Time end);

}  // namespace factord
