// CudaSlot: one stream with its buffers, which takes one part of a batch from host memory through
// the kernels and back. A factorizer has two, so that one's copies run beside the other's kernels.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/plan.h"
#include "server/engine/cuda_resources.h"
#include "server/engine/part.h"

namespace factord {

// The largest dimensions of a batch.
struct Extents {
  int m = 0, n = 0, p = 0;
};

// Works on the current device, which must be the one it was created on.
class CudaSlot {
 public:
  static absl::StatusOr<CudaSlot> Create(std::size_t device_bytes, std::size_t host_bytes);

  bool HasRoom(std::size_t image_bytes, std::size_t workspace_bytes) const;
  bool busy() const { return part_ != nullptr; }

  // Copies the part's inputs in and enqueues all of its work. The part must outlive Finish.
  // REQUIRES: not busy, HasRoom.
  template <class T>
  absl::Status Start(const kernels::Plan& plan, const Extents& extents, const Part& part);

  // Waits for the part and copies its outputs out; adds its jobs' failures and times. What full
  // rank could not be proven for is added to `unproven` and has no valid results. REQUIRES: busy.
  absl::Status Finish(std::vector<Piece>& unproven);

  // Waits until nothing touches the buffers any more, and forgets the part.
  cudaError_t Abandon();

 private:
  // A part's outputs come in this many copies at most, each known to be there by its event, so that
  // they are copied on while the next is under way.
  static constexpr std::size_t kFetches = 8;

  CudaSlot() = default;

  std::byte* host() const { return static_cast<std::byte*>(host_.get()); }
  std::byte* device() const { return static_cast<std::byte*>(device_.get()); }
  template <class T>
  T* OnDevice(const Part::Run& run, Operand operand) const;
  template <class T>
  void DescribeRuns() const;
  template <class T>
  absl::Status Send();
  absl::Status Fetch();
  absl::Status WaitForFetched(std::size_t end);
  absl::Status CopyOut();
  void TakeStatuses(const Piece& piece, std::int64_t index, std::vector<Piece>& unproven) const;
  absl::Status AddTimes(absl::Duration unpack) const;

  std::size_t device_bytes_ = 0, host_bytes_ = 0;
  DeviceMemory device_;
  PinnedMemory host_;
  CudaEvent begun_, sent_, computed_;
  std::array<CudaEvent, kFetches> fetched_;
  CudaStream stream_;  // destroyed first

  const Part* part_ = nullptr;   // under way
  std::size_t fetch_bytes_ = 0;  // of one copy
  std::size_t fetches_ = 0;      // under way
  std::size_t fetches_done_ = 0;
};

}  // namespace factord
