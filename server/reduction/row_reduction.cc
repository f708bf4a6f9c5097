#include "server/reduction/row_reduction.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/core/errors.h"
#include "server/core/slab.h"
#include "server/core/status_macros.h"
#include "server/reduction/block_shape.h"

namespace factord {
namespace {

// Levels of the tree whose memory is reserved at the start: enough for 8^3 blocks.
constexpr std::int64_t kReservedLevels = 3;

// A level has one node that takes children and may have one that waits for them.
constexpr std::int64_t kNodesPerLevel = 2;

std::int64_t BlockBytes(const ReductionOptions& options) {
  return options.rows_of_block() * options.row_bytes();
}

std::int64_t StackBytes(const ReductionOptions& options) {
  return kFanIn * options.columns() * options.row_bytes();
}

Spec FactorizeSpec(const ReductionOptions& options, std::int64_t m) {
  return {.op = Op::kFactorize,
          .dtype = options.dtype,
          .m = m,
          .n = options.columns(),
          .r = true,
          .fast = options.fast};
}

void FillWithNan(DType dtype, std::int64_t count, std::byte* memory) {
  Visit(dtype, [&](auto zero) {
    using T = decltype(zero);
    std::fill_n(reinterpret_cast<T*>(memory), count, T(std::numeric_limits<double>::quiet_NaN()));
  });
}

// "5 of 24 bytes of row 17"
std::string PartOfRow(std::int64_t bytes, std::int64_t row_bytes, std::int64_t row) {
  return absl::StrCat(bytes, " of ", row_bytes, " bytes of row ", row);
}

}  // namespace

RowReduction::RowReduction(const ReductionOptions& options, std::shared_ptr<Allowance> allowance,
                           Submit submit, Changed changed)
    : options_(options),
      allowance_(std::move(allowance)),
      submit_(std::move(submit)),
      changed_(std::move(changed)) {}

absl::StatusOr<std::shared_ptr<RowReduction>> RowReduction::Create(
    const ReductionOptions& options, std::shared_ptr<ByteBudget> budget,
    std::shared_ptr<Metrics> metrics, Submit submit, Changed changed) {
  std::int64_t bytes = BlocksInMemory(options.dtype, options.columns()) * BlockBytes(options) +
                       kReservedLevels * kNodesPerLevel * StackBytes(options);
  bytes += options.columns() * options.row_bytes();
  if (options.solve) {
    bytes += 2 * TriangleSolve::MaxScratchBytes(options);  // the results are less than the scratch
  }
  ASSIGN_OR_RETURN(std::shared_ptr<Allowance> allowance,
                   Allowance::Create(std::move(budget), std::move(metrics), bytes));
  return std::shared_ptr<RowReduction>(
      new RowReduction(options, std::move(allowance), std::move(submit), std::move(changed)));
}

Spec RowReduction::BlockSpec(const ReductionOptions& options) {
  return FactorizeSpec(options, options.rows_of_block());
}

// ---- rows

absl::StatusOr<RowReduction::NodePtr> RowReduction::NewBlock(std::int64_t rows) {
  auto block = std::make_shared<Node>();
  ASSIGN_OR_RETURN(block->memory, allowance_->Take(rows * options_.row_bytes()));
  block->span.first = rows_;
  absl::MutexLock lock(&mutex_);
  ++blocks_;
  return block;
}

absl::Status RowReduction::Append(std::span<const std::byte> data) {
  const std::int64_t whole = BlockBytes(options_);
  while (!data.empty()) {
    if (!block_) {
      ASSIGN_OR_RETURN(block_, NewBlock(whole / options_.row_bytes()));
    }
    const auto size = std::min(static_cast<std::size_t>(whole - block_bytes_), data.size());
    std::memcpy(block_->memory.data() + block_bytes_, data.data(), size);
    block_bytes_ += static_cast<std::int64_t>(size);
    data = data.subspan(size);
    if (block_bytes_ == whole) RETURN_IF_ERROR(CloseBlock());
  }
  return absl::OkStatus();
}

absl::Status RowReduction::CloseBlock() {
  if (!block_) return absl::OkStatus();
  const NodePtr block = std::exchange(block_, nullptr);
  block->filled = std::exchange(block_bytes_, 0) / options_.row_bytes();
  block->span.count = block->filled;
  block->closed = true;
  rows_ += block->filled;
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(Place(block, 0));
  RunIfComplete(block);
  return status_;
}

absl::Status RowReduction::AppendReduced(std::int64_t rows,
                                         absl::FunctionRef<void(std::byte*)> copy_to) {
  if (const std::int64_t part = block_bytes_ % options_.row_bytes(); part != 0) {
    const std::int64_t row = rows_ + block_bytes_ / options_.row_bytes();
    return InvalidField("reduced",
                        absl::StrCat("came after ", PartOfRow(part, options_.row_bytes(), row),
                                     "; the rows before it must be whole"));
  }
  RETURN_IF_ERROR(CloseBlock());
  if (rows > std::numeric_limits<std::int64_t>::max() - rows_) {
    return InvalidField("reduced.rows",
                        absl::StrCat("is ", rows, " after ", rows_, " rows; together over 2^63-1"));
  }
  if (rows == 0) return absl::OkStatus();
  const std::int64_t filled = std::min(rows, options_.columns());
  ASSIGN_OR_RETURN(const NodePtr block, NewBlock(filled));
  copy_to(block->memory.data());
  block->filled = filled;
  block->span.count = rows;
  block->closed = true;
  rows_ += rows;
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(Place(block, 0));
  RunIfComplete(block);
  return status_;
}

absl::Status RowReduction::Finish() {
  if (const std::int64_t part = block_bytes_ % options_.row_bytes(); part != 0) {
    const std::int64_t row = rows_ + block_bytes_ / options_.row_bytes();
    return InvalidField("rows", absl::StrCat("the stream ended after ",
                                             PartOfRow(part, options_.row_bytes(), row)));
  }
  RETURN_IF_ERROR(CloseBlock());
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(TakeResultMemory());
  CloseTree();
  return status_;
}

std::int64_t RowReduction::ResultBytes(std::int64_t rows) const {
  std::int64_t bytes = AlignedBytes(std::min(rows, options_.columns()) * options_.row_bytes());
  if (!options_.solve) return bytes;
  const std::int64_t real = SizeOf(RealOf(options_.dtype));
  bytes += AlignedBytes(options_.n * options_.nrhs * SizeOf(options_.dtype));
  bytes += AlignedBytes(options_.nrhs * real);
  if (options_.standard_errors) bytes += AlignedBytes(options_.n * options_.nrhs * real);
  return bytes;
}

absl::Status RowReduction::TakeResultMemory() {
  ASSIGN_OR_RETURN(result_memory_, allowance_->Take(ResultBytes(rows_)));
  std::byte* at = result_memory_.data();
  result_.rows = rows_;
  result_.r_rows = std::min(rows_, options_.columns());
  result_.r = at;
  if (!options_.solve) return absl::OkStatus();
  at += AlignedBytes(result_.r_rows * options_.row_bytes());
  result_.solution.x = at;
  at += AlignedBytes(options_.n * options_.nrhs * SizeOf(options_.dtype));
  result_.solution.residual_norm = at;
  at += AlignedBytes(options_.nrhs * SizeOf(RealOf(options_.dtype)));
  if (options_.standard_errors) result_.solution.standard_errors = at;
  solve_.emplace(options_, rows_);
  ASSIGN_OR_RETURN(scratch_, allowance_->Take(solve_->scratch_bytes()));
  return absl::OkStatus();
}

// ---- the tree

absl::Status RowReduction::Place(const NodePtr& node, std::size_t level) {
  if (open_.size() <= level) open_.resize(level + 1);
  if (!open_[level]) {
    auto stack = std::make_shared<Node>();
    ASSIGN_OR_RETURN(stack->memory, allowance_->Take(StackBytes(options_)));
    stack->span.first = node->span.first;
    open_[level] = std::move(stack);
  }
  const NodePtr parent = open_[level];
  Adopt(node, parent);
  if (parent->children < kFanIn) return absl::OkStatus();
  open_[level] = nullptr;
  parent->closed = true;
  return Place(parent, level + 1);
}

void RowReduction::Adopt(const NodePtr& child, const NodePtr& parent) {
  child->parent = parent;
  child->out = parent->memory.data() + parent->filled * options_.row_bytes();
  parent->filled += std::min(child->filled, options_.columns());
  parent->span.count += child->span.count;
  ++parent->children;
  ++parent->pending;
}

void RowReduction::CloseTree() {
  // What is left at a level is the last child of what is left above it; the uppermost is the root.
  NodePtr top;
  for (NodePtr& open : open_) {
    if (!open) continue;
    if (top) {
      Adopt(top, open);
      RunIfComplete(top);
    }
    top = std::exchange(open, nullptr);
    top->closed = true;
  }
  if (!top) return OnTriangle();  // no rows
  top->out = result_memory_.data();
  RunIfComplete(top);
}

void RowReduction::RunIfComplete(const NodePtr& node) {
  if (!node->closed || node->pending > 0) return;
  auto job = std::make_unique<Job>();
  job->spec = FactorizeSpec(options_, node->filled);
  job->count = 1;
  job->operands[static_cast<std::size_t>(Operand::kA)] = node->memory.data();
  job->operands[static_cast<std::size_t>(Operand::kR)] = node->out;
  job->done = [self = shared_from_this(), node](Job& done, const absl::Status& status) {
    self->OnFactorized(node, done, status);
  };
  Run(std::move(job));
}

void RowReduction::Run(std::unique_ptr<Job> job) {
  if (status_.ok()) status_ = submit_(std::move(job));
}

void RowReduction::OnFactorized(const NodePtr& node, const Job& job, const absl::Status& status) {
  {
    Allowance::Memory reduced;  // let go after the lock
    absl::MutexLock lock(&mutex_);
    status_.Update(status);
    if (status_.ok()) {
      Note(*node, job);
      reduced = std::move(node->memory);
      const NodePtr parent = std::exchange(node->parent, nullptr);
      if (parent == nullptr) {
        OnTriangle();
      } else {
        --parent->pending;
        RunIfComplete(parent);
      }
    }
  }
  changed_();
}

void RowReduction::Note(const Node& node, const Job& job) {
  const bool is_block = node.children == 0;
  for (const MatrixFailure& failure : job.failures) {
    out_of_range_ |= failure.code == MatrixCode::kResultOutOfRange;
    if (failure.code != MatrixCode::kNonfiniteInput || !is_block) continue;
    nonfinite_.emplace(node.span.first, node.span.count);
    if (nonfinite_.size() > kMaxNonfinite) nonfinite_.erase(std::prev(nonfinite_.end()));
  }
  if (!is_block) return;
  --blocks_;
  rows_reduced_ += node.span.count;
}

// ---- the end

void RowReduction::OnTriangle() {
  if (out_of_range_) {
    // In a tree the columns after one that overflowed can't be told from it.
    FillWithNan(options_.dtype, result_.r_rows * options_.columns(), result_memory_.data());
  }
  if (!solve_) return Complete();
  auto job = std::make_unique<Job>();
  solve_->LoadJob(result_.r, scratch_.data(), *job);
  job->done = [self = shared_from_this()](Job& done, const absl::Status& status) {
    self->OnSolved(done, status);
  };
  Run(std::move(job));
}

void RowReduction::OnSolved(const Job& job, const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    status_.Update(status);
    if (status_.ok()) {
      result_.rank = *job.matrix<std::int32_t>(Operand::kRank, 0);
      out_of_range_ |= !solve_->Store(result_.r, job, result_.solution);
      for (const MatrixFailure& failure : job.failures) {
        out_of_range_ |= failure.code == MatrixCode::kResultOutOfRange;
        rank_deficient_ |= failure.code == MatrixCode::kRankDeficient;
      }
      scratch_ = {};
      Complete();
    }
  }
  changed_();
}

void RowReduction::Complete() {
  if (rank_deficient_) result_.code = MatrixCode::kRankDeficient;
  if (out_of_range_) result_.code = MatrixCode::kResultOutOfRange;
  if (!nonfinite_.empty()) result_.code = MatrixCode::kNonfiniteInput;
  for (const auto& [first, count] : nonfinite_) result_.nonfinite.push_back({first, count});
  done_ = true;
}

bool RowReduction::has_room() const {
  absl::MutexLock lock(&mutex_);
  return 2 * blocks_ <= BlocksInMemory(options_.dtype, options_.columns()) + 1;
}

std::int64_t RowReduction::rows_reduced() const {
  absl::MutexLock lock(&mutex_);
  return rows_reduced_;
}

absl::Status RowReduction::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

const Reduced* RowReduction::result() const {
  absl::MutexLock lock(&mutex_);
  return done_ ? &result_ : nullptr;
}

}  // namespace factord
