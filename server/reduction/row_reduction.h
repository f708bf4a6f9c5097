// RowReduction: R of a matrix whose rows come one after another, and least squares over them.
//
// Rows are gathered into blocks of a fixed height; each becomes a triangle; kFanIn triangles,
// stacked, become one again, and so on:
//   A = (A_1 ; A_2 ; ...),  A_i = Q_i R_i,  (R_1 ; ... ; R_8) = Q R,  ...
// Who is stacked with whom is decided by position alone, so that R's bits are those of the order of
// the rows, whatever is finished first. (Demmel, Grigori, Hoemmen, Langou: Communication-optimal
// parallel and sequential QR and LU factorizations, 2012: TSQR.)
//
// Every factorization is a Job of its own, which the caller sends on its way; this class knows no
// thread, no queue and no wire.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/core/byte_budget.h"
#include "server/core/job.h"
#include "server/metrics/metrics.h"
#include "server/reduction/allowance.h"
#include "server/reduction/reduction_options.h"
#include "server/reduction/triangle_solve.h"

namespace factord {

struct RowSpan {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const RowSpan&) const = default;
};

// What is left at the end. Matrices are row-major, in the memory of the reduction that made them.
struct Reduced {
  std::int64_t rows = 0;
  std::int64_t r_rows = 0;       // min(rows, n + nrhs)
  const std::byte* r = nullptr;  // r_rows x (n + nrhs)
  SolutionMemory solution;       // with `solve`
  std::int64_t rank = 0;         // likewise; -1 where R is not finite
  std::optional<MatrixCode> code;
  std::vector<RowSpan> nonfinite;  // ascending, at most kMaxNonfinite
};
inline constexpr std::size_t kMaxNonfinite = 1024;

// Append, AppendReduced and Finish are called by one thread at a time; jobs end on any thread.
// Jobs hold a reference.
//
// Memory: constant but for kFanIn n^2 elements a level of the tree, and for messages that bring
// more blocks than BlocksInMemory; taken from the budget first.
class RowReduction : public std::enable_shared_from_this<RowReduction> {
 public:
  // Takes a job, or says why not: then its `done` is not called. Called under the lock of this
  // class: must not call back.
  using Submit = std::function<absl::Status(std::unique_ptr<Job>)>;
  // A job has ended: there may be room, progress, an error, or the result. Called without locks.
  using Changed = std::function<void()>;

  // UNAVAILABLE where the budget is full, RESOURCE_EXHAUSTED where it is too small for any such
  // stream. `metrics` may be null.
  static absl::StatusOr<std::shared_ptr<RowReduction>> Create(const ReductionOptions& options,
                                                              std::shared_ptr<ByteBudget> budget,
                                                              std::shared_ptr<Metrics> metrics,
                                                              Submit submit, Changed changed);

  // The spec of a whole block, for those who want to know what the stream is made of.
  static Spec BlockSpec(const ReductionOptions& options);

  // More of the matrix: any number of bytes. An error (no memory, no place in the queue, or what a
  // job ended with) is the end.
  absl::Status Append(std::span<const std::byte> data);

  // A triangle that stands for `rows` rows: min(rows, n + nrhs) x (n + nrhs) elements, which
  // `copy_to` writes. INVALID_ARGUMENT where the row before it is not whole, or rows pass 2^63.
  absl::Status AppendReduced(std::int64_t rows, absl::FunctionRef<void(std::byte*)> copy_to);

  // There are no more rows. INVALID_ARGUMENT where the last one is not whole.
  absl::Status Finish();

  // Whether more should be read: blocks that are not reduced yet take memory.
  bool has_room() const;
  std::int64_t rows_reduced() const;
  // What the stream failed with, if it did: the first error of a job, or of sending one.
  absl::Status status() const;
  // The result, once it is there. Constant then, as long as this lives.
  const Reduced* result() const;

 private:
  // A matrix to be factorized: a block of rows, or triangles stacked.
  struct Node {
    Allowance::Memory memory;      // filled x columns
    std::int64_t filled = 0;       // rows of it
    RowSpan span;                  // the rows of the stream that it stands for
    int children = 0;              // 0: a block
    int pending = 0;               // children whose R is not here yet
    bool closed = false;           // nothing more comes
    std::shared_ptr<Node> parent;  // null: R is the result
    std::byte* out = nullptr;      // where R goes
  };
  using NodePtr = std::shared_ptr<Node>;

  RowReduction(const ReductionOptions& options, std::shared_ptr<Allowance> allowance, Submit submit,
               Changed changed);

  absl::StatusOr<NodePtr> NewBlock(std::int64_t rows);
  absl::Status CloseBlock();
  std::int64_t ResultBytes(std::int64_t rows) const;
  absl::Status TakeResultMemory() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives a node its place at a level of the tree.
  absl::Status Place(const NodePtr& node, std::size_t level) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Adopt(const NodePtr& child, const NodePtr& parent) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CloseTree() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Factorizes it if all of it is here.
  void RunIfComplete(const NodePtr& node) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run(std::unique_ptr<Job> job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnFactorized(const NodePtr& node, const Job& job, const absl::Status& status);
  void Note(const Node& node, const Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnTriangle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnSolved(const Job& job, const absl::Status& status);
  void Complete() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ReductionOptions options_;
  const std::shared_ptr<Allowance> allowance_;
  const Submit submit_;
  const Changed changed_;

  // The appending thread's.
  NodePtr block_;                 // being filled
  std::int64_t block_bytes_ = 0;  // of it
  std::int64_t rows_ = 0;         // begun, the one that is not whole included

  mutable absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::vector<NodePtr> open_
      ABSL_GUARDED_BY(mutex_);                       // of each level, the node that takes children
  std::int64_t blocks_ ABSL_GUARDED_BY(mutex_) = 0;  // in memory
  std::int64_t rows_reduced_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::int64_t, std::int64_t> nonfinite_ ABSL_GUARDED_BY(mutex_);  // count by first row
  bool out_of_range_ ABSL_GUARDED_BY(mutex_) = false;
  bool rank_deficient_ ABSL_GUARDED_BY(mutex_) = false;
  Allowance::Memory result_memory_ ABSL_GUARDED_BY(mutex_);
  Allowance::Memory scratch_ ABSL_GUARDED_BY(mutex_);  // of the solve
  std::optional<TriangleSolve> solve_ ABSL_GUARDED_BY(mutex_);
  Reduced result_ ABSL_GUARDED_BY(mutex_);
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace factord
