// Job: a run of consecutive matrices of one tensor of one request, the unit that waits, is batched
// and completes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/core/spec.h"

namespace factord {

enum class Priority : std::uint8_t { kNormal, kLow };

enum class MatrixCode : std::uint8_t { kNonfiniteInput, kResultOutOfRange, kRankDeficient };
inline constexpr int kMatrixCodes = 3;
absl::string_view Name(MatrixCode code);

// A matrix that is not plainly OK.
struct MatrixFailure {
  std::int64_t index = 0;  // in its tensor
  MatrixCode code = MatrixCode::kNonfiniteInput;
  bool operator==(const MatrixFailure&) const = default;
};

// Where a job's time went. pack, compute and unpack are summed over the threads that worked on it;
// queue and run are wall times. An engine that reads inputs and writes results in place has it all
// in compute.
struct StageTimes {
  absl::Duration queue, pack, compute, unpack, run;
};

// Ownership: moves from the service to the batcher to a lane. Whoever ends it calls Complete, once.
// Not thread-safe. The memory behind `operands` belongs to the request and outlives the job.
struct Job {
  // What to compute.
  Spec spec;
  std::size_t item = 0;    // which entry of its request it is part of; for the request's own use
  std::int64_t first = 0;  // index in its tensor of this job's first matrix
  std::int64_t count = 0;  // matrices
  std::array<std::byte*, kOperands> operands{};  // of the first matrix; the others follow densely

  // When to compute it.
  std::string client;  // the fairness key
  Priority priority = Priority::kNormal;
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<const std::atomic<bool>> cancelled;  // may be null
  absl::Duration predicted;                            // of this job alone
  bool predicted_measured = false;  // predicted from runs on this machine, not from a default
  absl::Time queued;                // set on Add

  // Where to compute it.
  Backend route = Backend::kCpu;
  bool pinned = false;  // there or nowhere: the client asked for the backend, or reproducible bits

  // What came of it.
  std::vector<MatrixFailure> failures;  // by ascending index
  StageTimes times;
  Backend backend = Backend::kCpu;
  std::string_view path;            // static storage
  std::int64_t batch_matrices = 0;  // of the batch it ran in

  absl::AnyInvocable<void(Job&, const absl::Status&)> done;

  std::byte* at(Operand operand) const { return operands[static_cast<std::size_t>(operand)]; }
  // The operand of matrix `i` of this job, 0 <= i < count.
  template <typename T>
  T* matrix(Operand operand, std::int64_t i) const {
    return reinterpret_cast<T*>(at(operand) + i * MatrixBytes(spec, operand));
  }
  // Of all inputs and outputs.
  std::int64_t bytes() const;
  bool is_cancelled() const { return cancelled && cancelled->load(std::memory_order_relaxed); }
};

// Ends the job: calls `done` with the result. Every job that was ever added anywhere is completed
// exactly once.
void Complete(std::unique_ptr<Job> job, const absl::Status& status);

}  // namespace factord
