// LapackFactorizer: the CPU engine. A batch's matrices are spread over a thread pool; where there
// are too few, or each is too large, the pool works on one matrix after the other. A matrix's
// result is the same either way, bit by bit.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/core/batch.h"
#include "server/engine/factorizer.h"
#include "server/engine/team.h"
#include "server/engine/thread_pool.h"
#include "server/engine/workspace.h"

namespace factord {

// InitializeLapack() comes first. Scratch memory grows to what a batch needs; up to a limit it is
// kept.
class LapackFactorizer : public Factorizer {
 public:
  // `threads` >= 1 counts the caller of Run.
  explicit LapackFactorizer(int threads);

  // Never fails.
  absl::Status Run(Batch& batch) override;

  // "lapack" or "lapack-blocked".
  std::string_view PathOf(const Spec& spec) const override;

 private:
  // Consecutive matrices of one job.
  struct Piece {
    Job* job;
    std::int64_t first;
    std::int64_t count;
  };
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

  void Cut(const Batch& batch);
  void RunPiece(const Piece& piece, const Team& team, Notes& notes);
  template <class Operation>
  void RunPieceAs(const Piece& piece, const Team& team, Notes& notes);

  ThreadPool pool_;
  std::vector<Workspace> workspaces_;  // one a thread
  std::vector<Notes> notes_;           // one a thread
  // Rebuilt for each batch; members so that their memory is reused.
  std::vector<Piece> pieces_;            // shared out, several a chunk
  std::vector<std::size_t> chunk_ends_;  // chunk i ends before pieces_[chunk_ends_[i]]
  std::vector<Piece> team_pieces_;       // by the whole pool, one matrix after the other
};

}  // namespace factord
