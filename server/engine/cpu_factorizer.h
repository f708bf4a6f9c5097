// CpuFactorizer: the CPU engine. A batch's matrices are spread over a thread pool; where there are
// too few, or each is too large, the pool works on one matrix after the other. A matrix's result is
// the same either way, bit by bit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/core/batch.h"
#include "server/engine/cpu_pieces.h"
#include "server/engine/factorizer.h"
#include "server/engine/team.h"
#include "server/engine/thread_pool.h"
#include "server/engine/workspace.h"

namespace factord {

// Who does the arithmetic.
enum class CpuEngine : std::uint8_t {
  kSimd,    // kernels/cpu, and LAPACK for what they do not take: Solve of wide matrices, and of
            // those whose full rank they can't prove
  kLapack,  // LAPACK alone
};

// "simd" or "lapack": the flag's words.
std::string_view Name(CpuEngine engine);

// For people: "SIMD AVX3" or "OpenBLAS 0.3.21 Haswell".
std::string DescriptionOf(CpuEngine engine);

// InitializeLapack() comes first. Scratch memory grows to what a batch needs; up to a limit it is
// kept. The kernels read and write the jobs' memory in place, so that all their time is
// StageTimes::compute.
class CpuFactorizer : public Factorizer {
 public:
  // `threads` >= 1 counts the caller of Run.
  explicit CpuFactorizer(int threads, CpuEngine engine = CpuEngine::kSimd);

  // Never fails.
  absl::Status Run(Batch& batch) override;

  // "simd", "lapack" or "lapack-blocked".
  std::string_view PathOf(const Spec& spec) const override;

 private:
  // What one thread found out about its pieces.
  struct alignas(64) Notes {
    struct Failure {
      Job* job;
      MatrixFailure failure;
    };
    std::vector<Failure> failures;
    struct Time {
      Job* job;
      StageTimes times;
    };
    std::vector<Time> times;
  };

  bool TakenByKernels(const Spec& spec) const;
  Pace PaceOf(const Spec& spec) const;
  void RunPiece(const Piece& piece, const Team& team, Notes& notes) const;
  template <class T>
  static void RunKernels(const Piece& piece, const Team& team, Notes& notes);
  template <class T>
  static void RunLapack(const Piece& piece, const Team& team, Notes& notes);
  template <class Operation>
  static void RunOperation(const Piece& piece, const Team& team, Notes& notes);
  void MoveNotesToJobs();

  const CpuEngine engine_;
  ThreadPool pool_;
  std::vector<Workspace> workspaces_;  // one a thread
  std::vector<Notes> notes_;           // one a thread
  CpuPieces pieces_;                   // of the batch; a member so that its memory is reused
};

}  // namespace factord
