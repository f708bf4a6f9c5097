// The ways of qr.h, each by itself: for the driver and for the tests that hold them against
// each other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/tiles.h"
#include "kernels/problem.h"

namespace factord::kernels::cpu {

// How many matrices share a vector, with the instruction set in use.
template <class T>
int Lanes();

// Matrices [first, first + count), in groups of Lanes<T>(). See qr.h for the rest.
template <class T>
void RunAcrossMatrices(const Problem& problem, const Run<T>& run, std::int64_t first,
                       std::int64_t count, std::uint32_t* status, std::byte* scratch);
template <class T>
std::size_t AcrossMatricesScratchBytes(const Problem& problem, const Run<T>& run);

// Matrix i; `tiles` may be null.
template <class T>
void RunAcrossColumns(const Problem& problem, const Run<T>& run, std::int64_t i,
                      std::uint32_t* status, std::byte* scratch, Tiles* tiles);
template <class T>
std::size_t AcrossColumnsScratchBytes(const Problem& problem, const Run<T>& run);

// Matrices for which across rows is the way, by their shape; the others have the other two.
template <class T>
bool IsTall(int m, int n);

// Matrix i of tall ones; `tiles` may be null.
template <class T>
void RunAcrossRows(const Problem& problem, const Run<T>& run, std::int64_t i, std::uint32_t* status,
                   std::byte* scratch, Tiles* tiles);
template <class T>
std::size_t AcrossRowsScratchBytes(const Problem& problem, const Run<T>& run);

// What goes across blocks: R alone, of very tall matrices of real numbers.
inline constexpr int kMostBlockColumns = 64;
template <class T>
bool GoesAcrossBlocks(const Problem& problem, int m, int n);

// Rows of a block, whatever the instruction set.
template <class T>
int BlockRows(int n);

// R of matrix i, for m >= n and 1 <= n <= kMostBlockColumns; `tiles` may be null. Takes some 600 KB
// of the thread's stack. Complex types go across rows.
template <class T>
void RunAcrossBlocks(const Problem& problem, const Run<T>& run, std::int64_t i,
                     std::uint32_t* status, std::byte* scratch, Tiles* tiles);
template <class T>
std::size_t AcrossBlocksScratchBytes(const Problem& problem, const Run<T>& run);

}  // namespace factord::kernels::cpu
