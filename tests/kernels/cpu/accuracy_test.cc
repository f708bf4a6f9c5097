// The accuracy that the API promises, for every kind of matrix: Q, R and the reflectors, column by
// column in long double. Matrices go in batches that mix the kinds; each has the bits it has alone.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "tests/kernels/cpu/instruction_sets.h"
#include "tests/kernels/cpu/qr_harness.h"
#include "tests/support/generators.h"
#include "tests/support/residuals.h"

namespace factord::kernels::testing {
namespace {

using factord::testing::ApplyRatio;
using factord::testing::Generate;
using factord::testing::Kind;
using factord::testing::kKinds;
using factord::testing::Name;
using factord::testing::QrRatios;
using factord::testing::ReflectorRatios;

constexpr std::uint64_t kSeed = 20'261'130;

std::vector<Shape> SmallShapes() {
  std::vector<Shape> shapes;
  for (int m = 1; m <= 20; ++m) {
    for (int n = 1; n <= 20; ++n) shapes.push_back({m, n});
  }
  return shapes;
}

std::vector<Shape> MediumShapes() {
  std::vector<Shape> shapes;
  for (int m : {31, 32, 33, 47, 64, 65, 100}) {
    for (int n : {1, 8, 9, 17, 32, 33, 64, 80}) shapes.push_back({m, n});
  }
  // On either side of tall.
  shapes.insert(shapes.end(), {{32, 4}, {40, 5}, {79, 5}, {80, 5}, {128, 8}, {255, 16}, {256, 16}});
  return shapes;
}

std::vector<Shape> LargeShapes() {
  return {{128, 128}, {129, 127}, {176, 176}, {256, 130},
          {520, 40},  {40, 300},  {2048, 16}, {300, 1}};
}

// How many matrices of a batch are judged: the reference takes O(m n k) steps in long double, and
// O(m^3) of a complete Q.
std::size_t JudgedOf(const Shape& shape) {
  const double steps = static_cast<double>(shape.m) * shape.n * shape.k();
  return steps < 1e4 ? std::size(kKinds) : steps < 3e4 ? 4 : steps < 2e5 ? 2 : 1;
}
constexpr int kMostRowsOfCompleteQ = 130;

template <class T>
std::vector<T> Identity(int m, int cols) {
  std::vector<T> result(static_cast<std::size_t>(m) * static_cast<std::size_t>(cols));
  for (int j = 0; j < cols; ++j)
    result[static_cast<std::size_t>(j) * static_cast<std::size_t>(m + 1)] = T(1);
  return result;
}

template <class T>
void ExpectAccurate(const std::vector<T>& a, const Result<T>& x, const Shape& shape) {
  const int m = shape.m, n = shape.n;
  EXPECT_EQ(x.status, 0u);
  const auto ratios = QrRatios(a, x.q, x.r, m, n);
  EXPECT_LE(ratios.residual, 1);
  EXPECT_LE(ratios.orthogonality, 1);
  EXPECT_TRUE(ratios.triangular);
  if (x.reflectors.empty()) return;
  const auto reflectors = ReflectorRatios(a, x.reflectors, x.tau, m, n);
  EXPECT_LE(reflectors.residual, 1);
  EXPECT_LE(reflectors.orthogonality, 1);
  EXPECT_LE(ApplyRatio(x.reflectors, x.tau, m, false, Identity<T>(m, shape.k()), x.q), 1);
}

template <class T>
class CpuAccuracy : public ::testing::Test {
 protected:
  // `turn` says which kind comes first.
  static void Check(const Shape& shape, std::size_t turn) {
    const auto lanes = static_cast<std::size_t>(cpu::Lanes<T>());
    const std::size_t count = std::max(2 * lanes + 5, std::size(kKinds) + 1);
    std::vector<Kind> kinds;
    std::vector<Item<T>> items;
    for (std::size_t i = 0; i < count; ++i) {
      kinds.push_back(kKinds[(turn + i) % std::size(kKinds)]);
      items.push_back({.a = Generate<T>(kinds[i], shape.m, shape.n, kSeed + i)});
    }
    for (QMode q : {QMode::kReduced, QMode::kComplete}) {
      if (q == QMode::kComplete && shape.m > kMostRowsOfCompleteQ) continue;
      for (bool column_major : {false, true}) {
        SCOPED_TRACE(::testing::Message() << shape.m << " x " << shape.n
                                          << (q == QMode::kReduced ? " reduced" : " complete")
                                          << (column_major ? " columns" : " rows"));
        const Problem problem{
            .q = q, .r = true, .reflectors = q == QMode::kReduced, .column_major = column_major};
        const auto results = RunBatch(problem, shape, items, AllAtOnce<T>());
        const auto alone = RunBatch(problem, shape, items, OneByOne<T>());
        for (std::size_t i = 0; i < count; ++i) {
          SCOPED_TRACE(::testing::Message() << "matrix " << i << ", " << Name(kinds[i]));
          EXPECT_TRUE(SameBits(results[i], alone[i]));
          if (i < JudgedOf(shape)) ExpectAccurate(items[i].a, results[i], shape);
        }
      }
    }
  }

  static void CheckAll(const std::vector<Shape>& shapes) {
    std::size_t turn = 0;
    WithEachInstructionSet([&] {
      for (const Shape& shape : shapes) {
        Check(shape, turn);
        turn += JudgedOf(shape);
      }
    });
  }
};
TYPED_TEST_SUITE(CpuAccuracy, ElementTypes);

TYPED_TEST(CpuAccuracy, Small) { this->CheckAll(SmallShapes()); }
TYPED_TEST(CpuAccuracy, Medium) { this->CheckAll(MediumShapes()); }
TYPED_TEST(CpuAccuracy, Large) { this->CheckAll(LargeShapes()); }

}  // namespace
}  // namespace factord::kernels::testing
