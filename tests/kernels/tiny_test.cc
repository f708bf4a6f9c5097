// The tiny kernels: every shape up to 12 x 12 and those around the turns up to 32 x 32.
#include "kernels/tiny/tiny.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "tests/kernels/qr_harness.h"
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
using factord::testing::QFromReflectors;
using factord::testing::QrRatios;
using factord::testing::ReflectorRatios;

constexpr std::uint64_t kSeed = 20'261'130;

struct Shape {
  int m, n;
};

std::vector<Shape> Shapes() {
  std::vector<Shape> shapes;
  for (int m = 1; m <= 12; ++m) {
    for (int n = 1; n <= 12; ++n) shapes.push_back({m, n});
  }
  constexpr int kTurns[] = {1, 4, 8, 9, 15, 16, 17, 24, 31, 32};
  for (int m : kTurns) {
    for (int n : kTurns) {
      if (m > 12 || n > 12) shapes.push_back({m, n});
    }
  }
  return shapes;
}

// Fewer where a test looks at much of each.
std::vector<Shape> SomeShapes() {
  return {{1, 1}, {2, 3},  {3, 2},  {4, 4},   {5, 3},   {3, 5},  {8, 8},   {12, 8},
          {8, 9}, {9, 16}, {32, 5}, {17, 16}, {16, 16}, {4, 32}, {32, 17}, {32, 32}};
}

std::size_t At(int i, int j, int rows) {
  return static_cast<std::size_t>(i) + static_cast<std::size_t>(j) * static_cast<std::size_t>(rows);
}

Problem Factorization(int m, int n, QMode q) {
  Problem problem;
  problem.m = m;
  problem.n = n;
  problem.q = q;
  problem.r = true;
  problem.reflectors = true;
  return problem;
}

template <class T>
std::vector<Result<T>> MustRunTiny(const Problem& problem, const std::vector<Item<T>>& items) {
  EXPECT_TRUE(IsTiny(problem));
  return MustRun<T>(problem, items);
}

using testing::AllNan;
template <class T>
bool AllNan(const Result<T>& x) {
  return AllNan(x.q) && AllNan(x.r) && AllNan(x.reflectors) && AllNan(x.tau) && AllNan(x.result);
}

template <class T>
std::vector<Item<T>> EveryKind(int m, int n) {
  std::vector<Item<T>> items;
  for (Kind kind : kKinds) items.push_back({.m = m, .n = n, .a = Generate<T>(kind, m, n, kSeed)});
  return items;
}

// Given reflectors and tau of a random matrix, with NaN where R is: that is ignored.
template <class T>
Item<T> Factors(int m, int n, std::uint64_t seed) {
  auto result = MustRunTiny<T>(Factorization(m, n, QMode::kNone),
                               {{.m = m, .n = n, .a = Normal<T>(m, n, seed)}})[0];
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i <= std::min(j, m - 1); ++i)
      result.reflectors[At(i, j, m)] = std::numeric_limits<T>::quiet_NaN();
  }
  return {.m = m, .n = n, .a = result.reflectors, .tau = result.tau};
}

Problem OnFactors(Op op, int m, int n, int p) {
  Problem problem;
  problem.op = op;
  problem.m = m;
  problem.n = n;
  problem.p = p;
  if (op == Op::kFormQ) problem.q = QMode::kComplete;
  return problem;
}

// The contract's measure, the worst over the columns of an m x q matrix: ||x - y|| against
// 30 order eps ||y|| + order eta.
template <class T>
double ColumnRatio(const std::vector<T>& x, const std::vector<long double>& y, int m, int q,
                   int order) {
  double worst = 0;
  for (int j = 0; j < q; ++j) {
    long double error = 0, size = 0;
    for (int i = 0; i < m; ++i) {
      const long double expected = y[At(i, j, m)], difference = x[At(i, j, m)] - expected;
      error += difference * difference;
      size += expected * expected;
    }
    const long double bound =
        30 * order * std::ldexp(1.0L, sizeof(T) == 4 ? -24 : -53) * std::sqrt(size) +
        order * static_cast<long double>(std::numeric_limits<T>::denorm_min());
    const double ratio = static_cast<double>(std::sqrt(error) / bound);
    worst = ratio <= worst ? worst : ratio;  // NaN stays
  }
  return worst;
}

template <class T>
class Tiny : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Tiny, Types);

TYPED_TEST(Tiny, KeepsTheContractForEveryShapeAndKind) {
  using T = TypeParam;
  for (const auto& [m, n] : Shapes()) {
    std::vector<Item<T>> items = EveryKind<T>(m, n);
    const auto results = MustRunTiny<T>(Factorization(m, n, QMode::kComplete), items);
    for (std::size_t i = 0; i < items.size(); ++i) {
      SCOPED_TRACE(::testing::Message() << m << " x " << n << " " << Name(kKinds[i]));
      const Result<T>& result = results[i];
      if (kKinds[i] == Kind::kNearOverflow && result.status == kResultOutOfRange) continue;
      EXPECT_EQ(result.status, 0u);
      const auto q = QrRatios(items[i].a, result.q, result.r, m, n);
      EXPECT_TRUE(q.Hold()) << q.residual << " " << q.orthogonality;
      const auto h = ReflectorRatios(items[i].a, result.reflectors, result.tau, m, n);
      EXPECT_TRUE(h.Hold()) << h.residual << " " << h.orthogonality;
    }
  }
}

TYPED_TEST(Tiny, BitsDoNotDependOnLayoutOrOnWhatElseIsAskedFor) {
  using T = TypeParam;
  for (const auto& [m, n] : SomeShapes()) {
    const int k = std::min(m, n);
    const std::vector<Item<T>> items(3, {.m = m, .n = n, .a = Normal<T>(m, n, kSeed)});
    const auto whole = MustRunTiny<T>(Factorization(m, n, QMode::kComplete), items);
    for (int choice = 0; choice < 24; ++choice) {
      SCOPED_TRACE(::testing::Message() << m << " x " << n << " choice " << choice);
      Problem problem = Factorization(m, n, static_cast<QMode>(choice / 8));
      problem.r = (choice & 1) != 0;
      problem.reflectors = (choice & 2) != 0;
      problem.column_major = (choice & 4) != 0;
      const auto results = MustRunTiny<T>(problem, items);
      for (std::size_t i = 0; i < items.size(); ++i) {
        std::vector<T> q = whole[i].q;
        q.resize(static_cast<std::size_t>(problem.q == QMode::kNone       ? 0
                                          : problem.q == QMode::kComplete ? m * m
                                                                          : m * k));
        EXPECT_TRUE(SameBits(results[i].q, q));
        if (problem.r) {
          EXPECT_TRUE(SameBits(results[i].r, whole[i].r));
        }
        if (problem.reflectors) {
          EXPECT_TRUE(SameBits(results[i].reflectors, whole[i].reflectors));
          EXPECT_TRUE(SameBits(results[i].tau, whole[i].tau));
        }
      }
    }
  }
}

// By elimination with pivoting. `a`: n x n.
template <class T>
long double Determinant(const std::vector<T>& a, int n) {
  std::vector<long double> x(a.begin(), a.end());
  long double determinant = 1;
  for (int c = 0; c < n; ++c) {
    int pivot = c;
    for (int i = c; i < n; ++i) {
      if (std::fabs(x[At(i, c, n)]) > std::fabs(x[At(pivot, c, n)])) pivot = i;
    }
    if (pivot != c) determinant = -determinant;
    for (int j = 0; j < n; ++j) std::swap(x[At(c, j, n)], x[At(pivot, j, n)]);
    determinant *= x[At(c, c, n)];
    for (int i = c + 1; i < n; ++i) {
      const long double factor = x[At(i, c, n)] / x[At(c, c, n)];
      for (int j = c; j < n; ++j) x[At(i, j, n)] -= factor * x[At(c, j, n)];
    }
  }
  return determinant;
}

TYPED_TEST(Tiny, NonnegativeDiagonal) {
  using T = TypeParam;
  for (const auto& [m, n] : SomeShapes()) {
    std::vector<Item<T>> items = EveryKind<T>(m, n);
    items.push_back(items.back());
    std::fill(items.back().a.begin(), items.back().a.end(), T(-0.0));
    Problem problem = Factorization(m, n, QMode::kComplete);
    problem.reflectors = false;
    problem.sign = Sign::kNonnegative;
    const auto results = MustRunTiny<T>(problem, items);
    for (std::size_t i = 0; i < items.size(); ++i) {
      SCOPED_TRACE(::testing::Message() << m << " x " << n << " item " << i);
      if (results[i].status == kResultOutOfRange) continue;
      const auto ratios = QrRatios(items[i].a, results[i].q, results[i].r, m, n);
      EXPECT_TRUE(ratios.Hold()) << ratios.residual << " " << ratios.orthogonality;
      for (int j = 0; j < std::min(m, n); ++j)
        EXPECT_FALSE(std::signbit(results[i].r[At(j, j, std::min(m, n))])) << j;
    }
    // Zeros on the diagonal, of either sign, keep their columns of Q.
    for (int j = 0; j < m; ++j) EXPECT_EQ(results.back().q[At(j, j, m)], T(1)) << m << " x " << n;
  }
}

TYPED_TEST(Tiny, SpecialOrthogonal) {
  using T = TypeParam;
  for (int n : {1, 2, 3, 4, 5, 8, 11, 16, 31, 32}) {
    std::vector<Item<T>> items = EveryKind<T>(n, n);
    for (std::uint64_t seed = 0; seed < 4; ++seed)
      items.push_back({.m = n, .n = n, .a = Normal<T>(n, n, seed)});
    Problem problem = Factorization(n, n, QMode::kReduced);
    problem.reflectors = false;
    problem.sign = Sign::kSpecialOrthogonal;
    const auto results = MustRunTiny<T>(problem, items);
    for (std::size_t i = 0; i < items.size(); ++i) {
      SCOPED_TRACE(::testing::Message() << n << " item " << i);
      EXPECT_NEAR(static_cast<double>(Determinant(results[i].q, n)), 1, 1e-3);
      if (results[i].status == kResultOutOfRange) continue;
      EXPECT_TRUE(QrRatios(items[i].a, results[i].q, results[i].r, n, n).Hold());
      for (int j = 0; j < n - 1; ++j) EXPECT_GE(results[i].r[At(j, j, n)], T(0));
    }
  }
}

TYPED_TEST(Tiny, FormsQ) {
  using T = TypeParam;
  for (const auto& [m, n] : Shapes()) {
    if (m > 4 && m < 12 && (m + n) % 3 != 0) continue;
    SCOPED_TRACE(::testing::Message() << m << " x " << n);
    const Item<T> item = Factors<T>(m, n, kSeed);
    const std::vector<T> expected = QFromReflectors(item.a, item.tau, m, m);
    for (int variant = 0; variant < 4; ++variant) {
      Problem problem = OnFactors(Op::kFormQ, m, n, 0);
      problem.column_major = (variant & 1) != 0;
      problem.q = (variant & 2) != 0 ? QMode::kReduced : QMode::kComplete;
      const int cols = (variant & 2) != 0 ? std::min(m, n) : m;
      const auto results = MustRunTiny<T>(problem, {item, item});
      EXPECT_TRUE(SameBits(results[0], results[1]));
      EXPECT_EQ(results[0].status, 0u);
      EXPECT_LE(ColumnRatio(results[0].q, {expected.begin(), expected.end()}, m, cols, m), 1);
      EXPECT_LE(OrthogonalityRatio(results[0].q, m, cols), 1);
    }
  }
}

// op(Q) C or C op(Q), C rows x cols, from a Q of m x m.
template <class T>
std::vector<long double> Product(const Problem& problem, const std::vector<T>& q,
                                 const std::vector<T>& c, int m, int rows, int cols) {
  const auto q_at = [&](int i, int j) -> long double {
    return problem.adjoint ? q[At(j, i, m)] : q[At(i, j, m)];
  };
  std::vector<long double> result(c.size());
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < cols; ++j) {
      for (int l = 0; l < m; ++l) {
        result[At(i, j, rows)] +=
            problem.right ? c[At(i, l, rows)] * q_at(l, j) : q_at(i, l) * c[At(l, j, rows)];
      }
    }
  }
  return result;
}

TYPED_TEST(Tiny, AppliesQ) {
  using T = TypeParam;
  for (const auto& [m, n] : SomeShapes()) {
    Item<T> item = Factors<T>(m, n, kSeed);
    const std::vector<T> q = QFromReflectors(item.a, item.tau, m, m);
    for (int p : {1, 7, 35}) {
      item.p = p;
      for (int variant = 0; variant < 16; ++variant) {
        SCOPED_TRACE(::testing::Message()
                     << m << " x " << n << " p " << p << " variant " << variant);
        Problem problem = OnFactors(Op::kApplyQ, m, n, p);
        problem.right = (variant & 1) != 0;
        problem.adjoint = (variant & 2) != 0;
        problem.rhs_column_major = (variant & 4) != 0;
        problem.column_major = (variant & 8) != 0;
        const int rows = problem.right ? p : m, cols = problem.right ? m : p;
        // Graded along what Q does not mix.
        item.rhs = Generate<T>(Kind::kGradedColumns, m, p, kSeed);
        if (problem.right) item.rhs = factord::testing::Transposed(item.rhs, m, p);
        const auto results = MustRunTiny<T>(problem, {item, item});
        EXPECT_TRUE(SameBits(results[0], results[1]));
        EXPECT_EQ(results[0].status, 0u);
        auto expected = Product(problem, q, item.rhs, m, rows, cols);
        std::vector<T> got = results[0].result;
        if (problem.right) {
          expected = factord::testing::Transposed(expected, p, m);
          got = factord::testing::Transposed(got, p, m);
        }
        EXPECT_LE(ColumnRatio(got, expected, m, p, m), 1);
      }
    }
  }
}

// Problems of one class, whatever its kernel: the shapes below fit all of them.
template <class T>
std::vector<Item<T>> Ragged(const Problem& problem, int count) {
  std::mt19937 random(kSeed);
  const auto up_to = [&](int most) { return 1 + static_cast<int>(random() % most); };
  std::vector<Item<T>> items;
  for (int i = 0; i < count; ++i) {
    // Two neighbours of one shape now and then.
    const int m = i % 5 == 1 ? items.back().m : up_to(problem.m);
    const int n = i % 5 == 1 ? items.back().n : up_to(problem.n);
    Item<T> item{.m = m, .n = n, .a = Normal<T>(m, n, kSeed + i)};
    if (problem.op != Op::kFactorize) item = Factors<T>(m, n, kSeed + i);
    if (problem.op == Op::kApplyQ) {
      item.p = i % 5 == 1 ? items.back().p : up_to(problem.p);
      item.rhs = Normal<T>(m, item.p, kSeed + i);
    }
    items.push_back(item);
  }
  return items;
}

std::vector<Problem> OneOfEachOp(int m, int n) {
  std::vector<Problem> problems;
  for (bool flag : {false, true}) {
    problems.push_back(Factorization(m, n, flag ? QMode::kComplete : QMode::kReduced));
    problems.back().sign = flag ? Sign::kSpecialOrthogonal : Sign::kLapack;
    problems.push_back(OnFactors(Op::kFormQ, m, n, 0));
    problems.push_back(OnFactors(Op::kApplyQ, m, n, 20));
    problems.back().right = flag;
    for (std::size_t i = problems.size() - 3; i < problems.size(); ++i) {
      problems[i].column_major = flag;
      problems[i].rhs_column_major = flag;
    }
  }
  return problems;
}

// A batch of one ends where its operands do, so it also shows what is written outside.
TYPED_TEST(Tiny, BitsDependOnTheMatrixAlone) {
  using T = TypeParam;
  for (const auto& [m, n] : {Shape{3, 3}, {4, 4}, {8, 8}, {16, 8}, {32, 6}, {12, 16}, {32, 32}}) {
    for (const Problem& problem : OneOfEachOp(m, n)) {
      SCOPED_TRACE(::testing::Message() << m << " x " << n << " op " << static_cast<int>(problem.op)
                                        << " column-major " << problem.column_major);
      const auto items = Ragged<T>(problem, 25);
      const auto together = MustRunTiny<T>(problem, items);
      const auto again = MustRunTiny<T>(problem, {items.rbegin(), items.rend()});
      for (std::size_t i = 0; i < items.size(); ++i) {
        SCOPED_TRACE(::testing::Message() << "item " << i << ", " << items[i].m << " x "
                                          << items[i].n << " p " << items[i].p);
        EXPECT_TRUE(SameBits(together[i], MustRunTiny<T>(problem, {items[i]})[0]));
        EXPECT_TRUE(SameBits(together[i], again[items.size() - 1 - i]));
      }
    }
  }
}

TYPED_TEST(Tiny, ManyOfOneShape) {
  using T = TypeParam;
#ifdef FACTORD_EMULATED
  constexpr int kCount = 300;
#else
  constexpr int kCount = 100'000;
#endif
  for (const auto& [m, n] : {Shape{3, 3}, {4, 2}, {7, 5}}) {
    Problem problem = Factorization(m, n, QMode::kReduced);
    std::vector<Item<T>> items;
    for (int i = 0; i < 7; ++i)
      items.push_back({.m = m, .n = n, .a = Normal<T>(m, n, kSeed + static_cast<unsigned>(i))});
    const auto few = MustRunTiny<T>(problem, items);
    std::vector<Item<T>> repeated;
    for (std::size_t i = 0; i < kCount; ++i) repeated.push_back(items[i % items.size()]);
    const auto many = MustRunTiny<T>(problem, repeated);
    std::size_t differ = 0;
    for (std::size_t i = 0; i < kCount; ++i) differ += !SameBits(many[i], few[i % items.size()]);
    EXPECT_EQ(differ, 0u) << m << " x " << n;
  }
}

TYPED_TEST(Tiny, BadMatricesFailAlone) {
  using T = TypeParam;
  constexpr T kBad[] = {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity(),
                        -std::numeric_limits<T>::infinity()};
  for (const auto& [m, n] : {Shape{3, 3}, {4, 4}, {7, 5}, {5, 7}, {20, 9}, {32, 32}}) {
    for (const Problem& problem : OneOfEachOp(m, n)) {
      SCOPED_TRACE(::testing::Message()
                   << m << " x " << n << " op " << static_cast<int>(problem.op));
      std::vector<Item<T>> items;
      for (std::uint64_t i = 0; i < 9; ++i) {
        items.push_back(problem.op == Op::kFactorize
                            ? Item<T>{.m = m, .n = n, .a = Normal<T>(m, n, kSeed + i)}
                            : Factors<T>(m, n, kSeed + i));
        if (problem.op != Op::kApplyQ) continue;
        items.back().p = problem.p;
        items.back().rhs = Normal<T>(m, problem.p, kSeed + i);
      }
      const auto good = MustRunTiny<T>(problem, items);
      // Item 1: the last entry that counts; 4 and 6: others.
      items[1].a[At(m - 1, std::min(m - 2, n - 1), m)] = kBad[0];
      (problem.op == Op::kFactorize ? items[4].a.front() : items[4].tau.back()) = kBad[1];
      (problem.op == Op::kApplyQ ? items[6].rhs : items[6].a)[static_cast<std::size_t>(m) - 1] =
          kBad[2];
      const auto results = MustRunTiny<T>(problem, items);
      for (std::size_t i = 0; i < items.size(); ++i) {
        SCOPED_TRACE(i);
        if (i == 1 || i == 4 || i == 6) {
          EXPECT_EQ(results[i].status, kNonfiniteInput);
          EXPECT_TRUE(AllNan(results[i]));
        } else {
          EXPECT_EQ(results[i].status, 0u);
          EXPECT_TRUE(SameBits(results[i], good[i]));
        }
      }
    }
  }
}

// A bad entry far right in C, behind columns that were written before it was seen.
TYPED_TEST(Tiny, BadColumnsOfCSpoilAllOfIt) {
  using T = TypeParam;
  const int m = 6, n = 4, p = 50;
  Item<T> item = Factors<T>(m, n, kSeed);
  item.p = p;
  item.rhs = Normal<T>(m, p, kSeed);
  Item<T> bad = item;
  bad.rhs.back() = std::numeric_limits<T>::infinity();
  const Problem problem = OnFactors(Op::kApplyQ, m, n, p);
  const auto results = MustRunTiny<T>(problem, {item, bad, item});
  EXPECT_TRUE(SameBits(results[0], results[2]));
  EXPECT_EQ(results[0].status, 0u);
  EXPECT_EQ(results[1].status, kNonfiniteInput);
  EXPECT_TRUE(AllNan(results[1]));
}

TYPED_TEST(Tiny, WhatOverflowsIsReported) {
  using T = TypeParam;
  constexpr T kMax = std::numeric_limits<T>::max();
  for (int n : {2, 3, 4, 8, 9, 32}) {
    SCOPED_TRACE(n);
    std::vector<Item<T>> items(3, {.m = n, .n = n, .a = Normal<T>(n, n, kSeed)});
    std::fill(items[1].a.begin(), items[1].a.end(), kMax);
    Problem problem = Factorization(n, n, QMode::kReduced);
    const auto results = MustRunTiny<T>(problem, items);
    EXPECT_EQ(results[0].status, 0u);
    EXPECT_EQ(results[1].status, kResultOutOfRange);
    EXPECT_EQ(results[2].status, 0u);
    EXPECT_LE(OrthogonalityRatio(results[1].q, n, n), 1);
    problem.r = problem.reflectors = false;
    EXPECT_EQ(MustRunTiny<T>(problem, items)[1].status, 0u);  // Q alone is in range

    // Q^T C for C = A: R again.
    Item<T> item;
    {
      std::vector<T> ones(items[1].a.size(), T(1));
      auto factors =
          MustRunTiny<T>(Factorization(n, n, QMode::kNone), {{.m = n, .n = n, .a = ones}})[0];
      item = {
          .m = n, .n = n, .p = n, .a = factors.reflectors, .tau = factors.tau, .rhs = items[1].a};
    }
    Problem apply = OnFactors(Op::kApplyQ, n, n, n);
    apply.adjoint = true;
    EXPECT_EQ(MustRunTiny<T>(apply, {item})[0].status, kResultOutOfRange);

    // Reflectors that are none.
    std::fill(item.a.begin(), item.a.end(), kMax);
    EXPECT_EQ(MustRunTiny<T>(OnFactors(Op::kFormQ, n, n, 0), {item})[0].status, kResultOutOfRange);
  }
}

}  // namespace
}  // namespace factord::kernels::testing
