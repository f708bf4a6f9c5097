// RequestRecord: what is remembered of one request until it ends, for its log line and its spans.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/core/job.h"
#include "server/core/request_ids.h"
#include "server/core/spec.h"
#include "server/metrics/metrics.h"
#include "server/rpc/codec.h"

namespace factord {

// A call of its own; a stream as a whole; one of a stream's requests.
enum class RecordKind : std::uint8_t { kCall, kStream, kStreamRequest };

struct Interval {
  absl::Time start;
  absl::Time end;
};

// Its call fills it in as the request goes. Not thread-safe.
struct RequestRecord {
  RecordKind kind = RecordKind::kCall;
  Rpc rpc = Rpc::kFactorize;
  RequestIds ids;
  std::string client;  // the fairness key
  absl::Time arrived;
  bool traced = false;  // its spans are asked for
  absl::Status status;  // what it ends with, if its client stays

  // Where it is valid: its first tensor, of how many; and when its matrices were all in memory.
  Spec spec;
  std::int64_t matrices = 0;
  std::size_t tensors = 0;
  std::optional<absl::Time> in_memory;

  // Where it ran: the longest that one of its jobs took for each stage, and, where it is traced,
  // its first jobs.
  std::optional<StageTimes> times;
  Backend backend = Backend::kCpu;
  std::int64_t jobs = 0;
  std::vector<JobRun> runs;

  absl::Duration encode;            // in all
  std::vector<Interval> encodings;  // where it is traced, the first ones

  void Decoded(const DecodedRequest& request);
  void Ran(const Outcome& outcome);
  void Encoded(absl::Time start, absl::Time end);
};

}  // namespace factord
