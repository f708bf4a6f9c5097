#include "server/rpc/request_record.h"

namespace factord {

void RequestRecord::Decoded(const DecodedRequest& request) {
  tensors = request.items.size();
  if (request.items.empty()) return;
  spec = request.items.front().spec;
  matrices = request.items.front().count;
}

void RequestRecord::Ran(const Outcome& outcome) {
  const v1::RunReport& report = outcome.report;
  jobs = report.jobs();
  runs = outcome.runs;
  if (report.batch_matrices() == 0) return;  // no job got that far
  times = StageTimes{.queue = absl::Nanoseconds(report.queue_ns()),
                     .pack = absl::Nanoseconds(report.pack_ns()),
                     .compute = absl::Nanoseconds(report.compute_ns()),
                     .unpack = absl::Nanoseconds(report.unpack_ns()),
                     .run = absl::Nanoseconds(report.run_ns())};
  backend = report.backend() == v1::BACKEND_GPU ? Backend::kGpu : Backend::kCpu;
}

void RequestRecord::Encoded(absl::Time start, absl::Time end) {
  encode += end - start;
  if (traced && encodings.size() < kMaxRuns) encodings.push_back({start, end});
}

}  // namespace factord
