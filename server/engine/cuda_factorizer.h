// CudaFactorizer: the GPU engine. A batch is cut into parts that fit the buffers; while one part is
// computed, the one before it is copied out and the one after it in.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/plan.h"
#include "server/core/batch.h"
#include "server/engine/cpu_factorizer.h"
#include "server/engine/cuda_slot.h"
#include "server/engine/factorizer.h"
#include "server/engine/part.h"

namespace factord {

struct CudaFactorizerOptions {
  int device = 0;
  // Taken at creation, nothing later. A matrix with its results (and, on the device, its workspace)
  // must fit into half of either.
  std::size_t device_bytes = 0;
  std::size_t host_bytes = 0;
  // Of one part of a batch, where there is so much: see PartLimits.
  std::size_t part_bytes = std::size_t{32} << 20;
  // For least squares whose rank the device can't tell. See CpuFactorizer.
  int cpu_threads = 1;
};

// InitializeLapack() comes first. Takes what GpuTakes(spec) says, and answers INTERNAL to the rest.
class CudaFactorizer : public Factorizer {
 public:
  // UNAVAILABLE with CUDA's error, e.g. for lack of memory.
  static absl::StatusOr<std::unique_ptr<CudaFactorizer>> Create(
      const CudaFactorizerOptions& options);

  // RESOURCE_EXHAUSTED: a matrix is too large for the buffers. UNAVAILABLE: CUDA's error.
  absl::Status Run(Batch& batch) override;

  // False once the device does not work any more.
  bool healthy() const override { return healthy_; }

  // "gpu-tiny", "gpu-block", ...: see kernels/plan.h.
  std::string_view PathOf(const Spec& spec) const override;

 private:
  CudaFactorizer(const CudaFactorizerOptions& options, const kernels::DeviceLimits& limits,
                 std::array<CudaSlot, 2> slots);

  template <class T>
  absl::Status RunAs(const kernels::Problem& problem, const Batch& batch);
  template <class T>
  absl::Status RunParts(const kernels::Plan& plan, const Extents& extents,
                        const std::vector<Part>& parts, std::vector<Piece>& unproven);
  absl::Status SolveUnproven(const std::vector<Piece>& unproven);
  void Abandon();

  const CudaFactorizerOptions options_;
  const kernels::DeviceLimits limits_;
  std::array<CudaSlot, 2> slots_;
  CpuFactorizer fallback_;  // LAPACK's: the CPU's kernels have the proof that failed
  std::atomic<bool> healthy_{true};
};

}  // namespace factord
