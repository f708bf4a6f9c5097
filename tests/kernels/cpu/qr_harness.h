// Batches through the CPU's kernels: operands in any layout in guarded memory, outputs poisoned.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/qr.h"
#include "kernels/cpu/tiles.h"
#include "kernels/problem.h"
#include "tests/kernels/cpu/guarded_array.h"
#include "tests/kernels/same_bits.h"
#include "tests/support/generators.h"

namespace factord::kernels::testing {

struct Shape {
  int m = 0, n = 0, p = 0;

  int k() const { return std::min(m, n); }
};

// One matrix's inputs; matrices are column-major.
template <class T>
struct Item {
  std::vector<T> a;    // m x n: A, or packed reflectors
  std::vector<T> tau;  // kFormQ, kApplyQ
  std::vector<T> rhs;  // m x p; on the right p x m
};

// One matrix's outputs; matrices are column-major. Empty where the problem has no such output.
template <class T>
struct Result {
  std::vector<T> q, r, reflectors, tau, result;
  std::vector<Real<T>> residual_norm;
  std::uint32_t status = 0;
};

template <class T>
bool SameBits(const Result<T>& a, const Result<T>& b) {
  return SameBits(a.q, b.q) && SameBits(a.r, b.r) && SameBits(a.reflectors, b.reflectors) &&
         SameBits(a.tau, b.tau) && SameBits(a.result, b.result) &&
         SameBits(a.residual_norm, b.residual_norm) && a.status == b.status;
}

// In complex types both parts.
template <class T>
bool AllNan(const std::vector<T>& x) {
  return std::all_of(x.begin(), x.end(), [](T value) {
    return std::isnan(std::real(value)) &&
           (sizeof(T) == sizeof(Real<T>) || std::isnan(std::imag(value)));
  });
}
template <class T>
bool AllNan(const Result<T>& x) {
  return AllNan(x.q) && AllNan(x.r) && AllNan(x.reflectors) && AllNan(x.tau) && AllNan(x.result) &&
         AllNan(x.residual_norm);
}

// Runs matrices [0, count) of a run: one of the ways whose bits are the same.
template <class T>
using Way =
    std::function<void(const Problem&, const Run<T>&, std::int64_t count, std::uint32_t* status)>;

// Exactly the bytes asked for, full of NaNs.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes) : memory_(bytes, cpu::kAlignment) { memory_.Fill(0xff); }
  ~Scratch() { EXPECT_TRUE(memory_.GuardsIntact()) << "scratch memory"; }
  std::byte* data() const { return memory_.data(); }

 private:
  GuardedArray<std::byte> memory_;
};

// RunQr on groups of the given sizes in turn.
template <class T>
Way<T> InGroups(std::vector<std::int64_t> sizes) {
  return [sizes](const Problem& problem, const Run<T>& run, std::int64_t count,
                 std::uint32_t* status) {
    const Scratch scratch(cpu::ScratchBytes(problem, run));
    std::size_t turn = 0;
    for (std::int64_t first = 0; first < count;) {
      const std::int64_t size = std::min(sizes[turn++ % sizes.size()], count - first);
      cpu::RunQr(problem, run, first, size, status + first, scratch.data());
      first += size;
    }
  };
}

template <class T>
Way<T> AllAtOnce() {
  return InGroups<T>({INT64_MAX});
}

template <class T>
Way<T> OneByOne() {
  return InGroups<T>({1});
}

template <class T>
Way<T> AcrossMatrices(int group) {
  return [group](const Problem& problem, const Run<T>& run, std::int64_t count,
                 std::uint32_t* status) {
    const Scratch scratch(cpu::AcrossMatricesScratchBytes(problem, run));
    for (std::int64_t first = 0; first < count; first += group) {
      const auto size = static_cast<int>(std::min<std::int64_t>(group, count - first));
      cpu::RunAcrossMatrices(problem, run, first, size, status + first, scratch.data());
    }
  };
}

template <class T>
Way<T> AcrossColumns() {
  return [](const Problem& problem, const Run<T>& run, std::int64_t count, std::uint32_t* status) {
    const Scratch scratch(cpu::AcrossColumnsScratchBytes(problem, run));
    for (std::int64_t i = 0; i < count; ++i)
      cpu::RunAcrossColumns(problem, run, i, status + i, scratch.data(), nullptr);
  };
}

// For m >= n.
template <class T>
Way<T> AcrossRows() {
  return [](const Problem& problem, const Run<T>& run, std::int64_t count, std::uint32_t* status) {
    const Scratch scratch(cpu::AcrossRowsScratchBytes(problem, run));
    for (std::int64_t i = 0; i < count; ++i)
      cpu::RunAcrossRows(problem, run, i, status + i, scratch.data(), nullptr);
  };
}

// The ways of kernels.h for matrices of a shape, all with the same bits: across rows for tall ones,
// for others across columns and then across matrices in groups of `groups`.
template <class T>
std::vector<Way<T>> WaysOf(const Shape& shape, const std::vector<int>& groups) {
  if (cpu::IsTall<T>(shape.m, shape.n)) return {AcrossRows<T>()};
  std::vector<Way<T>> ways = {AcrossColumns<T>()};
  for (int group : groups) ways.push_back(AcrossMatrices<T>(group));
  return ways;
}

// From one matrix to the next the helpers stay.
template <class T>
Way<T> Together(int helpers) {
  return [helpers](const Problem& problem, const Run<T>& run, std::int64_t count,
                   std::uint32_t* status) {
    const Scratch scratch(cpu::ScratchBytes(problem, run));
    cpu::Tiles tiles;
    std::vector<std::thread> threads;
    for (int t = 0; t < helpers; ++t) threads.emplace_back([&tiles] { tiles.Help(); });
    for (std::int64_t i = 0; i < count; ++i)
      cpu::RunQrTogether(problem, run, i, status + i, scratch.data(), tiles);
    tiles.Close();
    for (std::thread& thread : threads) thread.join();
  };
}

// What a problem has of an operand, for one matrix.
struct Extent {
  bool present = false;
  int rows = 0, cols = 1;
  bool column_major = true;

  std::int64_t size() const { return static_cast<std::int64_t>(rows) * cols; }
};

// One operand of a batch, each matrix dense and one after the other.
template <class E>
class Operand {
 public:
  Operand(const Extent& extent, std::size_t count, std::size_t spare)
      : extent_(extent.present ? extent : Extent{}),
        size_(static_cast<std::size_t>(extent_.size())),
        memory_(count * size_, alignof(E), spare) {}

  // Null if absent; what an empty one points to can't be touched.
  E* data() const { return extent_.present ? memory_.data() : nullptr; }
  bool GuardsIntact() const { return memory_.GuardsIntact(); }

  // Of matrix i, column-major.
  void Set(std::size_t i, const std::vector<E>& matrix) {
    ASSERT_EQ(matrix.size(), size_);
    std::copy_n(Reordered(matrix, extent_.rows, extent_.cols).begin(), size_,
                memory_.data() + i * size_);
  }
  std::vector<E> Get(std::size_t i) const {
    const E* const first = memory_.data() + i * size_;
    return Reordered(std::vector<E>(first, first + size_), extent_.cols, extent_.rows);
  }

 private:
  std::vector<E> Reordered(const std::vector<E>& from, int rows, int cols) const {
    return extent_.column_major ? from : factord::testing::Transposed(from, rows, cols);
  }

  const Extent extent_;
  const std::size_t size_;
  GuardedArray<E> memory_;
};

// `spare`: bytes between the operands and what they may not touch, multiples of T's alignment.
template <class T>
std::vector<Result<T>> RunBatch(const Problem& problem, const Shape& shape,
                                const std::vector<Item<T>>& items, const Way<T>& way,
                                double rcond = -1, std::size_t spare = 0) {
  const int m = shape.m, n = shape.n, p = shape.p, k = shape.k();
  const bool factorize = problem.op == Op::kFactorize, solve = problem.op == Op::kSolve;
  const bool apply = problem.op == Op::kApplyQ, reflectors = factorize && problem.reflectors;
  const bool columns = problem.column_major, rhs_columns = problem.rhs_column_major;
  const bool takes_tau = apply || problem.op == Op::kFormQ;
  const int q_cols = problem.q == QMode::kComplete ? m : k;
  const int c_rows = problem.right ? p : m, c_cols = problem.right ? m : p;

  const auto make = [&]<class E>(E, const Extent& extent) {
    return Operand<E>(extent, items.size(), spare);
  };
  Operand<T> a = make(T{}, {true, m, n, columns});
  Operand<T> tau_in = make(T{}, {takes_tau, k});
  Operand<T> rhs = make(T{}, {apply || solve, c_rows, c_cols, rhs_columns});
  Operand<T> q = make(T{}, {problem.q != QMode::kNone, m, q_cols, columns});
  Operand<T> r = make(T{}, {factorize && problem.r, k, n, columns});
  Operand<T> packed = make(T{}, {reflectors, m, n, columns});
  Operand<T> tau = make(T{}, {reflectors, k});
  Operand<T> result = make(T{}, {apply || solve, solve ? n : c_rows, c_cols, rhs_columns});
  Operand<Real<T>> residual_norm = make(Real<T>{}, {solve, p});
  Operand<std::uint32_t> status = make(std::uint32_t{}, {true, 1});

  for (std::size_t i = 0; i < items.size(); ++i) {
    a.Set(i, items[i].a);
    tau_in.Set(i, items[i].tau);
    rhs.Set(i, items[i].rhs);
  }
  Run<T> run{.m = m, .n = n, .p = p};
  run.a = a.data();
  run.tau_in = tau_in.data();
  run.rhs = rhs.data();
  run.q = q.data();
  run.r = r.data();
  run.reflectors = packed.data();
  run.tau = tau.data();
  run.result = result.data();
  run.residual_norm = residual_norm.data();
  run.rcond = rcond;
  way(problem, run, static_cast<std::int64_t>(items.size()), status.data());

  for (const Operand<T>* operand : {&a, &tau_in, &rhs, &q, &r, &packed, &tau, &result})
    EXPECT_TRUE(operand->GuardsIntact());
  EXPECT_TRUE(residual_norm.GuardsIntact() && status.GuardsIntact());
  std::vector<Result<T>> results;
  for (std::size_t i = 0; i < items.size(); ++i) {
    EXPECT_TRUE(SameBits(a.Get(i), items[i].a)) << "an input was written";
    EXPECT_TRUE(SameBits(tau_in.Get(i), items[i].tau)) << "an input was written";
    EXPECT_TRUE(SameBits(rhs.Get(i), items[i].rhs)) << "an input was written";
    results.push_back({q.Get(i), r.Get(i), packed.Get(i), tau.Get(i), result.Get(i),
                       residual_norm.Get(i), status.Get(i)[0]});
  }
  return results;
}

}  // namespace factord::kernels::testing
