#include "server/rpc/run_report.h"

#include <string>

#include "absl/time/time.h"

namespace factord {
namespace {

using SetField = void (v1::RunReport::*)(std::int64_t);

void KeepLargest(std::int64_t value, std::int64_t largest, v1::RunReport& report, SetField set) {
  if (value > largest) (report.*set)(value);
}

}  // namespace

void AddJob(const Job& job, bool traced, Outcome& outcome) {
  v1::RunReport& report = outcome.report;
  report.set_failed_matrices(report.failed_matrices() +
                             static_cast<std::int64_t>(job.failures.size()));
  using R = v1::RunReport;
  report.set_backend(ToProto(job.backend));
  report.set_path(std::string(job.path));
  KeepLargest(job.batch_matrices, report.batch_matrices(), report, &R::set_batch_matrices);
  KeepLargest(absl::ToInt64Nanoseconds(job.times.queue), report.queue_ns(), report,
              &R::set_queue_ns);
  KeepLargest(absl::ToInt64Nanoseconds(job.times.pack), report.pack_ns(), report, &R::set_pack_ns);
  KeepLargest(absl::ToInt64Nanoseconds(job.times.compute), report.compute_ns(), report,
              &R::set_compute_ns);
  KeepLargest(absl::ToInt64Nanoseconds(job.times.unpack), report.unpack_ns(), report,
              &R::set_unpack_ns);
  KeepLargest(absl::ToInt64Nanoseconds(job.times.run), report.run_ns(), report, &R::set_run_ns);
  if (traced && outcome.runs.size() < kMaxRuns) {
    outcome.runs.push_back({.queued = job.queued,
                            .times = job.times,
                            .matrices = job.count,
                            .batch_matrices = job.batch_matrices,
                            .backend = job.backend,
                            .path = job.path});
  }
}

}  // namespace factord
