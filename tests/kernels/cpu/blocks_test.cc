// R alone, across blocks of rows: at every edge of units, folds and blocks, for every kind of
// matrix.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "tests/kernels/cpu/instruction_sets.h"
#include "tests/kernels/cpu/qr_harness.h"
#include "tests/support/generators.h"
#include "tests/support/r_alone.h"

namespace factord::kernels::testing {
namespace {

using factord::testing::Generate;
using factord::testing::Kind;
using factord::testing::kKinds;
using factord::testing::Name;
using factord::testing::Normal;
using factord::testing::RAlone;

constexpr std::uint64_t kSeed = 20'261'136;

std::size_t At(int rows, int i, int j) {
  return static_cast<std::size_t>(i) + static_cast<std::size_t>(j) * static_cast<std::size_t>(rows);
}

// Upside down: where small rows come first, scales change while blocks are read.
template <class T>
std::vector<T> Reversed(std::vector<T> a, int m) {
  for (auto column = a.begin(); column != a.end(); column += m) {
    std::reverse(column, column + m);
  }
  return a;
}

template <class T>
Way<T> AcrossBlocks(int helpers) {
  return [helpers](const Problem& problem, const Run<T>& run, std::int64_t count,
                   std::uint32_t* status) {
    const Scratch scratch(cpu::AcrossBlocksScratchBytes(problem, run));
    cpu::Tiles tiles;
    std::vector<std::thread> threads;
    for (int t = 0; t < helpers; ++t) threads.emplace_back([&tiles] { tiles.Help(); });
    for (std::int64_t i = 0; i < count; ++i) {
      cpu::RunAcrossBlocks(problem, run, i, status + i, scratch.data(),
                           helpers > 0 ? &tiles : nullptr);
    }
    tiles.Close();
    for (std::thread& thread : threads) thread.join();
  };
}

template <class T>
class CpuBlocks : public ::testing::Test {
 protected:
  static void Check(const Shape& shape, const std::vector<Kind>& kinds) {
    const int m = shape.m, n = shape.n;
    std::vector<Item<T>> items;
    for (Kind kind : kinds) items.push_back({.a = Generate<T>(kind, m, n, kSeed)});
    for (Kind kind : kinds) items.push_back({.a = Reversed(Generate<T>(kind, m, n, kSeed), m)});
    std::vector<RAlone<T>> exact;
    for (const Item<T>& item : items) {
      exact.emplace_back(item.a, m, n);
    }
    WithEachInstructionSet([&] {
      for (bool column_major : {false, true}) {
        const auto results =
            RunBatch({.r = true, .column_major = column_major}, shape, items, AcrossBlocks<T>(0));
        for (std::size_t i = 0; i < items.size(); ++i) {
          SCOPED_TRACE(::testing::Message()
                       << m << " x " << n << ", " << Name(kinds[i % kinds.size()]) << ", seed "
                       << kSeed << (i < kinds.size() ? "" : ", upside down")
                       << (column_major ? ", columns" : ", rows"));
          Judge(exact[i], results[i], shape);
        }
      }
    });
  }

  static void Judge(const RAlone<T>& exact, const Result<T>& x, const Shape& shape) {
    const int n = shape.n;
    EXPECT_EQ(x.status, 0u);
    EXPECT_LE(exact.ResidualRatio(x.r), 1);
    EXPECT_TRUE(exact.HasSigns(x.r));
    for (int j = 0; j < n; ++j) {
      for (int i = j + 1; i < n; ++i) EXPECT_EQ(x.r[At(n, i, j)], T(0));
    }
  }

  static std::vector<Kind> AllKinds() { return {std::begin(kKinds), std::end(kKinds)}; }
};
using RealTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(CpuBlocks, RealTypes);

TYPED_TEST(CpuBlocks, HoldTheContractForEveryKindOfMatrix) {
  for (int n : {1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 33}) {
    this->Check({n, n}, this->AllKinds());
    this->Check({n + 1, n}, this->AllKinds());
    this->Check({500 + n, n}, this->AllKinds());
  }
  this->Check({9000, 3}, this->AllKinds());
  this->Check({1500, 64}, {Kind::kNormal, Kind::kGradedRows, Kind::kNearlyDependent});
}

// Units, folds and blocks end after any number of rows; the first n stay out of them.
TYPED_TEST(CpuBlocks, MayEndInAnyRow) {
  for (int n : {1, 3, 8, 12}) {
    for (int rows : {1, 4, 8, 16, 32, 64, 128, 256, 512, 768, 1024, 3072}) {
      for (int m : {n + rows - 1, n + rows, n + rows + 1}) {
        if (m >= n) this->Check({m, n}, {Kind::kNormal});
      }
    }
  }
  for (int n : {3, 8, 11}) {
    const int block = cpu::BlockRows<TypeParam>(n);
    for (int m : {n + block - 1, n + block, n + block + 1, n + 2 * block + 1}) {
      this->Check({m, n}, {Kind::kNormal});
    }
  }
}

TYPED_TEST(CpuBlocks, OfRandomShapes) {
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 30; ++i) {
    const int n = 1 + static_cast<int>(random() % 24);
    const int m = n + static_cast<int>(random() % 3000);
    this->Check({m, n}, {kKinds[random() % std::size(kKinds)]});
  }
}

TYPED_TEST(CpuBlocks, HaveTheSameBitsForAnyNumberOfThreads) {
  using T = TypeParam;
  WithEachInstructionSet([] {
    for (int n : {3, 8, 20}) {
      const Shape shape{3 * cpu::BlockRows<T>(n) + 100, n};
      const std::vector<Item<T>> items = {{.a = Normal<T>(shape.m, n, kSeed)},
                                          {.a = Generate<T>(Kind::kGradedRows, shape.m, n, kSeed)}};
      for (bool column_major : {false, true}) {
        const Problem problem{.r = true, .column_major = column_major};
        ASSERT_TRUE(cpu::GoesAcrossBlocks<T>(problem, shape.m, n));
        const auto alone = RunBatch(problem, shape, items, AcrossBlocks<T>(0));
        for (const auto& way : {AllAtOnce<T>(), AcrossBlocks<T>(1), AcrossBlocks<T>(3),
                                Together<T>(0), Together<T>(2)}) {
          const auto results = RunBatch(problem, shape, items, way);
          for (std::size_t i = 0; i < items.size(); ++i)
            EXPECT_TRUE(SameBits(results[i], alone[i]))
                << shape.m << " x " << n << ", matrix " << i;
        }
      }
    }
  });
}

TYPED_TEST(CpuBlocks, NonnegativeFlipsRowsOfLapacksR) {
  using T = TypeParam;
  WithEachInstructionSet([] {
    const int n = 9;
    for (Kind kind : kKinds) {
      const std::vector<Item<T>> items = {{.a = Generate<T>(kind, 700, n, kSeed)}};
      const auto lapack = RunBatch({.r = true}, {700, n}, items, AcrossBlocks<T>(0))[0];
      const auto flipped =
          RunBatch({.r = true, .sign = Sign::kNonnegative}, {700, n}, items, AcrossBlocks<T>(0))[0];
      for (int i = 0; i < n; ++i) {
        const bool flips = lapack.r[At(n, i, i)] < 0;
        EXPECT_FALSE(std::signbit(flipped.r[At(n, i, i)])) << Name(kind);
        for (int j = i; j < n; ++j) {
          EXPECT_EQ(flipped.r[At(n, i, j)], flips ? -lapack.r[At(n, i, j)] : lapack.r[At(n, i, j)]);
        }
      }
    }
  });
}

TYPED_TEST(CpuBlocks, WithANanOrAnInfAnywhereFailAlone) {
  using T = TypeParam;
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  const T values[] = {kInfinity, -kInfinity, std::numeric_limits<T>::quiet_NaN()};
  std::mt19937_64 random(kSeed);
  WithEachInstructionSet([&] {
    for (int n : {1, 3, 8, 17}) {
      const Shape shape{1300, n};
      std::vector<Item<T>> items;
      for (std::uint64_t i = 0; i < 3; ++i) items.push_back({.a = Normal<T>(1300, n, kSeed + i)});
      for (bool column_major : {false, true}) {
        const Problem problem{.r = true, .column_major = column_major};
        const auto good = RunBatch(problem, shape, items, AcrossBlocks<T>(0));
        for (int row : {0, n - 1, n, n + 1, 600, 1290, 1299}) {
          for (int k : {0, n / 2, n - 1}) {
            auto spoiled = items;
            spoiled[1].a[At(1300, row, k)] = values[random() % 3];
            const auto results = RunBatch(problem, shape, spoiled, AcrossBlocks<T>(0));
            EXPECT_EQ(results[1].status, kNonfiniteInput) << row << ", " << k << " of " << n;
            EXPECT_TRUE(AllNan(results[1]));
            EXPECT_TRUE(SameBits(results[0], good[0]) && SameBits(results[2], good[2]));
          }
        }
      }
    }
  });
}

TYPED_TEST(CpuBlocks, OverflowIsReportedAndOnlyWhereRDoes) {
  using T = TypeParam;
  constexpr T kLargest = std::numeric_limits<T>::max();
  WithEachInstructionSet([&] {
    std::vector<T> a(std::size_t{2} * 1000, kLargest);
    const auto x = RunBatch<T>({.r = true}, {1000, 2}, {{.a = a}}, AcrossBlocks<T>(0))[0];
    EXPECT_EQ(x.status, kResultOutOfRange);
    EXPECT_EQ(x.r[0], -std::numeric_limits<T>::infinity());
    // A block's R alone would overflow by rounding, or reach the largest number.
    std::fill(a.begin(), a.end(), T(0));
    a[1] = a[998] = kLargest / 2;
    a[1999] = kLargest;
    const auto y = RunBatch<T>({.r = true}, {1000, 2}, {{.a = a}}, AcrossBlocks<T>(0))[0];
    EXPECT_EQ(y.status, 0u);
    EXPECT_TRUE(std::isfinite(y.r[0]) && std::isfinite(y.r[3]));
  });
}

TYPED_TEST(CpuBlocks, AreOfOperandsThatNeedNoMoreThanTheirTypesAlignment) {
  using T = TypeParam;
  WithEachInstructionSet([] {
    for (int n : {4, 8, 16}) {
      const Shape shape{1056, n};
      const std::vector<Item<T>> items = {{.a = Normal<T>(shape.m, n, kSeed)}};
      for (bool column_major : {false, true}) {
        const Problem problem{.r = true, .column_major = column_major};
        const auto aligned = RunBatch(problem, shape, items, AcrossBlocks<T>(0));
        const auto odd = RunBatch(problem, shape, items, AcrossBlocks<T>(0), -1, alignof(T));
        EXPECT_TRUE(SameBits(odd[0], aligned[0]));
      }
    }
  });
}

TEST(CpuBlocksChoice, IsOfShapeAndOutputs) {
  const Problem r{.r = true};
  EXPECT_TRUE(cpu::GoesAcrossBlocks<double>(r, 100'000, 8));
  EXPECT_TRUE(cpu::GoesAcrossBlocks<float>(r, 100'000, cpu::kMostBlockColumns));
  EXPECT_FALSE(cpu::GoesAcrossBlocks<float>(r, 100'000, cpu::kMostBlockColumns + 1));
  EXPECT_FALSE(cpu::GoesAcrossBlocks<double>(r, 100'000, 0));
  EXPECT_FALSE(cpu::GoesAcrossBlocks<double>(r, 100, 8));
  EXPECT_FALSE(cpu::GoesAcrossBlocks<std::complex<double>>(r, 100'000, 8));
  EXPECT_FALSE(cpu::GoesAcrossBlocks<double>({.r = true, .reflectors = true}, 100'000, 8));
  EXPECT_FALSE(cpu::GoesAcrossBlocks<double>({.q = QMode::kReduced, .r = true}, 100'000, 8));
  EXPECT_FALSE(cpu::GoesAcrossBlocks<double>({.op = Op::kSolve}, 100'000, 8));
}

}  // namespace
}  // namespace factord::kernels::testing
