// One bad matrix fails alone: with a NaN or an Inf anywhere, in any lane, it is reported, all its
// outputs are NaN, and its neighbours' bits do not change.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "tests/kernels/cpu/instruction_sets.h"
#include "tests/kernels/cpu/packed.h"
#include "tests/kernels/cpu/qr_harness.h"
#include "tests/support/generators.h"

namespace factord::kernels::testing {
namespace {

using factord::testing::Normal;

constexpr std::uint64_t kSeed = 20'261'134;

// Of complex numbers one part alone.
template <class T>
T Spoiled(T x, std::mt19937_64& random) {
  constexpr Real<T> kInfinity = std::numeric_limits<Real<T>>::infinity();
  const Real<T> values[] = {kInfinity, -kInfinity, std::numeric_limits<Real<T>>::quiet_NaN()};
  const Real<T> value = values[random() % 3];
  if constexpr (std::is_floating_point_v<T>) {
    return value;
  } else {
    return random() % 2 == 0 ? T(value, x.imag()) : T(x.real(), value);
  }
}

template <class T>
class CpuIsolation : public ::testing::Test {
 protected:
  // Spoils each matrix in turn, at a random place of operand(item) from those that count.
  template <class Operand, class Counts>
  static void Check(const Problem& problem, const Shape& shape, const std::vector<Item<T>>& items,
                    const Operand& operand, const Counts& counts) {
    std::mt19937_64 random(kSeed);
    bool is_first = true;
    for (const auto& way :
         {AllAtOnce<T>(), AcrossMatrices<T>(cpu::Lanes<T>()), AcrossColumns<T>(), Together<T>(1)}) {
      const auto good = RunBatch(problem, shape, items, way);
      const bool first_way = std::exchange(is_first, false);
      // Every place of a group; where matrices go one by one, some.
      const std::size_t step = first_way ? 1 : items.size() / 4;
      for (std::size_t bad = 0; bad < items.size(); bad += step) {
        auto spoiled = items;
        std::vector<T>& target = operand(spoiled[bad]);
        std::size_t at = random() % target.size();
        while (!counts(at)) at = random() % target.size();
        target[at] = Spoiled(target[at], random);
        SCOPED_TRACE(::testing::Message()
                     << shape.m << " x " << shape.n << ", seed " << kSeed << ", " << target[at]
                     << " at " << at << " of matrix " << bad);
        const auto results = RunBatch(problem, shape, spoiled, way);
        for (std::size_t i = 0; i < items.size(); ++i) {
          if (i == bad) {
            EXPECT_EQ(results[i].status, kNonfiniteInput);
            EXPECT_TRUE(AllNan(results[i]));
          } else {
            EXPECT_TRUE(SameBits(results[i], good[i])) << "matrix " << i;
          }
        }
      }
    }
  }

  static std::vector<Item<T>> Matrices(const Shape& shape) {
    std::vector<Item<T>> items;
    for (int i = 0; i < 2 * cpu::Lanes<T>() + 5; ++i)
      items.push_back({.a = Normal<T>(shape.m, shape.n, kSeed + static_cast<std::uint64_t>(i))});
    return items;
  }

  static std::vector<Item<T>> Reflectors(const Shape& shape) {
    auto items = Packed(shape, Matrices(shape));
    for (Item<T>& item : items) item.rhs = Normal<T>(shape.m, shape.p, kSeed);
    return items;
  }

  static bool Everything(std::size_t) { return true; }
  static std::vector<T>& A(Item<T>& item) { return item.a; }
  static std::vector<T>& Tau(Item<T>& item) { return item.tau; }
  static std::vector<T>& Rhs(Item<T>& item) { return item.rhs; }
};
TYPED_TEST_SUITE(CpuIsolation, ElementTypes);

TYPED_TEST(CpuIsolation, OfFactorize) {
  WithEachInstructionSet([this] {
    for (const Shape& shape : {Shape{1, 1}, Shape{3, 3}, Shape{6, 4}, Shape{4, 9}, Shape{16, 16},
                               Shape{33, 20}, Shape{20, 37}, Shape{100, 3}}) {
      for (bool column_major : {false, true}) {
        this->Check(
            {.q = QMode::kComplete, .r = true, .reflectors = true, .column_major = column_major},
            shape, this->Matrices(shape), this->A, this->Everything);
      }
    }
  });
}

TYPED_TEST(CpuIsolation, OfFormQ) {
  WithEachInstructionSet([this] {
    for (const Shape& shape : {Shape{2, 1}, Shape{4, 4}, Shape{5, 9}, Shape{33, 20}}) {
      const auto below_the_diagonal = [&](std::size_t at) {
        const auto m = static_cast<std::size_t>(shape.m);
        return at % m > at / m;
      };
      const Problem problem{.op = Op::kFormQ, .q = QMode::kReduced, .column_major = true};
      const auto items = this->Reflectors(shape);
      this->Check(problem, shape, items, this->A, below_the_diagonal);
      this->Check(problem, shape, items, this->Tau, this->Everything);
    }
  });
}

TYPED_TEST(CpuIsolation, OfApplyQ) {
  WithEachInstructionSet([this] {
    for (const Shape& shape : {Shape{2, 1, 1}, Shape{4, 4, 3}, Shape{5, 9, 20}, Shape{33, 20, 2}}) {
      const auto below_the_diagonal = [&](std::size_t at) {
        const auto m = static_cast<std::size_t>(shape.m);
        return at % m > at / m;
      };
      for (int variant = 0; variant < 4; ++variant) {
        const Problem problem{.op = Op::kApplyQ,
                              .right = (variant & 1) != 0,
                              .adjoint = (variant & 2) != 0,
                              .rhs_column_major = (variant & 1) != 0};
        const auto items = this->Reflectors(shape);
        this->Check(problem, shape, items, this->A, below_the_diagonal);
        this->Check(problem, shape, items, this->Tau, this->Everything);
        this->Check(problem, shape, items, this->Rhs, this->Everything);
      }
    }
  });
}

TYPED_TEST(CpuIsolation, OfSolve) {
  WithEachInstructionSet([this] {
    for (const Shape& shape : {Shape{1, 1, 1}, Shape{6, 4, 3}, Shape{33, 20, 2}}) {
      auto items = this->Matrices(shape);
      for (auto& item : items) item.rhs = Normal<TypeParam>(shape.m, shape.p, kSeed);
      this->Check({.op = Op::kSolve}, shape, items, this->A, this->Everything);
      this->Check({.op = Op::kSolve}, shape, items, this->Rhs, this->Everything);
    }
  });
}

}  // namespace
}  // namespace factord::kernels::testing
