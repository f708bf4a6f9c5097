// What the kernels ask of memory. (That nothing is touched beyond an operand's ends, and no input
// written, every test of these kernels shows: see RunBatch.)
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/kernels/cpu/instruction_sets.h"
#include "tests/kernels/cpu/packed.h"
#include "tests/kernels/cpu/qr_harness.h"
#include "tests/support/generators.h"

namespace factord::kernels::testing {
namespace {

using factord::testing::Normal;

constexpr std::uint64_t kSeed = 20'261'135;

using Bytes = std::array<std::size_t, 3>;  // by way
void ExpectNoneLess(const Bytes& less, const Bytes& more) {
  for (std::size_t way = 0; way < less.size(); ++way) EXPECT_LE(less[way], more[way]);
}

template <class T>
class CpuMemory : public ::testing::Test {};
TYPED_TEST_SUITE(CpuMemory, ElementTypes);

// Matrices of 16 x 16 are whole vectors of every instruction set: only `spare` makes their
// addresses odd.
TYPED_TEST(CpuMemory, OperandsNeedNoMoreThanTheirTypesAlignment) {
  using T = TypeParam;
  const Shape shape{16, 16, 16};
  WithEachInstructionSet([&] {
    std::vector<Item<T>> matrices;
    for (std::uint64_t i = 0; i < 16; ++i) matrices.push_back({.a = Normal<T>(16, 16, kSeed + i)});
    const auto reflectors = Packed(shape, matrices);
    auto applied = reflectors;
    for (Item<T>& item : applied) item.rhs = Normal<T>(16, 16, kSeed);
    const auto check = [&](const Problem& problem, const std::vector<Item<T>>& items) {
      for (const auto& way :
           {AllAtOnce<T>(), AcrossMatrices<T>(1), AcrossColumns<T>(), AcrossRows<T>()}) {
        const auto aligned = RunBatch(problem, shape, items, way);
        const auto odd = RunBatch(problem, shape, items, way, -1, alignof(T));
        for (std::size_t i = 0; i < items.size(); ++i) EXPECT_TRUE(SameBits(odd[i], aligned[i]));
      }
    };
    for (bool columns : {false, true}) {
      check({.q = QMode::kComplete, .r = true, .reflectors = true, .column_major = columns},
            matrices);
      check({.op = Op::kFormQ, .q = QMode::kReduced, .column_major = columns}, reflectors);
      for (bool right : {false, true}) {
        check({.op = Op::kApplyQ,
               .right = right,
               .column_major = columns,
               .rhs_column_major = !columns},
              applied);
      }
    }
  });
}

// Each way's, that is.
TYPED_TEST(CpuMemory, ScratchGrowsWithEveryDimension) {
  using T = TypeParam;
  const std::vector<int> sizes = {0,  1,  2,  3,  7,  8,  9,   15,  16,
                                  17, 31, 33, 63, 64, 65, 100, 129, 300};
  WithEachInstructionSet([&] {
    for (Op op : {Op::kFactorize, Op::kFormQ, Op::kApplyQ, Op::kSolve}) {
      for (int variant = 0; variant < 4; ++variant) {
        const Problem problem{
            .op = op,
            .q = op == Op::kFactorize || op == Op::kFormQ ? QMode::kComplete : QMode::kNone,
            .r = op == Op::kFactorize,
            .right = op == Op::kApplyQ && (variant & 1) != 0,
            .column_major = (variant & 2) != 0};
        const auto bytes = [&](int m, int n, int p) {
          const Run<T> run{.m = m, .n = n, .p = p};
          return Bytes{cpu::AcrossMatricesScratchBytes(problem, run),
                       cpu::AcrossColumnsScratchBytes(problem, run),
                       cpu::AcrossRowsScratchBytes(problem, run)};
        };
        for (std::size_t i = 1; i < sizes.size(); ++i) {
          const int less = sizes[i - 1], more = sizes[i];
          for (int other : sizes) {
            ExpectNoneLess(bytes(less, other, 5), bytes(more, other, 5));
            ExpectNoneLess(bytes(other, less, 5), bytes(other, more, 5));
            ExpectNoneLess(bytes(40, other, less), bytes(40, other, more));
          }
        }
      }
    }
  });
}

// Reflectors in A's place, Q in that of reflectors of its size, op(Q) C in C's.
template <class T>
Way<T> InPlace(const Way<T>& way) {
  return
      [way](const Problem& problem, const Run<T>& run, std::int64_t count, std::uint32_t* status) {
        Run<T> in_place = run;
        const std::int64_t size = count * run.m * (problem.op == Op::kApplyQ ? run.p : run.n);
        if (problem.op == Op::kApplyQ) {
          std::copy_n(run.rhs, size, run.result);
          in_place.rhs = run.result;
        } else {
          T* const place = problem.op == Op::kFormQ ? run.q : run.reflectors;
          std::copy_n(run.a, size, place);
          in_place.a = place;
        }
        way(problem, in_place, count, status);
      };
}

template <class T>
void ExpectSameBitsInPlace(const Problem& problem, const Shape& shape,
                           const std::vector<Item<T>>& items) {
  auto ways = WaysOf<T>(shape, {cpu::Lanes<T>()});
  ways.insert(ways.end(), {AllAtOnce<T>(), Together<T>(1)});
  for (std::size_t way = 0; way < ways.size(); ++way) {
    const auto apart = RunBatch(problem, shape, items, ways[way]);
    const auto in_place = RunBatch(problem, shape, items, InPlace<T>(ways[way]));
    for (std::size_t i = 0; i < items.size(); ++i) {
      EXPECT_TRUE(SameBits(in_place[i], apart[i]))
          << shape.m << " x " << shape.n << ", way " << way << ", matrix " << i;
    }
  }
}

TYPED_TEST(CpuMemory, ResultsMayTakeTheirOperandsPlace) {
  using T = TypeParam;
  WithEachInstructionSet([&] {
    for (const Shape& shape :
         {Shape{5, 5, 3}, Shape{17, 9, 20}, Shape{70, 66, 4}, Shape{300, 4, 2}}) {
      std::vector<Item<T>> matrices;
      for (int i = 0; i < 2 * cpu::Lanes<T>() + 1; ++i) {
        const auto seed = kSeed + static_cast<std::uint64_t>(i);
        matrices.push_back({.a = Normal<T>(shape.m, shape.n, seed)});
      }
      const auto reflectors = Packed(shape, matrices);
      auto left = reflectors, right = reflectors;
      for (Item<T>& item : left) item.rhs = Normal<T>(shape.m, shape.p, kSeed);
      for (Item<T>& item : right) item.rhs = Normal<T>(shape.p, shape.m, kSeed);
      for (bool columns : {false, true}) {
        ExpectSameBitsInPlace(
            {.q = QMode::kReduced, .r = true, .reflectors = true, .column_major = columns}, shape,
            matrices);
        ExpectSameBitsInPlace({.op = Op::kFormQ, .q = QMode::kReduced, .column_major = columns},
                              shape, reflectors);
        ExpectSameBitsInPlace({.op = Op::kApplyQ, .rhs_column_major = columns}, shape, left);
        ExpectSameBitsInPlace({.op = Op::kApplyQ, .right = true, .rhs_column_major = columns},
                              shape, right);
      }
    }
  });
}

}  // namespace
}  // namespace factord::kernels::testing
