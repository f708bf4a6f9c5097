// kFormQ and kApplyQ, against the reflectors applied in long double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/kernels/cpu/instruction_sets.h"
#include "tests/kernels/cpu/packed.h"
#include "tests/kernels/cpu/qr_harness.h"
#include "tests/support/generators.h"
#include "tests/support/residuals.h"

namespace factord::kernels::testing {
namespace {

using factord::testing::Adjoint;
using factord::testing::ApplyRatio;
using factord::testing::Generate;
using factord::testing::Kind;
using factord::testing::kKinds;
using factord::testing::Normal;
using factord::testing::OrthogonalityRatio;

constexpr std::uint64_t kSeed = 20'261'133;

const std::vector<Shape> kShapes = {{1, 1, 1},   {1, 3, 2},    {3, 1, 5},   {4, 4, 4},
                                    {8, 5, 3},   {5, 8, 17},   {16, 16, 1}, {17, 9, 33},
                                    {33, 40, 8}, {40, 33, 16}, {64, 64, 7}, {130, 20, 5}};

// Batches that fill some lanes and some vectors.
template <class T>
std::vector<Item<T>> PackedNormal(const Shape& shape) {
  std::vector<Item<T>> items;
  for (int i = 0; i < cpu::Lanes<T>() + 3; ++i)
    items.push_back({.a = Normal<T>(shape.m, shape.n, kSeed + static_cast<std::uint64_t>(i))});
  return Packed(shape, items);
}

template <class T>
std::vector<T> Identity(int m, int cols) {
  std::vector<T> result(static_cast<std::size_t>(m) * static_cast<std::size_t>(cols));
  for (int j = 0; j < cols; ++j)
    result[static_cast<std::size_t>(j) * static_cast<std::size_t>(m + 1)] = T(1);
  return result;
}

template <class T>
T Nan() {
  return T(std::numeric_limits<Real<T>>::quiet_NaN());
}

template <class T>
class CpuApplyQ : public ::testing::Test {};
TYPED_TEST_SUITE(CpuApplyQ, ElementTypes);

TYPED_TEST(CpuApplyQ, FormsTheProductOfTheReflectorsWhateverRIs) {
  using T = TypeParam;
  WithEachInstructionSet([&] {
    for (const Shape& shape : kShapes) {
      const auto packed = PackedNormal<T>(shape);
      auto without_r = packed;
      for (Item<T>& item : without_r) SetR(shape, Nan<T>(), item.a);
      for (QMode q : {QMode::kReduced, QMode::kComplete}) {
        for (bool column_major : {false, true}) {
          SCOPED_TRACE(::testing::Message() << shape.m << " x " << shape.n);
          const Problem problem{.op = Op::kFormQ, .q = q, .column_major = column_major};
          const auto expected = RunBatch(problem, shape, packed, AllAtOnce<T>());
          const auto results = RunBatch(problem, shape, without_r, AllAtOnce<T>());
          for (std::size_t i = 0; i < packed.size(); ++i) {
            EXPECT_EQ(results[i].status, 0u);
            EXPECT_TRUE(SameBits(results[i], expected[i]));
            const int m = shape.m, cols = static_cast<int>(results[i].q.size()) / m;
            EXPECT_LE(OrthogonalityRatio(results[i].q, m, cols), 1);
            EXPECT_LE(ApplyRatio(packed[i].a, packed[i].tau, m, false, Identity<T>(m, cols),
                                 results[i].q),
                      1);
          }
        }
      }
    }
  });
}

TYPED_TEST(CpuApplyQ, FormedQHasTheBitsOfTheFactorizations) {
  using T = TypeParam;
  WithEachInstructionSet([&] {
    for (const Shape& shape : kShapes) {
      const std::vector<Item<T>> items = {{.a = Normal<T>(shape.m, shape.n, kSeed)}};
      for (QMode q : {QMode::kReduced, QMode::kComplete}) {
        const auto factored =
            RunBatch({.q = q, .column_major = true}, shape, items, AllAtOnce<T>());
        const auto formed = RunBatch({.op = Op::kFormQ, .q = q, .column_major = true}, shape,
                                     Packed(shape, items), AllAtOnce<T>());
        EXPECT_TRUE(SameBits(formed[0].q, factored[0].q)) << shape.m << " x " << shape.n;
      }
    }
  });
}

TYPED_TEST(CpuApplyQ, AppliesTheReflectorsFromEitherSideWhateverRIs) {
  using T = TypeParam;
  WithEachInstructionSet([&] {
    for (const Shape& shape : kShapes) {
      const int m = shape.m, p = shape.p;
      const auto packed = PackedNormal<T>(shape);
      for (int variant = 0; variant < 16; ++variant) {
        const Problem problem{.op = Op::kApplyQ,
                              .right = (variant & 1) != 0,
                              .adjoint = (variant & 2) != 0,
                              .column_major = (variant & 4) != 0,
                              .rhs_column_major = (variant & 8) != 0};
        SCOPED_TRACE(::testing::Message()
                     << m << " x " << shape.n << ", p = " << p << ", variant " << variant);
        // On the right C^H, whose columns are C's rows, is what op(Q)^H is applied to.
        const std::vector<T> c = Generate<T>(Kind::kGradedColumns, m, p, kSeed);
        auto items = packed;
        for (Item<T>& item : items) {
          SetR(shape, Nan<T>(), item.a);
          item.rhs = problem.right ? Adjoint(c, m, p) : c;
        }
        const auto results = RunBatch(problem, shape, items, AllAtOnce<T>());
        for (std::size_t i = 0; i < items.size(); ++i) {
          const std::vector<T>& x = results[i].result;
          EXPECT_EQ(results[i].status, 0u);
          EXPECT_LE(ApplyRatio(packed[i].a, packed[i].tau, m, problem.adjoint != problem.right, c,
                               problem.right ? Adjoint(x, p, m) : x),
                    1);
        }
      }
    }
  });
}

// Q of every kind of matrix, reflectors of one entry and of none among them.
TYPED_TEST(CpuApplyQ, AppliesTheReflectorsOfEveryKind) {
  using T = TypeParam;
  WithEachInstructionSet([&] {
    for (const Shape& shape : {Shape{9, 9, 3}, Shape{20, 35, 4}, Shape{35, 20, 6}}) {
      std::vector<Item<T>> matrices;
      for (Kind kind : kKinds)
        matrices.push_back({.a = Generate<T>(kind, shape.m, shape.n, kSeed)});
      auto items = Packed(shape, matrices);
      for (Item<T>& item : items) item.rhs = Normal<T>(shape.m, shape.p, kSeed);
      for (bool adjoint : {false, true}) {
        const auto results = RunBatch(
            {.op = Op::kApplyQ, .adjoint = adjoint, .column_major = true, .rhs_column_major = true},
            shape, items, AllAtOnce<T>());
        for (std::size_t i = 0; i < items.size(); ++i) {
          EXPECT_LE(ApplyRatio(items[i].a, items[i].tau, shape.m, adjoint, items[i].rhs,
                               results[i].result),
                    1)
              << shape.m << " x " << shape.n << ", " << factord::testing::Name(kKinds[i]);
        }
      }
    }
  });
}

TYPED_TEST(CpuApplyQ, WithoutReflectorsQIsTheIdentity) {
  using T = TypeParam;
  WithEachInstructionSet([&] {
    const std::vector<T> c = Normal<T>(5, 3, kSeed);
    const auto formed = RunBatch({.op = Op::kFormQ, .q = QMode::kComplete}, {5, 0},
                                 std::vector<Item<T>>(2), AllAtOnce<T>());
    const auto applied = RunBatch({.op = Op::kApplyQ, .rhs_column_major = true}, {5, 0, 3},
                                  std::vector<Item<T>>(2, {.rhs = c}), AllAtOnce<T>());
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(formed[i].status | applied[i].status, 0u);
      EXPECT_EQ(formed[i].q, Identity<T>(5, 5));
      EXPECT_TRUE(SameBits(applied[i].result, c));
    }
  });
}

TYPED_TEST(CpuApplyQ, EmptyOperandsAreNoWork) {
  using T = TypeParam;
  WithEachInstructionSet([&] {
    for (const Shape& shape : {Shape{0, 0, 0}, Shape{0, 4, 3}, Shape{4, 3, 0}, Shape{4, 0, 0}}) {
      for (bool right : {false, true}) {
        const std::size_t size = static_cast<std::size_t>(shape.m) * shape.n;
        const std::vector<Item<T>> items(
            3, {.a = std::vector<T>(size, T(1)),
                .tau = std::vector<T>(static_cast<std::size_t>(shape.k()), T(0))});
        for (const Result<T>& x :
             RunBatch({.op = Op::kApplyQ, .right = right}, shape, items, AllAtOnce<T>()))
          EXPECT_EQ(x.status, 0u);
      }
    }
  });
}

}  // namespace
}  // namespace factord::kernels::testing
