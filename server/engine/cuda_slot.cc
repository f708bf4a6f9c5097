#include "server/engine/cuda_slot.h"

#include <algorithm>
#include <cstring>

#include "absl/time/clock.h"
#include "kernels/problem.h"
#include "kernels/qr.h"
#include "server/core/status_macros.h"
#include "server/engine/nvtx.h"
#include "server/engine/problem.h"

namespace factord {
namespace {

// Of one copy over the bus, large enough that its start does not count, small enough that the host
// copies the next one meanwhile.
constexpr std::size_t kCopyBytes = std::size_t{1} << 20;
constexpr std::size_t kWorkspaceAlignment = 256;

constexpr std::size_t Aligned(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

// Fills the image from its front, and sends what is there whenever it is worth a copy.
class Sender {
 public:
  Sender(std::byte* host, std::byte* device, cudaStream_t stream)
      : host_(host), device_(device), stream_(stream) {}

  // Leaves alone, or counts as written, what is before `at`.
  void SkipTo(std::size_t at) { written_ = at; }

  absl::Status Write(const std::byte* from, std::size_t bytes) {
    while (bytes > 0) {
      const std::size_t n = std::min(bytes, kCopyBytes);
      std::memcpy(host_ + written_, from, n);
      written_ += n;
      from += n;
      bytes -= n;
      if (written_ - sent_ >= kCopyBytes) RETURN_IF_ERROR(Flush());
    }
    return absl::OkStatus();
  }

  absl::Status Flush() {
    if (written_ == sent_) return absl::OkStatus();
    RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(device_ + sent_, host_ + sent_, written_ - sent_,
                                         cudaMemcpyHostToDevice, stream_));
    sent_ = written_;
    return absl::OkStatus();
  }

 private:
  std::byte* const host_;
  std::byte* const device_;
  const cudaStream_t stream_;
  std::size_t written_ = 0, sent_ = 0;
};

absl::StatusOr<absl::Duration> Elapsed(const CudaEvent& from, const CudaEvent& to) {
  float ms = 0;
  RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&ms, from.get(), to.get()));
  return absl::Milliseconds(static_cast<double>(ms));
}

std::size_t BytesOf(const Part::Run& run, Operand operand, std::int64_t matrices) {
  return static_cast<std::size_t>(MatrixBytes(run.spec, operand) * matrices);
}

}  // namespace

absl::StatusOr<CudaSlot> CudaSlot::Create(std::size_t device_bytes, std::size_t host_bytes) {
  CudaSlot slot;
  slot.device_bytes_ = device_bytes;
  slot.host_bytes_ = host_bytes;
  ASSIGN_OR_RETURN(slot.device_, AllocateDevice(device_bytes));
  ASSIGN_OR_RETURN(slot.host_, AllocatePinned(host_bytes));
  ASSIGN_OR_RETURN(slot.stream_, CreateStream());
  for (CudaEvent* event : {&slot.begun_, &slot.sent_, &slot.computed_}) {
    ASSIGN_OR_RETURN(*event, CreateEvent());
  }
  for (CudaEvent& event : slot.fetched_) {
    ASSIGN_OR_RETURN(event, CreateEvent());
  }
  return slot;
}

bool CudaSlot::HasRoom(std::size_t image_bytes, std::size_t workspace_bytes) const {
  return image_bytes <= host_bytes_ && workspace_bytes <= device_bytes_ &&
         Aligned(image_bytes, kWorkspaceAlignment) <= device_bytes_ - workspace_bytes;
}

template <class T>
T* CudaSlot::OnDevice(const Part::Run& run, Operand operand) const {
  const std::size_t at = run.at[static_cast<std::size_t>(operand)];
  return at == 0 ? nullptr : reinterpret_cast<T*>(device() + at);  // descriptors are at 0
}

template <class T>
void CudaSlot::DescribeRuns() const {
  auto* const runs = reinterpret_cast<kernels::Run<T>*>(host());
  for (std::size_t r = 0; r < part_->runs.size(); ++r) {
    const Part::Run& run = part_->runs[r];
    runs[r] =
        RunOf<T>(run.spec, run.first, [&](Operand operand) { return OnDevice<T>(run, operand); });
  }
}

template <class T>
absl::Status CudaSlot::Start(const kernels::Plan& plan, const Extents& extents, const Part& part) {
  part_ = &part;
  RETURN_IF_CUDA_ERROR(cudaEventRecord(begun_.get(), stream_.get()));
  RETURN_IF_ERROR(Send<T>());
  RETURN_IF_CUDA_ERROR(cudaEventRecord(sent_.get(), stream_.get()));
  const kernels::Batch<T> batch = {
      .runs = reinterpret_cast<const kernels::Run<T>*>(device()),
      .run_count = static_cast<int>(part.runs.size()),
      .count = part.count,
      .m = extents.m,
      .n = extents.n,
      .p = extents.p,
      .status = reinterpret_cast<std::uint32_t*>(device() + part.out_begin)};
  {
    const NvtxRange range(plan.path().data());  // a literal
    RETURN_IF_CUDA_ERROR(kernels::RunQr(
        plan, batch, device() + Aligned(part.bytes, kWorkspaceAlignment), stream_.get()));
  }
  RETURN_IF_CUDA_ERROR(cudaEventRecord(computed_.get(), stream_.get()));
  return Fetch();
}

template <class T>
absl::Status CudaSlot::Send() {
  const NvtxRange range("to device");
  DescribeRuns<T>();
  Sender sender(host(), device(), stream_.get());
  for (const Part::Run& run : part_->runs) {
    for (Operand operand : InputsOf(run.spec)) {
      sender.SkipTo(run.at[static_cast<std::size_t>(operand)]);
      for (const Piece& piece : run.pieces) {
        RETURN_IF_ERROR(sender.Write(piece.job->matrix<std::byte>(operand, piece.first),
                                     BytesOf(run, operand, piece.count)));
      }
    }
  }
  return sender.Flush();
}

absl::Status CudaSlot::Fetch() {
  const NvtxRange range("to host");
  const std::size_t bytes = part_->bytes - part_->out_begin;
  fetch_bytes_ = std::max(Aligned((bytes + kFetches - 1) / kFetches, 64), kCopyBytes);
  fetches_done_ = 0;
  for (fetches_ = 0; fetches_ * fetch_bytes_ < bytes; ++fetches_) {
    const std::size_t at = part_->out_begin + fetches_ * fetch_bytes_;
    RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(host() + at, device() + at,
                                         std::min(fetch_bytes_, part_->bytes - at),
                                         cudaMemcpyDeviceToHost, stream_.get()));
    RETURN_IF_CUDA_ERROR(cudaEventRecord(fetched_[fetches_].get(), stream_.get()));
  }
  return absl::OkStatus();
}

// Until the image is there up to `end`.
absl::Status CudaSlot::WaitForFetched(std::size_t end) {
  while (fetches_done_ < fetches_ && part_->out_begin + fetches_done_ * fetch_bytes_ < end) {
    RETURN_IF_CUDA_ERROR(cudaEventSynchronize(fetched_[fetches_done_].get()));
    ++fetches_done_;
  }
  return absl::OkStatus();
}

absl::Status CudaSlot::Finish(std::vector<Piece>& unproven) {
  {
    const NvtxRange range("wait for kernels");
    RETURN_IF_CUDA_ERROR(cudaEventSynchronize(computed_.get()));
  }
  const absl::Time computed = absl::Now();
  RETURN_IF_ERROR(CopyOut());
  for (const Part::Run& run : part_->runs) {
    std::int64_t index = run.first;
    for (const Piece& piece : run.pieces) {
      TakeStatuses(piece, index, unproven);
      index += piece.count;
    }
  }
  RETURN_IF_ERROR(AddTimes(absl::Now() - computed));
  part_ = nullptr;
  return absl::OkStatus();
}

absl::Status CudaSlot::CopyOut() {
  const NvtxRange range("copy out");
  // The statuses, where there is no output at all.
  RETURN_IF_ERROR(WaitForFetched(part_->out_begin +
                                 static_cast<std::size_t>(part_->count) * sizeof(std::uint32_t)));
  for (const Part::Run& run : part_->runs) {
    for (Operand operand : OutputsOf(run.spec)) {
      if (operand == Operand::kRank) continue;
      std::size_t at = run.at[static_cast<std::size_t>(operand)];
      for (const Piece& piece : run.pieces) {
        std::byte* to = piece.job->matrix<std::byte>(operand, piece.first);
        for (std::size_t left = BytesOf(run, operand, piece.count); left > 0;) {
          const std::size_t n = std::min(left, kCopyBytes);
          RETURN_IF_ERROR(WaitForFetched(at + n));
          std::memcpy(to, host() + at, n);
          at += n;
          to += n;
          left -= n;
        }
      }
    }
  }
  return absl::OkStatus();
}

// `index` is of the piece's first matrix in the part.
void CudaSlot::TakeStatuses(const Piece& piece, std::int64_t index,
                            std::vector<Piece>& unproven) const {
  const auto* const statuses =
      reinterpret_cast<const std::uint32_t*>(host() + part_->out_begin) + index;
  Job& job = *piece.job;
  for (std::int64_t i = 0; i < piece.count; ++i) {
    const std::int64_t matrix = piece.first + i;
    if (IsUnproven(statuses[i])) {
      unproven.push_back({&job, matrix, 1});
      continue;
    }
    if (const auto code = CodeOf(statuses[i])) job.failures.push_back({job.first + matrix, *code});
    WriteRank(job, matrix, statuses[i]);
  }
}

// Each job's share of the part's times is that of its matrices.
absl::Status CudaSlot::AddTimes(absl::Duration unpack) const {
  ASSIGN_OR_RETURN(const absl::Duration pack, Elapsed(begun_, sent_));
  ASSIGN_OR_RETURN(const absl::Duration compute, Elapsed(sent_, computed_));
  for (const Part::Run& run : part_->runs) {
    for (const Piece& piece : run.pieces) {
      const double share = static_cast<double>(piece.count) / static_cast<double>(part_->count);
      piece.job->times.pack += pack * share;
      piece.job->times.compute += compute * share;
      piece.job->times.unpack += unpack * share;
    }
  }
  return absl::OkStatus();
}

cudaError_t CudaSlot::Abandon() {
  part_ = nullptr;
  return cudaStreamSynchronize(stream_.get());
}

template absl::Status CudaSlot::Start<float>(const kernels::Plan&, const Extents&, const Part&);
template absl::Status CudaSlot::Start<double>(const kernels::Plan&, const Extents&, const Part&);

}  // namespace factord
