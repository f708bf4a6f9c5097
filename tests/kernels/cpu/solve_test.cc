// kSolve: least squares of full rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/kernels/cpu/instruction_sets.h"
#include "tests/kernels/cpu/qr_harness.h"
#include "tests/support/generators.h"
#include "tests/support/residuals.h"

namespace factord::kernels::testing {
namespace {

using factord::testing::LeastSquaresRatios;
using factord::testing::Normal;

constexpr std::uint64_t kSeed = 20'261'136;

// m >= n.
const std::vector<Shape> kShapes = {{1, 1, 1},    {2, 1, 3},   {3, 3, 1},   {8, 5, 4},
                                    {16, 16, 17}, {33, 5, 2},  {40, 33, 9}, {64, 64, 3},
                                    {130, 70, 5}, {300, 4, 1}, {260, 20, 3}};

// Of well-conditioned columns, in units far apart, as those of B are.
template <class T>
Item<T> WellConditioned(const Shape& shape, std::uint64_t seed) {
  const int m = shape.m, n = shape.n;
  Item<T> item{.a = Normal<T>(m, n, seed), .rhs = Normal<T>(m, shape.p, seed + 1)};
  for (int j = 0; j < n; ++j) {
    item.a[static_cast<std::size_t>(j * m + j)] += T(static_cast<Real<T>>(3 * n));
    const Real<T> unit = std::ldexp(Real<T>(1), 40 * (j % 3) - 30);
    for (int i = 0; i < m; ++i) item.a[static_cast<std::size_t>(j * m + i)] *= unit;
  }
  for (int c = 0; c < shape.p; ++c) {
    const Real<T> unit = std::ldexp(Real<T>(1), 25 * (c % 3) - 20);
    for (int i = 0; i < m; ++i) item.rhs[static_cast<std::size_t>(c * m + i)] *= unit;
  }
  return item;
}

template <class T>
std::vector<Item<T>> Batch(const Shape& shape) {
  std::vector<Item<T>> items;
  for (int i = 0; i < 2 * cpu::Lanes<T>() + 5; ++i)
    items.push_back(WellConditioned<T>(shape, kSeed + 2 * static_cast<std::uint64_t>(i)));
  return items;
}

// In -range ... range; in complex types both parts.
template <class T>
T Integer(std::mt19937_64& random, int range) {
  const auto part = [&] {
    return static_cast<Real<T>>(std::uniform_int_distribution<int>(-range, range)(random));
  };
  if constexpr (std::is_floating_point_v<T>) {
    return part();
  } else {
    const Real<T> re = part();
    return T(re, part());
  }
}

template <class T>
class CpuSolve : public ::testing::Test {
 protected:
  static std::vector<Result<T>> Solve(const Shape& shape, const std::vector<Item<T>>& items,
                                      double rcond = -1, bool column_major = true) {
    return RunBatch(
        {.op = Op::kSolve, .column_major = column_major, .rhs_column_major = column_major}, shape,
        items, AllAtOnce<T>(), rcond);
  }
  static void ExpectUnproven(const Result<T>& x) {
    EXPECT_EQ(x.status, kRankUnproven);
    EXPECT_TRUE(AllNan(x));
  }
};
TYPED_TEST_SUITE(CpuSolve, ElementTypes);

TYPED_TEST(CpuSolve, IsBackwardStableInEveryColumn) {
  using T = TypeParam;
  WithEachInstructionSet([&] {
    for (const Shape& shape : kShapes) {
      const auto items = Batch<T>(shape);
      for (int layout = 0; layout < 4; ++layout) {
        const auto results = RunBatch({.op = Op::kSolve,
                                       .column_major = (layout & 1) != 0,
                                       .rhs_column_major = (layout & 2) != 0},
                                      shape, items, AllAtOnce<T>());
        for (std::size_t i = 0; i < items.size(); ++i) {
          SCOPED_TRACE(::testing::Message()
                       << shape.m << " x " << shape.n << ", layout " << layout << ", matrix " << i);
          EXPECT_EQ(results[i].status, 0u);
          const auto ratios = LeastSquaresRatios(items[i].a, items[i].rhs, results[i].result,
                                                 results[i].residual_norm, shape.m, shape.n);
          EXPECT_LE(ratios.residual, 1);
          EXPECT_LE(ratios.norm, 1);
        }
      }
    }
  });
}

// A = [M; M], B = [M X + Z; M X - Z] of small integers, which make them exact: A^H (B - A X) = 0,
// so X is the solution and sqrt(2) ||z|| the residual's norm. M is 3 n I and entries of size at
// most sqrt(2) more, its singular values between (3 - sqrt(2)) n and (3 + sqrt(2)) n.
TYPED_TEST(CpuSolve, FindsAKnownSolution) {
  using T = TypeParam;
  constexpr double kEps = sizeof(Real<T>) == 4 ? 0x1p-24 : 0x1p-53, kCondition = 3;
  std::mt19937_64 random(kSeed);
  WithEachInstructionSet([&] {
    for (int n : {1, 2, 5, 16, 33}) {
      SCOPED_TRACE(::testing::Message() << "n = " << n << ", seed " << kSeed);
      const int m = 2 * n;
      const auto size = static_cast<std::size_t>(n);
      std::vector<T> x(size), z(size), a(2 * size * size), b(2 * size);
      for (T& value : x) value = Integer<T>(random, 9);
      for (T& value : z) value = Integer<T>(random, 9);
      for (std::size_t i = 0; i < size; ++i) {
        T product(0);
        for (std::size_t j = 0; j < size; ++j) {
          const T entry = Integer<T>(random, 1) + (i == j ? T(static_cast<Real<T>>(3 * n)) : T(0));
          a[i + j * 2 * size] = a[size + i + j * 2 * size] = entry;
          product += entry * x[j];
        }
        b[i] = product + z[i];
        b[size + i] = product - z[i];
      }
      const auto results = this->Solve({m, n, 1}, {{.a = a, .rhs = b}});
      EXPECT_EQ(results[0].status, 0u);
      double error = 0, x_square = 0, z_square = 0, b_square = 0;
      for (std::size_t j = 0; j < size; ++j) {
        error += static_cast<double>(std::norm(results[0].result[j] - x[j]));
        x_square += static_cast<double>(std::norm(x[j]));
        z_square += static_cast<double>(std::norm(z[j]));
      }
      for (T value : b) b_square += static_cast<double>(std::norm(value));
      // Wedin's bound: kappa ||x|| and kappa^2 ||r|| / ||A||.
      const double bound =
          30 * m * kEps *
          (kCondition * std::sqrt(x_square) +
           kCondition * kCondition * std::sqrt(2 * z_square) / (std::sqrt(2.0) * 4 * n));
      EXPECT_LE(std::sqrt(error), bound);
      EXPECT_NEAR(static_cast<double>(results[0].residual_norm[0]), std::sqrt(2 * z_square),
                  30 * m * kEps * std::sqrt(b_square));
    }
  });
}

TYPED_TEST(CpuSolve, ZeroRightHandSideHasAZeroSolution) {
  using T = TypeParam;
  WithEachInstructionSet([&] {
    Item<T> item = WellConditioned<T>({9, 6, 2}, kSeed);
    std::fill(item.rhs.begin(), item.rhs.end(), T(0));
    const auto results = this->Solve({9, 6, 2}, {item});
    EXPECT_EQ(results[0].status, 0u);
    for (T x : results[0].result) EXPECT_EQ(x, T(0));
    for (Real<T> norm : results[0].residual_norm) EXPECT_EQ(norm, 0);
  });
}

TYPED_TEST(CpuSolve, DeficientRankIsNotProvenAndHarmsNobodyElse) {
  using T = TypeParam;
  WithEachInstructionSet([&] {
    for (const Shape& shape : {Shape{1, 1, 1}, Shape{2, 2, 1}, Shape{9, 6, 3}, Shape{40, 33, 2}}) {
      const auto items = Batch<T>(shape);
      const auto good = this->Solve(shape, items);
      for (std::size_t bad = 0; bad < items.size(); ++bad) {
        SCOPED_TRACE(::testing::Message() << shape.m << " x " << shape.n << ", matrix " << bad);
        auto deficient = items;
        // A zero column, or its neighbour's direction again.
        std::vector<T>& a = deficient[bad].a;
        const bool zero = shape.n == 1 || bad % 2 == 0;
        const Real<T> factor(zero ? 0 : 0x1p-20);
        for (int i = 0; i < shape.m; ++i) {
          const auto at = static_cast<std::size_t>((shape.n - 1) * shape.m + i);
          a[at] = factor * a[zero ? at : at - static_cast<std::size_t>(shape.m)];
        }
        const auto results = this->Solve(shape, deficient);
        for (std::size_t i = 0; i < items.size(); ++i) {
          if (i == bad) {
            this->ExpectUnproven(results[i]);
          } else {
            EXPECT_TRUE(SameBits(results[i], good[i])) << i;
          }
        }
      }
    }
  });
}

// The singular values of [1 1; 0 d] with small d: sqrt(2) and d / sqrt(2).
TYPED_TEST(CpuSolve, RcondDecidesWhatFullRankIs) {
  using T = TypeParam;
  WithEachInstructionSet([&] {
    const auto solve = [&](Real<T> d, double rcond) {
      const Item<T> item{.a = {T(1), T(0), T(1), T(d)}, .rhs = {T(1), T(1)}};
      return this->Solve({2, 2, 1}, {item}, rcond)[0];
    };
    EXPECT_EQ(solve(0x1p-10f, 0x1p-14).status, 0u);
    EXPECT_EQ(solve(0x1p-10f, -1).status, 0u);
    this->ExpectUnproven(solve(0x1p-10f, 0x1p-10));
    const Real<T> tiny = sizeof(Real<T>) == 4 ? Real<T>(0x1p-24) : Real<T>(0x1p-53);
    this->ExpectUnproven(solve(tiny, -1));
    EXPECT_EQ(solve(tiny, 0).status, 0u);
  });
}

// Columns count in their own units.
TYPED_TEST(CpuSolve, UnitsDoNotMatterToTheRank) {
  using T = TypeParam;
  WithEachInstructionSet([&] {
    const Real<T> small = std::numeric_limits<Real<T>>::min() * 16;
    const auto results =
        this->Solve({2, 2, 1}, {{.a = {T(1), T(0), T(0), T(small)}, .rhs = {T(3), T(small)}}});
    EXPECT_EQ(results[0].status, 0u);
    EXPECT_EQ(results[0].result, (std::vector<T>{T(3), T(1)}));
  });
}

TYPED_TEST(CpuSolve, OverflowOfXIsReportedForItsMatrixAlone) {
  using T = TypeParam;
  WithEachInstructionSet([&] {
    const Real<T> small = std::numeric_limits<Real<T>>::min() * 16, large = 1 / small;
    const Item<T> item{.a = {T(1), T(0), T(0), T(1)}, .rhs = {T(3), T(large)}};
    Item<T> overflowing = item;
    overflowing.a[3] = T(small);
    const auto results = this->Solve({2, 2, 1}, {item, overflowing, item});
    EXPECT_EQ(results[1].status, kResultOutOfRange);
    for (std::size_t i : {0u, 2u}) {
      EXPECT_EQ(results[i].status, 0u);
      EXPECT_EQ(results[i].result, (std::vector<T>{T(3), T(large)}));
    }
  });
}

TYPED_TEST(CpuSolve, EmptyProblems) {
  using T = TypeParam;
  WithEachInstructionSet([&] {
    const auto no_columns = this->Solve({2, 0, 1}, {{.rhs = {T(3), T(4)}}});
    EXPECT_EQ(no_columns[0].status, 0u);
    EXPECT_NEAR(static_cast<double>(no_columns[0].residual_norm[0]), 5, 1e-5);
    const auto no_rows = this->Solve({0, 0, 2}, {{}});
    EXPECT_EQ(no_rows[0].status, 0u);
    EXPECT_EQ(no_rows[0].residual_norm, (std::vector<Real<T>>{0, 0}));
    const auto no_rhs = this->Solve({2, 1, 0}, {{.a = {T(3), T(4)}}});
    EXPECT_EQ(no_rhs[0].status, 0u);
  });
}

TYPED_TEST(CpuSolve, EveryWayHasTheSameBits) {
  using T = TypeParam;
  WithEachInstructionSet([&] {
    for (const Shape& shape : kShapes) {
      auto items = Batch<T>(shape);
      std::fill_n(items[1].a.begin(), shape.m, T(0));  // of deficient rank
      for (int layout = 0; layout < 4; ++layout) {
        const Problem problem{.op = Op::kSolve,
                              .column_major = (layout & 1) != 0,
                              .rhs_column_major = (layout & 2) != 0};
        std::vector<Way<T>> ways =
            WaysOf<T>(shape, {1, (cpu::Lanes<T>() + 1) / 2, cpu::Lanes<T>()});
        ways.insert(ways.end(),
                    {AllAtOnce<T>(), OneByOne<T>(), InGroups<T>({3, 1, 7}), Together<T>(1)});
        const auto expected = RunBatch(problem, shape, items, ways[0]);
        for (std::size_t way = 0; way < ways.size(); ++way) {
          const auto results = RunBatch(problem, shape, items, ways[way]);
          for (std::size_t i = 0; i < items.size(); ++i) {
            if (i != 1) {
              EXPECT_TRUE(SameBits(results[i], expected[i]))
                  << shape.m << " x " << shape.n << ", way " << way << ", matrix " << i;
            } else {
              this->ExpectUnproven(results[i]);
            }
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace factord::kernels::testing
