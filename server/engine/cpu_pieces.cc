#include "server/engine/cpu_pieces.h"

#include <algorithm>
#include <cmath>

namespace factord {
namespace {

// Of one chunk, handed to one thread: small matrices enough, against some 0.1 us for taking a
// chunk.
constexpr double kChunkNs = 5e4;
// A batch smaller than this is run by the caller alone: waking a helper costs some 10 us or more.
constexpr double kAloneNs = 5e4;
// A group that takes longer than this may be torn apart: matrices so large gain nothing by company,
// and single ones are easier to share out.
constexpr double kGroupNs = 1e6;
// A matrix of this many bytes always gets the whole pool, so that not every thread holds such a
// workspace.
constexpr std::int64_t kTeamBytes = std::int64_t{64} << 20;

// Of one matrix.
double NsOf(const Spec& spec, const Pace& pace) {
  return (FlopsOf(spec) + pace.overhead_flops) / pace.flops_per_ns;
}

class Cutter {
 public:
  Cutter(double total_ns, int threads, CpuPieces& pieces)
      : total_ns_(total_ns),
        threads_(threads),
        alone_(threads == 1 || total_ns < kAloneNs),
        pieces_(pieces) {}

  void Add(Job& job, const Pace& pace) {
    const double ns = NsOf(job.spec, pace);
    const bool few = ns >= pace.team_ns && !KeepsAllBusy(ns);
    if (few || job.bytes() / job.count >= kTeamBytes) {
      pieces_.together.push_back({&job, 0, job.count});
    } else {
      Share(job, ns, pace.group);
    }
  }

  void CloseChunk() {
    if (pieces_.shared.size() > (pieces_.chunk_ends.empty() ? 0 : pieces_.chunk_ends.back())) {
      pieces_.chunk_ends.push_back(pieces_.shared.size());
    }
    chunk_ns_ = 0;
  }

 private:
  // Units of this size, that is, of which at most half a thread's work is lost at the batch's end.
  bool KeepsAllBusy(double ns) const { return total_ns_ >= 2 * threads_ * ns; }

  void Share(Job& job, double ns, std::int64_t group) {
    const double group_ns = ns * static_cast<double>(group);
    const bool whole_groups = group_ns <= kGroupNs && KeepsAllBusy(group_ns);
    for (std::int64_t first = 0; first < job.count;) {
      std::int64_t count = job.count - first;
      if (!alone_) {
        const double room = std::ceil((kChunkNs - chunk_ns_) / ns);
        if (room < static_cast<double>(count)) {
          count = std::min(count, InGroups(static_cast<std::int64_t>(room), group, whole_groups));
        }
      }
      pieces_.shared.push_back({&job, first, count});
      first += count;
      chunk_ns_ += ns * static_cast<double>(count);
      if (!alone_ && chunk_ns_ >= kChunkNs) CloseChunk();
    }
  }

  // `room` matrices or a few more, in whole groups; a part of one only where that may be.
  static std::int64_t InGroups(std::int64_t room, std::int64_t group, bool whole_groups) {
    return whole_groups || room >= group ? (room + group - 1) / group * group : room;
  }

  const double total_ns_;
  const double threads_;
  const bool alone_;  // the caller does it all
  CpuPieces& pieces_;
  double chunk_ns_ = 0;  // of the chunk being filled
};

}  // namespace

void CutForCpu(const Batch& batch, int threads, absl::FunctionRef<Pace(const Spec&)> pace_of,
               CpuPieces& pieces) {
  pieces.shared.clear();
  pieces.chunk_ends.clear();
  pieces.together.clear();
  double total_ns = 0;
  for (const auto& job : batch.jobs) {
    total_ns += NsOf(job->spec, pace_of(job->spec)) * static_cast<double>(job->count);
  }
  Cutter cutter(total_ns, threads, pieces);
  for (const auto& job : batch.jobs) {
    if (job->count > 0) cutter.Add(*job, pace_of(job->spec));
  }
  cutter.CloseChunk();
}

}  // namespace factord
