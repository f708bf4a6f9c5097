// R alone of tall, skinny matrices, on RunTsqr itself: few rows and few blocks suffice to come by
// every turn.
#include "kernels/tsqr/tsqr.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/kernels/qr_harness.h"
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

constexpr std::uint64_t kSeed = 20'261'130;

struct Shape {
  int m, n;
};

std::size_t At(int i, int j, int rows) {
  return static_cast<std::size_t>(i) + static_cast<std::size_t>(j) * static_cast<std::size_t>(rows);
}

// RunQr on the plan that large matrices of this shape would get, shared by up to `blocks` blocks.
// The parts follow from the class's rows, which may be more than the matrix has.
template <class T>
std::vector<Result<T>> Reduce(const std::vector<Item<T>>& items, bool column_major = false,
                              Sign sign = Sign::kLapack, int blocks = 3) {
  Plan plan;
  plan.tsqr = true;
  plan.dtype = kDtypeOf<T>;
  plan.limits.multiprocessors = blocks;
  plan.problem.r = true;
  plan.problem.sign = sign;
  plan.problem.column_major = column_major;
  plan.problem.m = blocks * 2048;
  for (const Item<T>& item : items) {
    plan.problem.m = std::max(plan.problem.m, item.m);
    plan.problem.n = std::max(plan.problem.n, item.n);
  }
  cudaError_t error = cudaSuccess;
  auto results = QrBatch<T>(plan.problem, items).Run(plan, &error);
  EXPECT_EQ(error, cudaSuccess) << cudaGetErrorString(error);
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
  return results;
}

template <class T>
Item<T> Of(const Shape& shape, std::vector<T> a) {
  return {.m = shape.m, .n = shape.n, .a = std::move(a)};
}

template <class T>
void ExpectGood(const Item<T>& item, const Result<T>& result) {
  EXPECT_EQ(result.status, 0u);
  const RAlone<T> exact(item.a, item.m, item.n);
  EXPECT_LE(exact.ResidualRatio(result.r), 1);
  EXPECT_TRUE(exact.HasSigns(result.r));
  for (int j = 0; j < item.n; ++j) {
    for (int i = j + 1; i < item.n; ++i) EXPECT_EQ(result.r[At(i, j, item.n)], T(0));
  }
}

template <class T>
class Tsqr : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Tsqr, Types);

TYPED_TEST(Tsqr, AccurateForEveryKindOfMatrix) {
  using T = TypeParam;
  for (const Shape& shape : {Shape{700, 3}, {1500, 8}, {600, 12}, {300, 33}}) {
    for (Kind kind : kKinds) {
      SCOPED_TRACE(::testing::Message() << shape.m << " x " << shape.n << " " << Name(kind));
      const Item<T> item = Of(shape, Generate<T>(kind, shape.m, shape.n, kSeed));
      const Result<T> result = Reduce<T>({item})[0];
      if (kind == Kind::kNearOverflow && result.status == kResultOutOfRange) continue;
      ExpectGood(item, result);
    }
  }
}

// Around a fold's and a tile's rows, and where rows do not go round all blocks.
TYPED_TEST(Tsqr, AccurateForEveryShape) {
  using T = TypeParam;
  for (int n : {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 32, 33, 64}) {
    for (int m : {n, n + 1, n + 31, 256 + n, 257 + n, 513 + n, 2300}) {
      for (bool column_major : {false, true}) {
        SCOPED_TRACE(::testing::Message() << m << " x " << n << (column_major ? " columns" : ""));
        const Item<T> item = Of({m, n}, Normal<T>(m, n, kSeed + static_cast<std::uint64_t>(m)));
        ExpectGood(item, Reduce<T>({item}, column_major)[0]);
      }
    }
  }
}

TYPED_TEST(Tsqr, NonnegativeDiagonal) {
  using T = TypeParam;
  for (int n : {5, 8, 20}) {
    const Item<T> item = Of({600, n}, Normal<T>(600, n, kSeed));
    const Result<T> lapack = Reduce<T>({item})[0];
    const Result<T> result = Reduce<T>({item}, false, Sign::kNonnegative)[0];
    for (int i = 0; i < n; ++i) {
      EXPECT_GE(result.r[At(i, i, n)], T(0));
      const T flip = lapack.r[At(i, i, n)] < T(0) ? T(-1) : T(1);
      for (int j = i; j < n; ++j)
        EXPECT_EQ(result.r[At(i, j, n)], flip * lapack.r[At(i, j, n)]) << i << ", " << j;
    }
  }
}

// What the sample of rows that chooses the scales can not know of.
TYPED_TEST(Tsqr, AccurateWhateverTheSampleMisses) {
  using T = TypeParam;
  const T huge = sizeof(T) == 4 ? T(1e30) : T(1e250), tiny = sizeof(T) == 4 ? T(1e-30) : T(1e-250);
  const Shape shape{5000, 6};
  struct Case {
    const char* name;
    T value;      // of one entry in a column ...
    bool others;  // whose others are normal, not zero
  };
  for (const Case& c :
       {Case{"one among zeros", T(1), false},
        {"huge among zeros", huge, false},
        {"tiny among zeros", tiny, false},
        {"huge among others", huge, true},
        {"subnormal among zeros", std::numeric_limits<T>::denorm_min() * 100, false}}) {
    SCOPED_TRACE(c.name);
    Item<T> item = Of(shape, Normal<T>(shape.m, shape.n, kSeed));
    if (!c.others) {
      for (int i = 0; i < shape.m; ++i) item.a[At(i, 2, shape.m)] = T(0);
    }
    item.a[At(shape.m - 1, 2, shape.m)] = c.value;  // the sample is every 78th row from the first
    ExpectGood(item, Reduce<T>({item})[0]);
  }
}

TYPED_TEST(Tsqr, ABadMatrixFailsAlone) {
  using T = TypeParam;
  for (int n : {3, 8, 64}) {
    std::vector<Item<T>> items;
    for (std::uint64_t i = 0; i < 4; ++i) items.push_back(Of({900, n}, Normal<T>(900, n, i)));
    const auto good = Reduce<T>(items);
    items[1].a[At(899, 1, 900)] = std::numeric_limits<T>::quiet_NaN();
    items[2].a[At(0, 0, 900)] = -std::numeric_limits<T>::infinity();
    const auto mixed = Reduce<T>(items);
    for (std::size_t i : {0u, 3u}) EXPECT_TRUE(SameBits(good[i], mixed[i])) << i;
    for (std::size_t i : {1u, 2u}) {
      EXPECT_EQ(mixed[i].status, kNonfiniteInput);
      EXPECT_TRUE(AllNan(mixed[i].r));
    }
  }
}

TYPED_TEST(Tsqr, WhatOverflowsSaysSo) {
  using T = TypeParam;
  Item<T> item = Of({400, 2}, std::vector<T>(800, std::numeric_limits<T>::max()));
  EXPECT_EQ(Reduce<T>({item})[0].status, kResultOutOfRange);
}

// Alone, among copies, and among neighbours of its class.
TYPED_TEST(Tsqr, BitsDoNotDependOnTheBatch) {
  using T = TypeParam;
  for (int n : {4, 7, 8, 24}) {
    const Item<T> item = Of({1000, n}, Normal<T>(1000, n, kSeed));
    const Item<T> neighbour = Of({777, n}, Normal<T>(777, n, kSeed + 1));
    const Result<T> alone = Reduce<T>({item})[0];
    const auto batch = Reduce<T>({neighbour, item, item, neighbour, item});
    for (std::size_t i : {1u, 2u, 4u}) EXPECT_TRUE(SameBits(alone, batch[i])) << n << ", " << i;
  }
}

// Small enough to stay in the device's cache, so that copies come as soon as they can.
TYPED_TEST(Tsqr, BitsAreTheSameEachTime) {
  using T = TypeParam;
#ifdef FACTORD_EMULATED
  constexpr int kRows = 3000, kTimes = 2;
#else
  constexpr int kRows = 65'536, kTimes = 40;
#endif
  for (int n : {4, 8, 16, 32, 64}) {
    const Item<T> item = Of({kRows, n}, Normal<T>(kRows, n, kSeed));
    const Result<T> first = Reduce<T>({item}, false, Sign::kLapack, 132)[0];
    for (int i = 1; i < kTimes; ++i) {
      ASSERT_TRUE(SameBits(first, Reduce<T>({item}, false, Sign::kLapack, 132)[0]))
          << n << ", time " << i;
    }
  }
}

// 16 bytes at a time or entry by entry: a row more before it moves the matrix.
TYPED_TEST(Tsqr, BitsDoNotDependOnTheAlignment) {
  using T = TypeParam;
  for (int n : {4, 8}) {
    const Item<T> item = Of({500, n}, Normal<T>(500, n, kSeed));
    const Item<T> odd = Of({501, 1}, Normal<T>(501, 1, kSeed));
    const auto shifted = Reduce<T>({odd, item});
    const auto aligned = Reduce<T>({item, odd});
    EXPECT_TRUE(SameBits(shifted[1], aligned[0]));
  }
}

// Powers of two move columns, not bits.
TYPED_TEST(Tsqr, ScalesAreExact) {
  using T = TypeParam;
  for (int n : {6, 8, 20}) {
    const Item<T> item = Of({900, n}, Normal<T>(900, n, kSeed));
    Item<T> scaled = item;
    const auto factor = [](int j) { return std::ldexp(T(1), (j % 2 == 0 ? 3 : -3) * j); };
    for (int j = 0; j < n; ++j) {
      for (int i = 0; i < item.m; ++i) scaled.a[At(i, j, item.m)] *= factor(j);
    }
    const Result<T> expected = Reduce<T>({item})[0], result = Reduce<T>({scaled})[0];
    for (int j = 0; j < n; ++j) {
      for (int i = 0; i <= j; ++i)
        ASSERT_EQ(result.r[At(i, j, n)], expected.r[At(i, j, n)] * factor(j)) << i << ", " << j;
    }
  }
}

TEST(TsqrPlan, TakesWhatIsTallAndSkinnyAndWantsRAlone) {
  Problem problem;
  problem.m = 1 << 20;
  problem.n = 8;
  problem.r = true;
  EXPECT_EQ(PlanQr(problem, Dtype::kF64, {}).path(), "gpu-tsqr");
  Problem other = problem;
  other.q = QMode::kReduced;
  EXPECT_FALSE(IsTsqr(other));
  other = problem;
  other.reflectors = true;
  EXPECT_FALSE(IsTsqr(other));
  other = problem;
  other.n = kMaxTsqrColumns + 1;
  EXPECT_FALSE(IsTsqr(other));
  other = problem;
  other.n = 0;
  EXPECT_FALSE(IsTsqr(other));
  other = problem;
  other.op = Op::kSolve;
  EXPECT_FALSE(IsTsqr(other));
}

}  // namespace
}  // namespace factord::kernels::testing
