// RequestLog: one line for each request that ended.
#pragma once

#include "absl/time/time.h"
#include "server/logging/line_limiter.h"
#include "server/rpc/request_record.h"
#include "server/rpc/stream_registry.h"

namespace factord {

// What succeeded, or was given up by its client, is for level debug. What was refused or went wrong
// is for everyone, but a flood of it is not: of each code 10 lines in 10 seconds, then their
// number. At level debug all lines are written. Thread-safe.
class RequestLog : public Ticking {
 public:
  RequestLog();

  void Ended(const RequestRecord& record, int grpc_code, absl::Duration total);

  // Says how many lines were left out in the windows that are over.
  void Tick(absl::Time now) override;

 private:
  LineLimiter limiter_;
};

}  // namespace factord
