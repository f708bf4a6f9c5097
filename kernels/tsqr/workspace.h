// The device memory of RunTsqr, and who shares a matrix.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace factord::kernels::tsqr {

inline constexpr int kMaxParts = 160;
// The Cholesky kernels add their parts up in groups of so many.
inline constexpr int kPartsOfGroup = 12;
inline constexpr int kMaxGroups = (kMaxParts + kPartsOfGroup - 1) / kPartsOfGroup;

enum Redo : std::uint32_t { kDone, kAgain, kBySimple };

// Of one matrix; zero at first.
struct State {
  std::uint32_t arrived;  // parts that have written their R
  std::uint32_t nonzero;  // bit k: some entry of column k is not zero
  std::uint32_t redo;     // Redo: what is left to do
  std::uint32_t arrived_of_group[kMaxGroups];
};

// Of all matrices, columns x columns each.
template <class T>
struct Workspace {
  int parts = 0;  // blocks that share a matrix
  State* states = nullptr;
  T* r = nullptr;           // parts x columns x columns a matrix
  int* fields = nullptr;    // parts x columns a matrix: their scales, where each part has its own
  double* sums = nullptr;   // Cholesky: (parts + groups) x columns^2 a matrix, for each part's G
  double* prior = nullptr;  // Cholesky: columns^2 a matrix, the R of a pass that is repeated
  std::size_t bytes = 0;    // of all of it
};

// Few enough parts that each has several tiles of rows.
inline constexpr int kLeastRows = 2048;

constexpr int PartsOf(int m, int multiprocessors) {
  return std::clamp(m / kLeastRows, 1, std::min(multiprocessors, kMaxParts));
}

// The columns of the kernels that take n.
constexpr int ColumnsOf(int n) {
  return n <= 4 ? 4 : n <= 8 ? 8 : n <= 16 ? 16 : n <= 32 ? 32 : 64;
}

// Pure: with base null only `bytes` is of use.
template <class T>
Workspace<T> CarveWorkspace(int parts, int columns, std::int64_t count, void* base) {
  constexpr std::size_t kAlignment = 256;
  Workspace<T> work;
  work.parts = parts;
  const auto take = [&](std::int64_t elements, std::size_t size) {
    std::byte* const here = base == nullptr ? nullptr : static_cast<std::byte*>(base) + work.bytes;
    work.bytes +=
        (static_cast<std::size_t>(elements) * size + kAlignment - 1) / kAlignment * kAlignment;
    return here;
  };
  const std::int64_t vectors = count * parts * columns;
  work.states = reinterpret_cast<State*>(take(count, sizeof(State)));
  work.r = reinterpret_cast<T*>(take(vectors * columns, sizeof(T)));
  work.fields = reinterpret_cast<int*>(take(vectors, sizeof(int)));
  if (columns > 8) {
    const std::int64_t squares = count * columns * columns;
    work.sums = reinterpret_cast<double*>(take(squares * (parts + kMaxGroups), sizeof(double)));
    work.prior = reinterpret_cast<double*>(take(squares, sizeof(double)));
  }
  return work;
}

}  // namespace factord::kernels::tsqr
