// Batched QR on the CPU with its vector instructions: the entry points of kernels/cpu. Every type,
// every shape. Tall matrices go
//
//   across rows      one matrix held by columns, its rows the lanes (across_rows-inl.h)
//   across blocks    R alone, very tall ones of real types, read once (across_blocks-inl.h)
//
// and all others in one of two ways whose bits are the same, so that the number of matrices at hand
// may choose:
//
//   across matrices  lane l of every vector belongs to matrix l (across_matrices-inl.h)
//   across columns   one matrix held by rows, its columns the lanes (across_columns-inl.h)
//
// A result's bits depend on the matrix, its
// shape, the options (for tall matrices also on whether R alone is wanted) and the instruction set
// alone. The instruction set is the best that the
// machine has of those this was compiled for (Highway's dynamic dispatch).
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/tiles.h"
#include "kernels/problem.h"

namespace factord::kernels::cpu {

// Scratch memory is aligned to this.
inline constexpr std::size_t kAlignment = 64;

// What RunQr and RunQrTogether need for matrices of the run's shape.
template <class T>
std::size_t ScratchBytes(const Problem& problem, const Run<T>& run);

// Does what the problem says for matrices [first, first + count) of the run, on the calling thread:
// reads the inputs, writes each output and each matrix's MatrixStatus, status[0] being that of
// matrix `first`. The run's m, n and p count; the problem's own are not read. T: float, double or
// std::complex of them. The operations, by LAPACK's names:
//   kFactorize  geqrf, then orgqr where Q is wanted
//   kFormQ      orgqr
//   kApplyQ     ormqr
//   kSolve      gels for m >= n, with a proof of full rank, or kRankUnproven and X = NaN
// Each matrix is read before anything of it is written: the reflectors may take A's place
// (kFactorize), Q that of reflectors of its size (kFormQ), op(Q) C that of C. A matrix with a NaN
// or an Inf (kNonfiniteInput) gets NaN in all its outputs.
template <class T>
void RunQr(const Problem& problem, const Run<T>& run, std::int64_t first, std::int64_t count,
           std::uint32_t* status, std::byte* scratch);

// The same, bit by bit, for matrix i alone, by the calling thread and all that are in tiles.Help().
template <class T>
void RunQrTogether(const Problem& problem, const Run<T>& run, std::int64_t i, std::uint32_t* status,
                   std::byte* scratch, Tiles& tiles);

// Of the instructions in use, in Highway's words: "AVX3", "AVX2", "SSE4", "NEON".
const char* InstructionSet();

}  // namespace factord::kernels::cpu
