// What the outputs of kFactorize look like: LAPACK's conventions, signs, subsets, empty dimensions.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "tests/kernels/cpu/instruction_sets.h"
#include "tests/kernels/cpu/qr_harness.h"
#include "tests/support/generators.h"
#include "tests/support/residuals.h"

namespace factord::kernels::testing {
namespace {

using factord::testing::Generate;
using factord::testing::Kind;
using factord::testing::kKinds;
using factord::testing::Name;
using factord::testing::Normal;
using factord::testing::OrthogonalityRatio;
using factord::testing::QrRatios;

constexpr std::uint64_t kSeed = 20'261'132;

const std::vector<Shape> kShapes = {{1, 1},   {1, 4},    {4, 1},   {3, 3},   {8, 5},   {5, 8},
                                    {16, 16}, {17, 20},  {33, 33}, {40, 24}, {24, 40}, {64, 9},
                                    {70, 66}, {130, 40}, {70, 4},  {140, 8}};

template <class T>
constexpr bool kComplex = !std::is_floating_point_v<T>;

// Entry (i, j) of a column-major matrix.
template <class T>
T At(const std::vector<T>& matrix, int rows, int i, int j) {
  return matrix[static_cast<std::size_t>(i) +
                static_cast<std::size_t>(j) * static_cast<std::size_t>(rows)];
}

template <class T>
std::vector<Item<T>> OfEveryKind(const Shape& shape) {
  std::vector<Item<T>> items;
  for (Kind kind : kKinds) items.push_back({.a = Generate<T>(kind, shape.m, shape.n, kSeed)});
  return items;
}

template <class T>
class CpuOutputs : public ::testing::Test {};
TYPED_TEST_SUITE(CpuOutputs, ElementTypes);

TYPED_TEST(CpuOutputs, ReflectorsFollowLapacksConventions) {
  using T = TypeParam;
  const auto eps = static_cast<Real<T>>(sizeof(Real<T>) == 4 ? 0x1p-24 : 0x1p-53);
  WithEachInstructionSet([&] {
    for (const Shape& shape : kShapes) {
      const int m = shape.m, k = shape.k();
      const auto results = RunBatch({.r = true, .reflectors = true, .column_major = true}, shape,
                                    OfEveryKind<T>(shape), AllAtOnce<T>());
      for (std::size_t i = 0; i < results.size(); ++i) {
        const Result<T>& x = results[i];
        for (int j = 0; j < k; ++j) {
          SCOPED_TRACE(::testing::Message()
                       << m << " x " << shape.n << ", " << Name(kKinds[i]) << ", column " << j);
          // R is the packed upper part, with zeros below and a real diagonal.
          for (int row = 0; row < k; ++row) {
            EXPECT_EQ(At(x.r, k, row, j), row <= j ? At(x.reflectors, m, row, j) : T(0));
          }
          EXPECT_EQ(std::imag(At(x.r, k, j, j)), 0);
          // beta = -sign(Re alpha) ||x||: tau = (beta - alpha) / beta has 1 <= Re tau <= 2 and
          // |tau - 1| <= 1; H = I exactly where tau = 0, and then nothing is in the tail.
          const T tau = x.tau[static_cast<std::size_t>(j)];
          bool zero_tail = true;
          for (int row = j + 1; row < m; ++row) zero_tail &= At(x.reflectors, m, row, j) == T(0);
          if (tau == T(0)) {
            EXPECT_TRUE(zero_tail);
          } else {
            EXPECT_GE(std::real(tau), 1 - 4 * eps);
            EXPECT_LE(std::abs(tau - T(1)), 1 + 4 * eps);
            EXPECT_TRUE(kComplex<T> || j + 1 < m) << "nothing to eliminate";
          }
        }
      }
    }
  });
}

TYPED_TEST(CpuOutputs, TauIsZeroExactlyWhereThereIsNothingToEliminate) {
  using T = TypeParam;
  WithEachInstructionSet([&] {
    for (const Shape& shape : kShapes) {
      const int m = shape.m, k = shape.k();
      SCOPED_TRACE(::testing::Message() << m << " x " << shape.n);
      Item<T> full{.a = Normal<T>(m, shape.n, kSeed)};
      Item<T> upper{.a = Generate<T>(Kind::kUpper, m, shape.n, kSeed)};
      Item<T> real_diagonal = upper;
      for (int j = 0; j < k; ++j) {
        T& diagonal = real_diagonal.a[static_cast<std::size_t>(j * m + j)];
        diagonal = T(std::real(diagonal));
      }
      const auto results = RunBatch({.reflectors = true, .column_major = true}, shape,
                                    {full, upper, real_diagonal}, AllAtOnce<T>());
      for (int j = 0; j < k; ++j) {
        const auto at = static_cast<std::size_t>(j);
        EXPECT_EQ(results[0].tau[at] == T(0), !kComplex<T> && j == m - 1);
        EXPECT_EQ(results[1].tau[at] == T(0), !kComplex<T>);
        EXPECT_EQ(results[2].tau[at], T(0));
      }
      EXPECT_EQ(results[2].reflectors, real_diagonal.a);
    }
  });
}

TYPED_TEST(CpuOutputs, ZeroAlphaCountsAsPositive) {
  using T = TypeParam;
  WithEachInstructionSet([&] {
    const auto x = RunBatch<T>({.r = true}, {2, 1}, {{.a = {T(0), T(3)}}}, AllAtOnce<T>());
    EXPECT_EQ(x[0].r[0], T(-3));
  });
}

TYPED_TEST(CpuOutputs, SubsetsHaveTheBitsOfAll) {
  using T = TypeParam;
  WithEachInstructionSet([&] {
    for (const Shape& shape : kShapes) {
      const auto items = OfEveryKind<T>(shape);
      for (bool column_major : {false, true}) {
        const auto run = [&](QMode q, bool r, bool reflectors) {
          return RunBatch({.q = q, .r = r, .reflectors = reflectors, .column_major = column_major},
                          shape, items, AllAtOnce<T>());
        };
        const auto reduced = run(QMode::kReduced, true, true);
        const auto complete = run(QMode::kComplete, true, true);
        for (int subset = 0; subset < 12; ++subset) {
          const auto q = static_cast<QMode>(subset / 4);
          const auto some = run(q, (subset & 1) != 0, (subset & 2) != 0);
          const auto& all = q == QMode::kComplete ? complete : reduced;
          for (std::size_t i = 0; i < items.size(); ++i) {
            SCOPED_TRACE(::testing::Message()
                         << shape.m << " x " << shape.n << ", " << Name(kKinds[i]) << ", subset "
                         << subset << (column_major ? ", columns" : ", rows"));
            EXPECT_EQ(some[i].status, all[i].status);
            EXPECT_TRUE(some[i].q.empty() || SameBits(some[i].q, all[i].q));
            EXPECT_TRUE(some[i].r.empty() || SameBits(some[i].r, all[i].r));
            EXPECT_TRUE(some[i].tau.empty() || SameBits(some[i].tau, all[i].tau));
            EXPECT_TRUE(some[i].reflectors.empty() ||
                        SameBits(some[i].reflectors, all[i].reflectors));
          }
        }
      }
    }
  });
}

TYPED_TEST(CpuOutputs, NonnegativeFlipsRowsOfRWithTheirColumnsOfQ) {
  using T = TypeParam;
  WithEachInstructionSet([&] {
    for (const Shape& shape : kShapes) {
      const auto items = OfEveryKind<T>(shape);
      for (QMode q : {QMode::kNone, QMode::kReduced, QMode::kComplete}) {
        for (bool column_major : {false, true}) {
          Problem problem{.q = q, .r = true, .column_major = column_major};
          const auto lapack = RunBatch(problem, shape, items, AllAtOnce<T>());
          problem.sign = Sign::kNonnegative;
          const auto flipped = RunBatch(problem, shape, items, AllAtOnce<T>());
          for (std::size_t i = 0; i < items.size(); ++i) {
            SCOPED_TRACE(::testing::Message()
                         << shape.m << " x " << shape.n << ", " << Name(kKinds[i]));
            const int m = shape.m, k = shape.k();
            const int q_cols = static_cast<int>(flipped[i].q.size()) / m;
            const auto sign = [&](int j) {
              return T(j < k && std::real(At(lapack[i].r, k, j, j)) < 0 ? -1 : 1);
            };
            for (int j = 0; j < k; ++j) {
              EXPECT_GE(std::real(At(flipped[i].r, k, j, j)), 0);
              EXPECT_EQ(std::imag(At(flipped[i].r, k, j, j)), 0);
              for (int c = 0; c < shape.n; ++c)
                EXPECT_EQ(At(flipped[i].r, k, j, c), sign(j) * At(lapack[i].r, k, j, c));
            }
            for (int j = 0; j < q_cols; ++j) {
              for (int row = 0; row < m; ++row)
                EXPECT_EQ(At(flipped[i].q, m, row, j), sign(j) * At(lapack[i].q, m, row, j));
            }
          }
        }
      }
    }
  });
}

TYPED_TEST(CpuOutputs, SpecialOrthogonalHasDeterminantOne) {
  using T = TypeParam;
  if constexpr (kComplex<T>) {
    return;  // of real matrices only
  } else {
    WithEachInstructionSet([&] {
      for (int n : {1, 2, 3, 8, 17, 33}) {
        for (bool column_major : {false, true}) {
          SCOPED_TRACE(::testing::Message() << n);
          std::vector<Item<T>> items;
          for (std::uint64_t i = 0; i < 6; ++i) items.push_back({.a = Normal<T>(n, n, kSeed + i)});
          Problem problem{.q = QMode::kReduced, .r = true, .column_major = column_major};
          const auto lapack =
              RunBatch({.q = QMode::kReduced, .reflectors = true}, {n, n}, items, AllAtOnce<T>());
          problem.sign = Sign::kSpecialOrthogonal;
          const auto special = RunBatch(problem, {n, n}, items, AllAtOnce<T>());
          for (std::size_t i = 0; i < items.size(); ++i) {
            const auto ratios = QrRatios(items[i].a, special[i].q, special[i].r, n, n);
            EXPECT_TRUE(ratios.Hold()) << ratios.residual << " " << ratios.orthogonality;
            // Each reflector has determinant -1, and so has each column's change of sign.
            int negations = 0;
            for (int j = 0; j < n; ++j) {
              negations += lapack[i].tau[static_cast<std::size_t>(j)] != 0;
              negations += At(lapack[i].q, n, 0, j) != At(special[i].q, n, 0, j);
              if (j < n - 1) {
                EXPECT_GE(At(special[i].r, n, j, j), 0);
              }
            }
            EXPECT_EQ(negations % 2, 0);
          }
        }
      }
    });
  }
}

TYPED_TEST(CpuOutputs, EmptyMatricesAreNoWork) {
  using T = TypeParam;
  WithEachInstructionSet([&] {
    for (const Shape& shape : {Shape{0, 0}, Shape{0, 5}, Shape{5, 0}, Shape{0, 40}, Shape{40, 0}}) {
      for (const auto& way : {AllAtOnce<T>(), AcrossMatrices<T>(1), AcrossColumns<T>()}) {
        SCOPED_TRACE(::testing::Message() << shape.m << " x " << shape.n);
        const auto results = RunBatch({.q = QMode::kComplete, .r = true, .reflectors = true}, shape,
                                      std::vector<Item<T>>(3), way);
        for (const Result<T>& x : results) {
          EXPECT_EQ(x.status, 0u);
          for (int j = 0; j < shape.m; ++j) {
            for (int i = 0; i < shape.m; ++i) EXPECT_EQ(At(x.q, shape.m, i, j), T(i == j ? 1 : 0));
          }
        }
      }
    }
  });
}

TYPED_TEST(CpuOutputs, OverflowOfRIsReportedForItsMatrixAlone) {
  using T = TypeParam;
  WithEachInstructionSet([&] {
    for (int n : {2, 9, 40}) {
      const Shape shape{n, n};
      const Problem problem{.q = QMode::kReduced, .r = true};
      std::vector<Item<T>> items;
      for (int i = 0; i < 2 * cpu::Lanes<T>() + 1; ++i)
        items.push_back({.a = Normal<T>(n, n, kSeed + static_cast<std::uint64_t>(i))});
      const auto good = RunBatch(problem, shape, items, AllAtOnce<T>());
      for (std::size_t bad = 0; bad < items.size(); ++bad) {
        SCOPED_TRACE(::testing::Message() << n << ", bad " << bad);
        auto changed = items;
        changed[bad].a.assign(changed[bad].a.size(), T(std::numeric_limits<Real<T>>::max()));
        const auto results = RunBatch(problem, shape, changed, AllAtOnce<T>());
        for (std::size_t i = 0; i < items.size(); ++i) {
          if (i == bad) {
            EXPECT_EQ(results[i].status, kResultOutOfRange);
            EXPECT_LE(OrthogonalityRatio(results[i].q, n, n), 1);
          } else {
            EXPECT_TRUE(SameBits(results[i], good[i])) << i;
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace factord::kernels::testing
