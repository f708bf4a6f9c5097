#include "server/core/job.h"

namespace factord {

absl::string_view Name(MatrixCode code) {
  switch (code) {
    case MatrixCode::kNonfiniteInput:
      return "nonfinite_input";
    case MatrixCode::kResultOutOfRange:
      return "result_out_of_range";
    case MatrixCode::kRankDeficient:
      return "rank_deficient";
  }
  return "";
}

std::int64_t Job::bytes() const {
  std::int64_t per_matrix = 0;
  for (Operand operand : InputsOf(spec)) per_matrix += MatrixBytes(spec, operand);
  for (Operand operand : OutputsOf(spec)) per_matrix += MatrixBytes(spec, operand);
  return per_matrix * count;
}

void Complete(std::unique_ptr<Job> job, const absl::Status& status) {
  auto done = std::move(job->done);
  done(*job, status);
}

}  // namespace factord
