#include "server/engine/lapack_factorizer.h"

#include <algorithm>
#include <new>
#include <span>

#include "absl/time/clock.h"
#include "server/engine/operations.h"
#include "server/engine/reflectors.h"

namespace factord {
namespace {

// Work is measured in flops, each matrix counted as this many more: calls, packing, memory.
constexpr double kOverheadFlops = 2000;
// Of one chunk, handed to one thread: some 50 us of small matrices, against some 0.1 us for taking
// a chunk.
constexpr double kChunkFlops = 2e5;
// A batch smaller than this is run by the caller alone: waking a helper costs some 10 us or more.
constexpr double kAloneFlops = 2e5;
// A matrix of this many flops is worth the pool's attention by itself (some 1 ms) ...
constexpr double kTeamFlops = 2e7;
// ... and one of this many bytes always gets it, so that not every thread holds such a workspace.
constexpr std::int64_t kTeamBytes = std::int64_t{64} << 20;
// Scratch memory a thread keeps between batches: more is not worth its page faults' time, next to
// the arithmetic.
constexpr std::size_t kKeptBytes = std::size_t{128} << 20;
// Matrices packed, computed and unpacked together by one thread: enough for the clock's readings
// not to matter, few enough to stay in the L2 cache.
constexpr std::int64_t kBlockBytes = 256 << 10;
constexpr std::int64_t kBlockMatrices = 64;

double WorkOf(const Spec& spec) { return FlopsOf(spec) + kOverheadFlops; }

std::int64_t BytesOf(const Spec& spec) {
  std::int64_t bytes = 0;
  for (Operand operand : InputsOf(spec)) bytes += MatrixBytes(spec, operand);
  for (Operand operand : OutputsOf(spec)) bytes += MatrixBytes(spec, operand);
  return bytes;
}

void Add(StageTimes& sum, const StageTimes& times) {
  sum.pack += times.pack;
  sum.compute += times.compute;
  sum.unpack += times.unpack;
}

}  // namespace

LapackFactorizer::LapackFactorizer(int threads)
    : pool_(threads),
      workspaces_(static_cast<std::size_t>(pool_.threads())),
      notes_(static_cast<std::size_t>(pool_.threads())) {}

std::string_view LapackFactorizer::PathOf(const Spec& spec) const {
  return IsBlocked(spec.m, spec.n) ? "lapack-blocked" : "lapack";
}

absl::Status LapackFactorizer::Run(Batch& batch) {
  for (const auto& job : batch.jobs) {
    job->failures.clear();
    job->times.pack = job->times.compute = job->times.unpack = absl::ZeroDuration();
    job->backend = Backend::kCpu;
    job->path = PathOf(job->spec);
  }
  Cut(batch);
  const Team everyone(pool_, workspaces_);
  for (const Piece& piece : team_pieces_) RunPiece(piece, everyone, notes_[0]);
  pool_.ParallelFor(
      static_cast<std::int64_t>(chunk_ends_.size()), [&](std::int64_t chunk, int worker) {
        const auto c = static_cast<std::size_t>(chunk);
        const auto w = static_cast<std::size_t>(worker);
        const Team alone(workspaces_[w]);
        for (std::size_t p = c == 0 ? 0 : chunk_ends_[c - 1]; p < chunk_ends_[c]; ++p) {
          RunPiece(pieces_[p], alone, notes_[w]);
        }
      });
  for (Workspace& workspace : workspaces_) workspace.Trim(kKeptBytes);
  for (Notes& notes : notes_) {
    for (const Notes::Time& time : notes.times) Add(time.job->times, time.times);
    for (const Notes::Failure& note : notes.failures) note.job->failures.push_back(note.failure);
    notes.times.clear();
    notes.failures.clear();
  }
  for (const auto& job : batch.jobs) {
    std::sort(job->failures.begin(), job->failures.end(),
              [](const MatrixFailure& a, const MatrixFailure& b) { return a.index < b.index; });
  }
  return absl::OkStatus();
}

void LapackFactorizer::Cut(const Batch& batch) {
  pieces_.clear();
  chunk_ends_.clear();
  team_pieces_.clear();
  double total = 0;
  for (const auto& job : batch.jobs) total += WorkOf(job->spec) * static_cast<double>(job->count);
  const bool alone = total < kAloneFlops;
  const double threads = pool_.threads();

  double chunk = 0;  // of the chunk being filled
  for (const auto& job : batch.jobs) {
    if (job->count == 0) continue;
    const double work = WorkOf(job->spec);
    // Too few to keep every thread busy to the end: less than half a thread's work may be lost.
    const bool few = work >= kTeamFlops && total < 2 * threads * work;
    if (few || BytesOf(job->spec) >= kTeamBytes) {
      team_pieces_.push_back({job.get(), 0, job->count});
      continue;
    }
    for (std::int64_t first = 0; first < job->count;) {
      std::int64_t count = job->count - first;
      if (!alone) {
        const double room = std::max((kChunkFlops - chunk) / work, 1.0);
        if (room < static_cast<double>(count)) count = static_cast<std::int64_t>(room);
      }
      pieces_.push_back({job.get(), first, count});
      first += count;
      chunk += work * static_cast<double>(count);
      if (!alone && chunk >= kChunkFlops) {
        chunk_ends_.push_back(pieces_.size());
        chunk = 0;
      }
    }
  }
  if (chunk_ends_.empty() ? !pieces_.empty() : chunk_ends_.back() < pieces_.size()) {
    chunk_ends_.push_back(pieces_.size());
  }
}

void LapackFactorizer::RunPiece(const Piece& piece, const Team& team, Notes& notes) {
  Visit(piece.job->spec.dtype, [&]<class T>(T) {
    switch (piece.job->spec.op) {
      case Op::kFactorize:
        return RunPieceAs<FactorizeOperation<T>>(piece, team, notes);
      case Op::kFormQ:
        return RunPieceAs<FormQOperation<T>>(piece, team, notes);
      case Op::kApplyQ:
        return RunPieceAs<ApplyQOperation<T>>(piece, team, notes);
      case Op::kSolve:
        return RunPieceAs<SolveOperation<T>>(piece, team, notes);
    }
  });
}

template <class Operation>
void LapackFactorizer::RunPieceAs(const Piece& piece, const Team& team, Notes& notes) {
  Job& job = *piece.job;
  Workspace& workspace = team.workspace();
  const Workspace::Scope scope(workspace);
  const std::int64_t per_block = std::clamp(kBlockBytes / (2 * BytesOf(job.spec) + 1),
                                            std::int64_t{1}, std::min(piece.count, kBlockMatrices));
  // Operations are views of the workspace, which need no destructor.
  auto* operations = workspace.Take<Operation>(per_block);
  auto* finite = workspace.Take<bool>(per_block);
  for (std::int64_t b = 0; b < per_block; ++b) new (&operations[b]) Operation(job.spec, workspace);

  StageTimes times;
  absl::Time now = absl::Now();
  const auto lap = [&now](absl::Duration& stage) {
    const absl::Time then = now;
    now = absl::Now();
    stage += now - then;
  };
  for (std::int64_t done = 0; done < piece.count; done += per_block) {
    const std::int64_t first = piece.first + done;
    const std::int64_t count = std::min(per_block, piece.count - done);
    for (std::int64_t b = 0; b < count; ++b) finite[b] = operations[b].Pack(job, first + b, team);
    lap(times.pack);
    for (std::int64_t b = 0; b < count; ++b) {
      if (finite[b]) operations[b].Compute(team);
    }
    lap(times.compute);
    for (std::int64_t b = 0; b < count; ++b) {
      std::optional<MatrixCode> code;
      if (finite[b]) {
        code = operations[b].Unpack(job, first + b, team);
      } else {
        WriteNonfinite(job, first + b);
        code = MatrixCode::kNonfiniteInput;
      }
      if (code) notes.failures.push_back({&job, {job.first + first + b, *code}});
    }
    lap(times.unpack);
  }
  notes.times.push_back({&job, times});
}

}  // namespace factord
