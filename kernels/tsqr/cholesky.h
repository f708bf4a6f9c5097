// R of 9 to 64 columns in one pass over the rows on the FP64 tensor cores: Cholesky QR behind a
// preconditioner.
//
// Let R0 be an R of some rows. Y = A R0^-1 is well conditioned whatever A is, its Gram matrix
// G = Y^T Y = C^T C has an accurate Cholesky factor, and R = C R0.
//   1. Y comes row by row by block substitution, T_j = A_j - sum_{i<j} Y_i R0_ij, Y_j = T_j S_j
//   with
//      S_j = R0_jj^-1, 8 x 8 and explicit. It is the exact one for A + E, |E_j| <= c u (|A_j| + sum
//      |Y_i||R0_ij| + |T_j||S_j||R0_jj|): since the computed Y_i are substituted, R0's condition
//      does not enter. S_j is harmless where R0_jj comes from column pivoting inside its block.
//   2. Rounding of G moves R by c u kappa(Y).
// So R is that of A + E with E at rounding level, column by column, where (a) ||Y_i|| |R0_ij| is
// not much larger than ||A_j|| and (b) kappa(Y) is small. Both are checked in the end, from G, C
// and R0; where one fails, the sample has missed something, and the pass is repeated with the new R
// as R0, which has seen every row. The last resort is the simple kernel.
//
// float matrices are exact in double, where R0 = I is enough for most: the first pass does without
// (kPreconditions).
//
// Fukaya et al., Shifted Cholesky QR, SIAM J. Sci. Comput. 42 (2020), and Yamamoto et al., ETNA 44
// (2015), for the analysis of Cholesky QR; the preconditioner from a sample and the guard are ours.
#pragma once

#include <cuda_runtime.h>

#include "kernels/simt/ptx.h"
#include "kernels/tsqr/member.h"

namespace factord::kernels::tsqr {

// How the kernel for N columns of type T is built. A tile is 16 rows; a warp, or where G is large a
// pair of warps that split G, takes kTiles of them (each) from a stage of its ring.
template <class T_, int N_, bool kPreconditions_>
struct Cholesky {
  using T = T_;
  static constexpr int N = N_;
  static constexpr bool kPreconditions = kPreconditions_;
  static constexpr int kBlocks = N / 8;  // of 8 columns
  static constexpr int kWarps = N == 32 ? 12 : 8;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kGroup = N > 32 ? 2 : 1;  // warps that share their rows
  static constexpr int kGroups = kWarps / kGroup;
  static constexpr int kTiles = N == 16 ? 2 : 1;
  static constexpr int kRows = 16 * kTiles * kGroup;  // of a stage
  static constexpr int kStages = N == 64 ? 2 : (N == 16 ? 6 : 4) * static_cast<int>(8 / sizeof(T));

  // G's upper triangle of blocks, as tiles of 16 x 8; those of a warp.
  static constexpr int kPairs = N / 16;
  static constexpr int kGramTiles = kPairs * kBlocks - kPairs * (kPairs - 1);
  static constexpr int kOwnTiles = kGramTiles / kGroup;
  // Whether row pair `pair` of G is this half's.
  static FACTORD_HOST_DEVICE constexpr bool Owns(int pair, int half) {
    return kGroup == 1 || (pair == 0 || pair == 3) == (half == 0);
  }
  static constexpr int kSums = kGramTiles * 64;  // double2s of G, in the order of fragments

  // The blocks of R0 on and above the diagonal, as operands: in registers while there are few.
  static constexpr int kFragments = kBlocks * (kBlocks + 1) / 2;
  static constexpr bool kFragmentsInShared = N > 32;

  // The sample: kSampleRows rows a thread, whose column is threadIdx.x % min(N, 32).
  static constexpr int kColumns = N > 32 ? N / 32 : 1;  // a lane
  static constexpr int kRowGroups = N < 32 ? 32 / N : 1;
  static constexpr int kSampleRows = N == 16 ? 4 : N == 32 ? 6 : 16;
  static constexpr int kSample = kWarps * kRowGroups * kSampleRows;
  static_assert(kSample >= N);

  static constexpr int kPitch = N + 1;

  // A warp's rows of a stage; then what it shows its partner of them.
  union alignas(128) Stage {
    T rows[16 * kTiles * N];
    double2 exchange[kGroup > 1 ? kTiles* kBlocks * 64 : 1];
  };
  struct Shared {
    union alignas(128) {
      Stage ring[kGroups][kStages][kGroup];
      double2 sums[kGroups][kSums];
      struct {
        double g[N * kPitch], c[N * kPitch];
      } matrix;
    };
    double r0[N * N];               // rows by pivot position, columns in A's order, scaled
    double inverse[N * 8];          // S_j, columns in A's order
    double scale[N];                // powers of two
    double reduce[2 * kWarps * N];  // at least 4 N
    double diagonal[N], pivots[N], norms[N];
    int order[N];  // the column at each pivot position
    double2 fragments[kFragmentsInShared ? kFragments * 32 : 1];
    Barrier full[kGroups][kStages];
  };
};

// Up to three passes; where the state still says `redo`, R is not written. T: float or double, N:
// 16, 32 or 64.
template <class T, int N>
cudaError_t RunCholesky(const Problem& problem, const Batch<T>& batch, const Workspace<T>& work,
                        cudaStream_t stream);

}  // namespace factord::kernels::tsqr
