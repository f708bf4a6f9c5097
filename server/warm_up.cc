#include "server/warm_up.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/core/batch.h"
#include "server/core/cost_model.h"
#include "server/core/slab.h"
#include "server/core/status_macros.h"
#include "spdlog/spdlog.h"

namespace factord {
namespace {

Spec SpecOf(const WarmUpShape& shape) {
  Spec spec;
  spec.dtype = shape.dtype;
  spec.m = shape.m;
  spec.n = shape.n;
  spec.q = QMode::kReduced;
  spec.r = true;
  return spec;
}

std::int64_t BytesOf(const Spec& spec, std::int64_t count) {
  std::int64_t bytes = 0;
  for (Operand operand : InputsOf(spec)) bytes += AlignedBytes(count * MatrixBytes(spec, operand));
  for (Operand operand : OutputsOf(spec)) bytes += AlignedBytes(count * MatrixBytes(spec, operand));
  return bytes;
}

std::string NameOf(const WarmUpShape& shape) {
  return absl::StrCat(shape.batch, "x", shape.m, "x", shape.n, ":", Name(shape.dtype));
}

// Numbers in [-1, 1) without a pattern; their values matter little.
template <typename Real>
void Fill(std::byte* memory, std::int64_t bytes) {
  auto* numbers = reinterpret_cast<Real*>(memory);
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i < bytes / static_cast<std::int64_t>(sizeof(Real)); ++i) {
    state = state * 1664525U + 1013904223U;
    numbers[i] = static_cast<Real>(static_cast<std::int32_t>(state)) / Real{2147483648};
  }
}

void FillMatrices(const Job& job) {
  const std::int64_t bytes = MatrixBytes(job.spec, Operand::kA);
  std::byte* first = job.at(Operand::kA);
  RealOf(job.spec.dtype) == DType::kF32 ? Fill<float>(first, bytes) : Fill<double>(first, bytes);
  for (std::int64_t i = 1; i < job.count; ++i) {
    std::memcpy(first + i * bytes, first, static_cast<std::size_t>(bytes));
  }
}

absl::Status RunOnce(const Spec& spec, std::int64_t count, ByteBudget& budget,
                     Factorizer& factorizer) {
  const std::int64_t bytes = BytesOf(spec, count);
  const ByteBudget::Reservation reservation = budget.TryTake(bytes);
  if (!reservation) {
    return absl::ResourceExhaustedError(
        absl::StrCat("its ", bytes, " bytes exceed what is left of the memory budget"));
  }
  ASSIGN_OR_RETURN(const Slab slab, Slab::Create(bytes));
  auto job = std::make_unique<Job>();
  job->spec = spec;
  job->count = count;
  std::byte* next = slab.data();
  const auto place = [&](std::span<const Operand> operands) {
    for (Operand operand : operands) {
      job->operands[static_cast<std::size_t>(operand)] = next;
      next += AlignedBytes(count * MatrixBytes(spec, operand));
    }
  };
  place(InputsOf(spec));
  place(OutputsOf(spec));
  FillMatrices(*job);
  Batch batch;
  batch.jobs.push_back(std::move(job));
  return factorizer.Run(batch);
}

}  // namespace

WarmUp::WarmUp(std::vector<WarmUpShape> shapes, RouteOf route, const BatcherOptions& limits,
               std::shared_ptr<ByteBudget> budget)
    : shapes_(std::move(shapes)),
      route_(std::move(route)),
      limits_(limits),
      budget_(std::move(budget)) {}

void WarmUp::Run(Backend backend, Factorizer& factorizer) {
  if (!WaitForBegin()) return;
  for (const WarmUpShape& shape : shapes_) {
    if (cancelled() || !factorizer.healthy()) break;
    if (route_(SpecOf(shape), shape.batch) == backend) RunShape(shape, backend, factorizer);
  }
  absl::MutexLock lock(&mutex_);
  --running_;
}

void WarmUp::RunShape(const WarmUpShape& shape, Backend backend, Factorizer& factorizer) {
  const absl::Time started = absl::Now();
  const Spec spec = SpecOf(shape);
  const std::int64_t count = CountOf(shape, spec, backend);
  const absl::Status status = RunOnce(spec, count, *budget_, factorizer);
  if (!status.ok()) {
    spdlog::warn("warm-up of {} on the {} failed: {}", NameOf(shape), std::string(Name(backend)),
                 std::string(status.message()));
    return;
  }
  spdlog::info("warm-up of {} on the {}: {} matrices took {}", NameOf(shape),
               std::string(Name(backend)), count, absl::FormatDuration(absl::Now() - started));
}

// As many as one batch of requests may have.
std::int64_t WarmUp::CountOf(const WarmUpShape& shape, const Spec& spec, Backend backend) const {
  const absl::Duration one =
      std::max(CostModel(backend).Predict(spec, 1).time, absl::Nanoseconds(1));
  const auto by_cost = static_cast<std::int64_t>(
      std::min(absl::FDivDuration(limits_.max_batch_cost, one), static_cast<double>(shape.batch)));
  return std::max<std::int64_t>(1, std::min({by_cost, limits_.max_batch_matrices,
                                             limits_.max_batch_bytes / BytesOf(spec, 1)}));
}

void WarmUp::Become(State state) {
  absl::MutexLock lock(&mutex_);
  if (state_ != State::kCancelled) state_ = state;
}

bool WarmUp::WaitForBegin() {
  const auto decided = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return state_ != State::kWaiting;
  };
  mutex_.LockWhen(absl::Condition(&decided));
  const bool begun = state_ != State::kCancelled;
  if (begun) ++running_;
  mutex_.Unlock();
  return begun;
}

bool WarmUp::cancelled() const {
  absl::MutexLock lock(&mutex_);
  return state_ == State::kCancelled;
}

bool WarmUp::running() const {
  absl::MutexLock lock(&mutex_);
  return running_ > 0;
}

}  // namespace factord
