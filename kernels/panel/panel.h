// Panels: Householder QR of a few columns of every matrix of a batch, unblocked, with the columns
// held on chip.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/problem.h"
#include "kernels/work.h"

namespace factord::kernels {

enum class PanelKind : std::uint8_t {
  kBlock,    // one thread block a matrix; a warp owns 8 (or 4) columns in registers
  kCluster,  // the same over a cluster of two blocks; the same bits
  kGrid,     // rows shared out to many blocks, which meet through flags in global memory
  kSimple,   // one block a matrix, columns in global memory: any size
};

// Factors columns j ... j + nb - 1 of every matrix, rows j to the last, in place: R on and above
// the diagonal, V below (its unit diagonal not stored), tau[j] ... tau[j + nb - 1] of each matrix.
// The entries were scaled (householder.h). LAPACK's geqr2. j and nb are multiples of kColumnUnit, 0
// < nb, j + nb <= a.cols, j < a.rows, nb <= RoundUp(a.rows - j, kColumnUnit). A column at or past
// the last row gets tau = 0. REQUIRES that the kind can hold the panel (below).
//
// `vec`: the columns of a warp, 8 or 4. It decides the bits, and is the planner's choice for the
// shape class: the panel at hand may be smaller. Rows and columns fewer than the class's, and the
// kind (block or cluster), do not change bits.
template <class T>
cudaError_t FactorPanelBlock(const Work<T>& a, int j, int nb, int vec, const WorkVectors<T>& tau,
                             cudaStream_t stream);
template <class T>
cudaError_t FactorPanelCluster(const Work<T>& a, int j, int nb, int vec, const WorkVectors<T>& tau,
                               cudaStream_t stream);
// `scratch`: GridPanelScratchBytes, 256-byte aligned; its contents do not matter.
// `multiprocessors`: of the device.
template <class T>
cudaError_t FactorPanelGrid(const Work<T>& a, int j, int nb, const WorkVectors<T>& tau,
                            void* scratch, int multiprocessors, cudaStream_t stream);
template <class T>
cudaError_t FactorPanelSimple(const Work<T>& a, int j, int nb, const WorkVectors<T>& tau,
                              cudaStream_t stream);

// Whether a panel of `rows` rows (those from j on) and `nb` columns is one that the kind can hold.
// Pure. For kBlock: the `vec` to use, 0 where it does not fit. What fits also does so with fewer
// rows or columns and that vec.
int BlockPanelVec(Dtype dtype, int rows, int nb);
bool ClusterPanelFits(Dtype dtype, int rows, int nb, int vec);
bool GridPanelFits(Dtype dtype, int rows, int nb);

std::size_t GridPanelScratchBytes(Dtype dtype, int rows, int nb, std::int64_t count);

}  // namespace factord::kernels
