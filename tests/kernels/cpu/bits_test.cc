// The ways to run a batch have the same bits: of matrices that are not tall across matrices in
// groups of any size and across columns; of all whatever RunQr chooses, and one matrix shared among
// threads. (Of one instruction set: see instruction_sets.h.)
#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "tests/kernels/cpu/instruction_sets.h"
#include "tests/kernels/cpu/packed.h"
#include "tests/kernels/cpu/qr_harness.h"
#include "tests/support/generators.h"

namespace factord::kernels::testing {
namespace {

using factord::testing::Generate;
using factord::testing::kKinds;
using factord::testing::Normal;

constexpr std::uint64_t kSeed = 20'261'131;

// Every kind, so that what the ways decide by an entry's value is decided on both sides.
template <class T>
std::vector<Item<T>> Matrices(const Shape& shape, int count) {
  std::vector<Item<T>> items;
  for (int i = 0; i < count; ++i) {
    const auto kind = kKinds[static_cast<std::size_t>(i) % std::size(kKinds)];
    items.push_back(
        {.a = Generate<T>(kind, shape.m, shape.n, kSeed + static_cast<std::uint64_t>(i))});
  }
  return items;
}

// Groups of every size up to a vector's lanes, and RunQr's own choice.
template <class T>
std::vector<Way<T>> AllWays(const Shape& shape) {
  std::vector<int> groups(static_cast<std::size_t>(cpu::Lanes<T>()));
  std::iota(groups.begin(), groups.end(), 1);
  std::vector<Way<T>> ways = WaysOf<T>(shape, groups);
  ways.insert(ways.end(), {AllAtOnce<T>(), OneByOne<T>(), InGroups<T>({3, 1, 7, 2})});
  return ways;
}

template <class T>
void ExpectSameBits(const Problem& problem, const Shape& shape, const std::vector<Item<T>>& items,
                    const std::vector<Way<T>>& ways) {
  const auto expected = RunBatch(problem, shape, items, ways[0]);
  for (std::size_t way = 1; way < ways.size(); ++way) {
    const auto results = RunBatch(problem, shape, items, ways[way]);
    for (std::size_t i = 0; i < items.size(); ++i) {
      EXPECT_TRUE(SameBits(results[i], expected[i]))
          << "way " << way << ", matrix " << i << " of " << shape.m << " x " << shape.n;
    }
  }
}

template <class T>
class CpuBits : public ::testing::Test {
 protected:
  static void CheckFactorize(const Shape& shape, int count, const std::vector<Way<T>>& ways) {
    const auto items = Matrices<T>(shape, count);
    for (QMode q : {QMode::kReduced, QMode::kComplete}) {
      for (bool column_major : {false, true}) {
        Problem problem{.q = q, .r = true, .reflectors = true, .column_major = column_major};
        ExpectSameBits(problem, shape, items, ways);
        problem.reflectors = false;
        problem.sign = Sign::kNonnegative;
        ExpectSameBits(problem, shape, items, ways);
        if (std::is_floating_point_v<T> && shape.m == shape.n) {
          problem.sign = Sign::kSpecialOrthogonal;
          ExpectSameBits(problem, shape, items, ways);
        }
      }
    }
  }

  // Without an R that could be read.
  static std::vector<Item<T>> Reflectors(const Shape& shape, int count) {
    auto items = Packed(shape, Matrices<T>(shape, count));
    for (Item<T>& item : items) SetR(shape, T(std::numeric_limits<Real<T>>::quiet_NaN()), item.a);
    return items;
  }

  static void CheckFormQ(const Shape& shape, int count, const std::vector<Way<T>>& ways) {
    const auto items = Reflectors(shape, count);
    for (QMode q : {QMode::kReduced, QMode::kComplete}) {
      for (bool column_major : {false, true}) {
        ExpectSameBits({.op = Op::kFormQ, .q = q, .column_major = column_major}, shape, items,
                       ways);
      }
    }
  }

  static void CheckApplyQ(const Shape& shape, int count, const std::vector<Way<T>>& ways) {
    auto items = Reflectors(shape, count);
    for (Item<T>& item : items) item.rhs = Normal<T>(shape.m, shape.p, kSeed);
    for (int variant = 0; variant < 8; ++variant) {
      SCOPED_TRACE(::testing::Message() << "variant " << variant);
      const bool right = (variant & 1) != 0, column_major = (variant & 4) != 0;
      ExpectSameBits({.op = Op::kApplyQ,
                      .right = right,
                      .adjoint = (variant & 2) != 0,
                      .column_major = column_major,
                      .rhs_column_major = column_major != right},
                     shape, items, ways);
    }
  }

  static std::vector<Shape> Shapes() {
    return {{1, 1, 1},   {2, 1, 3},    {1, 2, 2},    {3, 3, 1},   {8, 5, 4},   {5, 8, 17},
            {16, 16, 9}, {17, 17, 33}, {20, 33, 16}, {33, 20, 5}, {64, 64, 2}, {47, 65, 1},
            {100, 9, 7}, {130, 34, 3}, {9, 100, 64}, {300, 1, 2}, {33, 3, 4},  {150, 9, 17}};
  }
};
TYPED_TEST_SUITE(CpuBits, ElementTypes);

TYPED_TEST(CpuBits, OfEveryWayToFactorizeHaveTheSameBits) {
  using T = TypeParam;
  WithEachInstructionSet([this] {
    for (const Shape& shape : this->Shapes())
      this->CheckFactorize(shape, 2 * cpu::Lanes<T>() + 5, AllWays<T>(shape));
  });
}

TYPED_TEST(CpuBits, OfEveryWayToFormQHaveTheSameBits) {
  using T = TypeParam;
  WithEachInstructionSet([this] {
    for (const Shape& shape : this->Shapes())
      this->CheckFormQ(shape, cpu::Lanes<T>() + 3, AllWays<T>(shape));
  });
}

TYPED_TEST(CpuBits, OfEveryWayToApplyQHaveTheSameBits) {
  using T = TypeParam;
  WithEachInstructionSet([this] {
    for (const Shape& shape : this->Shapes())
      this->CheckApplyQ(shape, cpu::Lanes<T>() + 1, AllWays<T>(shape));
  });
}

TYPED_TEST(CpuBits, OfOneMatrixSharedAmongThreadsAreTheSame) {
  using T = TypeParam;
  WithEachInstructionSet([this] {
    for (const Shape& shape : {Shape{3, 3, 2},
                               {33, 65, 40},
                               {150, 140, 9},
                               {300, 40, 70},
                               {700, 50, 3},
                               {60, 300, 130}}) {
      std::vector<Way<T>> ways = WaysOf<T>(shape, {});
      for (int helpers = 0; helpers <= 3; ++helpers) ways.push_back(Together<T>(helpers));
      this->CheckFactorize(shape, 2, ways);
      this->CheckFormQ(shape, 1, ways);
      this->CheckApplyQ(shape, 1, ways);
    }
  });
}

// Little enough for sanitizers.
TYPED_TEST(CpuBits, OfASmallMatrixSharedByTwoAreTheSame) {
  using T = TypeParam;
  WithEachInstructionSet([this] {
    for (const Shape& shape : {Shape{33, 65, 40}, Shape{200, 20, 11}})
      this->CheckFactorize(shape, 1, {Together<T>(1)});
  });
}

}  // namespace
}  // namespace factord::kernels::testing
