#include "server/engine/cuda_factorizer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/core/shape_class.h"
#include "server/core/status_macros.h"
#include "server/engine/cuda_status.h"
#include "server/engine/nvtx.h"
#include "server/engine/problem.h"
#include "server/engine/router.h"

namespace factord {
namespace {

// Where a part is larger than CudaFactorizerOptions::part_bytes it has at most this many matrices
// for each multiprocessor: fewer would leave it idle.
constexpr std::int64_t kMatricesPerMultiprocessor = 4;

// The kernels' dimensions are ints, and so are those of the shape class, up to a fourth above.
constexpr std::int64_t kLargest = std::numeric_limits<int>::max() / 2;

bool Takes(const Spec& spec) {
  return GpuTakes(spec) && std::max({spec.m, spec.n, spec.p}) <= kLargest;
}

// Of the spec's shape class, so that bucket-mates have one plan. REQUIRES: Takes(spec).
kernels::Problem ClassProblemOf(const Spec& spec) {
  kernels::Problem problem = ProblemOf(spec);
  problem.m = static_cast<int>(RoundUpDimension(spec.m));
  problem.n = static_cast<int>(RoundUpDimension(spec.n));
  problem.p = static_cast<int>(RoundUpDimension(spec.p));
  return problem;
}

kernels::Dtype DtypeOf(DType dtype) {
  return dtype == DType::kF32 ? kernels::Dtype::kF32 : kernels::Dtype::kF64;
}

Extents LargestOf(const Batch& batch) {
  Extents extents;
  for (const auto& job : batch.jobs) {
    extents.m = std::max(extents.m, static_cast<int>(job->spec.m));
    extents.n = std::max(extents.n, static_cast<int>(job->spec.n));
    extents.p = std::max(extents.p, static_cast<int>(job->spec.p));
  }
  return extents;
}

absl::StatusOr<kernels::DeviceLimits> LimitsOf(int device) {
  int multiprocessors = 0, shared_bytes = 0;
  RETURN_IF_CUDA_ERROR(
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  RETURN_IF_CUDA_ERROR(
      cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return kernels::DeviceLimits{multiprocessors, static_cast<std::size_t>(shared_bytes)};
}

bool ByIndex(const MatrixFailure& a, const MatrixFailure& b) { return a.index < b.index; }

}  // namespace

absl::StatusOr<std::unique_ptr<CudaFactorizer>> CudaFactorizer::Create(
    const CudaFactorizerOptions& options) {
  RETURN_IF_CUDA_ERROR(cudaSetDevice(options.device));
  ASSIGN_OR_RETURN(const kernels::DeviceLimits limits, LimitsOf(options.device));
  ASSIGN_OR_RETURN(CudaSlot first,
                   CudaSlot::Create(options.device_bytes / 2, options.host_bytes / 2));
  ASSIGN_OR_RETURN(CudaSlot second,
                   CudaSlot::Create(options.device_bytes / 2, options.host_bytes / 2));
  return std::unique_ptr<CudaFactorizer>(
      new CudaFactorizer(options, limits, {std::move(first), std::move(second)}));
}

CudaFactorizer::CudaFactorizer(const CudaFactorizerOptions& options,
                               const kernels::DeviceLimits& limits, std::array<CudaSlot, 2> slots)
    : options_(options),
      limits_(limits),
      slots_(std::move(slots)),
      fallback_(options.cpu_threads, CpuEngine::kLapack) {}

std::string_view CudaFactorizer::PathOf(const Spec& spec) const {
  if (!Takes(spec)) return "none";
  return kernels::PlanQr(ClassProblemOf(spec), DtypeOf(spec.dtype), limits_).path();
}

absl::Status CudaFactorizer::Run(Batch& batch) {
  const NvtxRange range("batch");
  const Spec& spec = batch.jobs[0]->spec;
  if (!Takes(spec)) {
    return absl::InternalError(absl::StrCat("the GPU engine does not take ", Name(spec.op), " of ",
                                            Name(spec.dtype), " ", spec.m, " x ", spec.n));
  }
  for (const auto& job : batch.jobs) {
    job->failures.clear();
    job->times.pack = job->times.compute = job->times.unpack = absl::ZeroDuration();
    job->backend = Backend::kGpu;
  }
  const kernels::Problem problem = ClassProblemOf(spec);
  const absl::Status status =
      spec.dtype == DType::kF32 ? RunAs<float>(problem, batch) : RunAs<double>(problem, batch);
  if (!status.ok()) Abandon();
  return status;
}

template <class T>
absl::Status CudaFactorizer::RunAs(const kernels::Problem& problem, const Batch& batch) {
  RETURN_IF_CUDA_ERROR(cudaSetDevice(options_.device));
  const kernels::Plan plan = kernels::PlanQr(problem, kernels::kDtypeOf<T>, limits_);
  for (const auto& job : batch.jobs) job->path = plan.path();
  const Extents largest = LargestOf(batch);
  const PartLimits limits = {
      .has_room =
          [&](std::size_t bytes, std::int64_t count) {
            return slots_[0].HasRoom(
                bytes, kernels::WorkspaceBytes(plan, largest.m, largest.n, largest.p, count));
          },
      .enough_bytes = options_.part_bytes,
      .enough_matrices = kMatricesPerMultiprocessor * limits_.multiprocessors};
  ASSIGN_OR_RETURN(const std::vector<Part> parts, CutIntoParts(batch, limits));
  std::vector<Piece> unproven;
  RETURN_IF_ERROR(RunParts<T>(plan, largest, parts, unproven));
  return SolveUnproven(unproven);
}

template <class T>
absl::Status CudaFactorizer::RunParts(const kernels::Plan& plan, const Extents& extents,
                                      const std::vector<Part>& parts,
                                      std::vector<Piece>& unproven) {
  std::size_t next = 0;
  const auto turn = [&]() -> CudaSlot& { return slots_[next++ % slots_.size()]; };
  for (const Part& part : parts) {
    CudaSlot& slot = turn();
    if (slot.busy()) RETURN_IF_ERROR(slot.Finish(unproven));
    RETURN_IF_ERROR(slot.Start<T>(plan, extents, part));
  }
  for (std::size_t left = 0; left < slots_.size(); ++left) {
    CudaSlot& slot = turn();
    if (slot.busy()) RETURN_IF_ERROR(slot.Finish(unproven));
  }
  return absl::OkStatus();
}

absl::Status CudaFactorizer::SolveUnproven(const std::vector<Piece>& unproven) {
  if (unproven.empty()) return absl::OkStatus();
  const NvtxRange range("solve on the CPU");
  Batch batch;
  for (const Piece& piece : unproven) {
    auto job = std::make_unique<Job>();
    job->spec = piece.job->spec;
    job->first = piece.job->first + piece.first;
    job->count = piece.count;
    for (const auto operands : {InputsOf(job->spec), OutputsOf(job->spec)}) {
      for (Operand operand : operands) {
        job->operands[static_cast<std::size_t>(operand)] =
            piece.job->matrix<std::byte>(operand, piece.first);
      }
    }
    batch.jobs.push_back(std::move(job));
  }
  RETURN_IF_ERROR(fallback_.Run(batch));
  for (std::size_t i = 0; i < unproven.size(); ++i) {
    Job& job = *unproven[i].job;
    const Job& solved = *batch.jobs[i];
    job.failures.insert(job.failures.end(), solved.failures.begin(), solved.failures.end());
    job.times.compute += solved.times.pack + solved.times.compute + solved.times.unpack;
    if (i + 1 == unproven.size() || unproven[i + 1].job != &job) {
      std::sort(job.failures.begin(), job.failures.end(), ByIndex);
    }
  }
  return absl::OkStatus();
}

// What was enqueued must not write into buffers that the next batch uses. A device that can't even
// say that it is done is lost: CUDA's sticky errors come back from every call.
void CudaFactorizer::Abandon() {
  for (CudaSlot& slot : slots_) {
    if (slot.Abandon() != cudaSuccess) healthy_ = false;
  }
  static_cast<void>(cudaGetLastError());  // forgotten, where it is not sticky
}

}  // namespace factord
