#include "server/engine/cpu_factorizer.h"

#include <algorithm>
#include <limits>
#include <new>
#include <optional>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/qr.h"
#include "kernels/cpu/tiles.h"
#include "server/engine/lapack.h"
#include "server/engine/operations.h"
#include "server/engine/problem.h"
#include "server/engine/reflectors.h"

namespace factord {
namespace {

// Scratch memory a thread keeps between batches: more is not worth its page faults' time, next to
// the arithmetic.
constexpr std::size_t kKeptBytes = std::size_t{128} << 20;
// Matrices packed, computed and unpacked together by one thread: enough for the clock's readings
// not to matter, few enough to stay in the L2 cache.
constexpr std::int64_t kBlockBytes = 256 << 10;
constexpr std::int64_t kBlockMatrices = 64;

void Add(StageTimes& sum, const StageTimes& times) {
  sum.pack += times.pack;
  sum.compute += times.compute;
  sum.unpack += times.unpack;
}

}  // namespace

std::string_view Name(CpuEngine engine) { return engine == CpuEngine::kLapack ? "lapack" : "simd"; }

std::string DescriptionOf(CpuEngine engine) {
  if (engine == CpuEngine::kLapack) return LapackName();
  return absl::StrCat("SIMD ", kernels::cpu::InstructionSet());
}

CpuFactorizer::CpuFactorizer(int threads, CpuEngine engine)
    : engine_(engine),
      pool_(threads),
      workspaces_(static_cast<std::size_t>(pool_.threads())),
      notes_(static_cast<std::size_t>(pool_.threads())) {}

// By shape alone.
bool CpuFactorizer::TakenByKernels(const Spec& spec) const {
  return engine_ == CpuEngine::kSimd && (spec.op != Op::kSolve || spec.m >= spec.n) &&
         std::max({spec.m, spec.n, spec.p}) <= std::numeric_limits<int>::max();
}

std::string_view CpuFactorizer::PathOf(const Spec& spec) const {
  if (TakenByKernels(spec)) return "simd";
  return IsBlocked(spec.m, spec.n) ? "lapack-blocked" : "lapack";
}

Pace CpuFactorizer::PaceOf(const Spec& spec) const {
  if (!TakenByKernels(spec)) return kLapackPace;
  Pace pace = RealOf(spec.dtype) == DType::kF32 ? kSimdPaceF32 : kSimdPaceF64;
  pace.group = Visit(spec.dtype, []<class T>(T) { return kernels::cpu::Lanes<T>(); });
  return pace;
}

absl::Status CpuFactorizer::Run(Batch& batch) {
  for (const auto& job : batch.jobs) {
    job->failures.clear();
    job->times.pack = job->times.compute = job->times.unpack = absl::ZeroDuration();
    job->backend = Backend::kCpu;
    job->path = PathOf(job->spec);
  }
  const auto pace_of = [this](const Spec& spec) { return PaceOf(spec); };
  CutForCpu(batch, pool_.threads(), pace_of, pieces_);
  const Team everyone(pool_, workspaces_);
  for (const Piece& piece : pieces_.together) RunPiece(piece, everyone, notes_[0]);
  const std::vector<std::size_t>& ends = pieces_.chunk_ends;
  pool_.ParallelFor(static_cast<std::int64_t>(ends.size()), [&](std::int64_t chunk, int worker) {
    const auto c = static_cast<std::size_t>(chunk);
    const auto w = static_cast<std::size_t>(worker);
    const Team alone(workspaces_[w]);
    for (std::size_t p = c == 0 ? 0 : ends[c - 1]; p < ends[c]; ++p) {
      RunPiece(pieces_.shared[p], alone, notes_[w]);
    }
  });
  for (Workspace& workspace : workspaces_) workspace.Trim(kKeptBytes);
  MoveNotesToJobs();
  for (const auto& job : batch.jobs) {
    std::sort(job->failures.begin(), job->failures.end(),
              [](const MatrixFailure& a, const MatrixFailure& b) { return a.index < b.index; });
  }
  return absl::OkStatus();
}

void CpuFactorizer::MoveNotesToJobs() {
  for (Notes& notes : notes_) {
    for (const Notes::Time& time : notes.times) Add(time.job->times, time.times);
    for (const Notes::Failure& note : notes.failures) note.job->failures.push_back(note.failure);
    notes.times.clear();
    notes.failures.clear();
  }
}

void CpuFactorizer::RunPiece(const Piece& piece, const Team& team, Notes& notes) const {
  Visit(piece.job->spec.dtype, [&]<class T>(T) {
    if (TakenByKernels(piece.job->spec)) return RunKernels<T>(piece, team, notes);
    RunLapack<T>(piece, team, notes);
  });
}

template <class T>
void CpuFactorizer::RunKernels(const Piece& piece, const Team& team, Notes& notes) {
  Job& job = *piece.job;
  Workspace& workspace = team.workspace();
  const Workspace::Scope scope(workspace);
  const kernels::Problem problem = ProblemOf(job.spec);
  const kernels::Run<T> run =
      RunOf<T>(job.spec, 0, [&](Operand operand) { return job.matrix<T>(operand, 0); });
  auto* const statuses = workspace.Take<std::uint32_t>(piece.count);
  auto* const scratch = workspace.Take<std::byte>(
      static_cast<std::int64_t>(kernels::cpu::ScratchBytes(problem, run)));

  const absl::Time start = absl::Now();
  if (team.threads() == 1) {
    kernels::cpu::RunQr(problem, run, piece.first, piece.count, statuses, scratch);
  } else {
    for (std::int64_t i = 0; i < piece.count; ++i) {
      kernels::cpu::Tiles tiles;
      team.For(team.threads(), [&](std::int64_t member, Workspace&) {
        if (member > 0) return tiles.Help();
        kernels::cpu::RunQrTogether(problem, run, piece.first + i, statuses + i, scratch, tiles);
        tiles.Close();
      });
    }
  }
  StageTimes times;
  times.compute = absl::Now() - start;
  notes.times.push_back({&job, times});

  for (std::int64_t i = 0; i < piece.count; ++i) {
    const std::int64_t matrix = piece.first + i;
    if (IsUnproven(statuses[i])) {
      RunLapack<T>({&job, matrix, 1}, team, notes);
      continue;
    }
    if (const auto code = CodeOf(statuses[i])) {
      notes.failures.push_back({&job, {job.first + matrix, *code}});
    }
    WriteRank(job, matrix, statuses[i]);
  }
}

template <class T>
void CpuFactorizer::RunLapack(const Piece& piece, const Team& team, Notes& notes) {
  switch (piece.job->spec.op) {
    case Op::kFactorize:
      return RunOperation<FactorizeOperation<T>>(piece, team, notes);
    case Op::kFormQ:
      return RunOperation<FormQOperation<T>>(piece, team, notes);
    case Op::kApplyQ:
      return RunOperation<ApplyQOperation<T>>(piece, team, notes);
    case Op::kSolve:
      return RunOperation<SolveOperation<T>>(piece, team, notes);
  }
}

template <class Operation>
void CpuFactorizer::RunOperation(const Piece& piece, const Team& team, Notes& notes) {
  Job& job = *piece.job;
  Workspace& workspace = team.workspace();
  const Workspace::Scope scope(workspace);
  const std::int64_t per_block = std::clamp(kBlockBytes / (2 * job.bytes() / job.count + 1),
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
