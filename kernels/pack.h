// Into Work and out of it: operands of any layout, read and written in place, scaled and checked on
// the way.
#pragma once

#include <cuda_runtime.h>

#include "kernels/problem.h"
#include "kernels/workspace.h"

namespace factord::kernels {

// Which operand of a run, and how its matrix lies in a Work.
enum class Source : std::uint8_t {
  kA,           // m x n
  kRhsLeft,     // m x p: C or B
  kRhsRight,    // C is p x m: its transpose
  kReflectors,  // m x k: below the diagonal of the packed reflectors; the rest becomes zero
};

// Writes columns c0 ... c0 + cols - 1 of every matrix of `to` with the operand's columns, each
// scaled by a power of two (kReflectors: not scaled), and zeros around; `fields`, where not null,
// gets the columns' exponent fields from c0 on. Sets kNonfiniteInput where an Inf or a NaN was
// read.
template <class T>
cudaError_t Pack(const Problem& problem, const Batch<T>& batch, Source source, const Work<T>& to,
                 int c0, int cols, const WorkVectors<int>& fields, cudaStream_t stream);

// tau := the run's, zeros after its k. Sets kNonfiniteInput.
template <class T>
cudaError_t PackTau(const Batch<T>& batch, const WorkVectors<T>& tau, int length,
                    cudaStream_t stream);

// LAPACK's laset: the identity.
template <class T>
cudaError_t SetIdentity(const Work<T>& a, cudaStream_t stream);

// What columns of Q and rows of R are multiplied by for the problem's sign: Sign in problem.h is
// not kLapack.
template <class T>
cudaError_t ChooseFlips(const Problem& problem, const Batch<T>& batch, const Workspace<T>& work,
                        cudaStream_t stream);

// Each writes one output of every matrix: NaN where its status says kNonfiniteInput;
// kResultOutOfRange is set where an entry is not finite.
template <class T>
cudaError_t UnpackR(const Problem& problem, const Batch<T>& batch, const Workspace<T>& work,
                    cudaStream_t stream);
template <class T>
cudaError_t UnpackReflectors(const Problem& problem, const Batch<T>& batch,
                             const Workspace<T>& work, cudaStream_t stream);
template <class T>
cudaError_t UnpackQ(const Problem& problem, const Batch<T>& batch, const Workspace<T>& work,
                    cudaStream_t stream);
// kApplyQ's result.
template <class T>
cudaError_t UnpackC(const Problem& problem, const Batch<T>& batch, const Workspace<T>& work,
                    cudaStream_t stream);

}  // namespace factord::kernels
