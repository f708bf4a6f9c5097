// RunQr end to end: every operation and path, against the accuracy that the API promises.
#include "kernels/qr.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
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

struct Shape {
  int m, n;
};

// One on each side of every turn of the plan, and some of each path; more where the arithmetic is
// fast.
std::vector<Shape> Shapes() {
  std::vector<Shape> shapes = {{1, 1},    {3, 3},    {8, 5},    {5, 8},    {32, 32},
                               {33, 32},  {32, 33},  {33, 1},   {1, 33},   {40, 40},
                               {64, 64},  {65, 64},  {64, 65},  {72, 40},  {40, 72},
                               {129, 24}, {100, 7},  {192, 16}, {193, 9},  {200, 72},
                               {260, 33}, {30, 200}, {520, 9},  {1030, 9}, {1100, 72}};
#ifndef FACTORD_EMULATED
  for (int n : {96, 128, 129, 160, 176, 192, 193, 224, 257, 320, 352, 384, 385, 512, 513, 700}) {
    shapes.push_back({n, n});
    if (n < 400) shapes.insert(shapes.end(), {{2 * n + 1, n}, {n, 2 * n + 3}});
  }
  shapes.insert(shapes.end(), {{2048, 300}, {4100, 60}, {30'000, 17}, {100'000, 8}, {5000, 129}});
#endif
  return shapes;
}

constexpr std::uint64_t kSeed = 20'261'130;

Problem Factorization(int m, int n, QMode q) {
  Problem problem;
  problem.m = m;
  problem.n = n;
  problem.q = q;
  problem.r = true;
  return problem;
}

// Column c of a column-major matrix.
template <class T>
long double Norm(const std::vector<T>& x, std::int64_t first, std::int64_t count) {
  long double sum = 0;
  for (std::int64_t i = first; i < first + count; ++i) {
    const auto value = static_cast<long double>(x[static_cast<std::size_t>(i)]);
    sum += value * value;
  }
  return std::sqrt(sum);
}

template <class T>
long double Eps() {
  return std::ldexp(1.0L, sizeof(T) == 4 ? -24 : -53);
}

template <class T>
class Qr : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Qr, Types);

// All kinds for small matrices, a few in turn for larger ones: the reference takes O(m n k) steps
// in long double.
std::vector<Kind> KindsFor(const Shape& shape, std::size_t turn) {
  const double steps = static_cast<double>(shape.m) * shape.n * std::min(shape.m, shape.n);
#ifdef FACTORD_EMULATED
  const std::size_t count = steps < 3e4 ? std::size(kKinds) : 5;
#else
  const std::size_t count = steps < 3e5 ? std::size(kKinds) : steps < 3e7 ? 4 : 1;
#endif
  std::vector<Kind> kinds;
  for (std::size_t i = 0; i < count; ++i) kinds.push_back(kKinds[(turn + i) % std::size(kKinds)]);
  return kinds;
}

TYPED_TEST(Qr, KeepsTheContractForEveryShapeAndKind) {
  using T = TypeParam;
  std::size_t turn = 0;
  for (const Shape& shape : Shapes()) {
    const auto& [m, n] = shape;
    const std::vector<Kind> kinds = KindsFor(shape, turn);
    turn += kinds.size();
    std::vector<Item<T>> items;
    for (Kind kind : kinds) items.push_back({.m = m, .n = n, .a = Generate<T>(kind, m, n, kSeed)});
    const auto results = MustRun<T>(Factorization(m, n, QMode::kReduced), items);
    for (std::size_t i = 0; i < items.size(); ++i) {
      SCOPED_TRACE(::testing::Message() << m << " x " << n << " " << Name(kinds[i]));
      if (results[i].status == kResultOutOfRange && kinds[i] == Kind::kNearOverflow) continue;
      EXPECT_EQ(results[i].status, 0u);
      const auto ratios = factord::testing::QrRatios(items[i].a, results[i].q, results[i].r, m, n);
      EXPECT_LE(ratios.residual, 1);
      EXPECT_LE(ratios.orthogonality, 1);
      EXPECT_TRUE(ratios.triangular);
    }
  }
}

TYPED_TEST(Qr, ReflectorsAreLapacks) {
  using T = TypeParam;
  for (const auto& [m, n] : {Shape{5, 8}, {40, 40}, {65, 64}, {40, 72}, {200, 70}, {1030, 9}}) {
    Problem problem = Factorization(m, n, QMode::kNone);
    problem.r = false;
    problem.reflectors = true;
    std::vector<Item<T>> items;
    for (Kind kind : {Kind::kNormal, Kind::kGradedColumns, Kind::kUpper}) {
      items.push_back({.m = m, .n = n, .a = Generate<T>(kind, m, n, kSeed)});
    }
    for (bool column_major : {false, true}) {
      problem.column_major = column_major;
      const auto results = MustRun<T>(problem, items);
      for (std::size_t i = 0; i < items.size(); ++i) {
        SCOPED_TRACE(::testing::Message() << m << " x " << n << " item " << i);
        const auto ratios = factord::testing::ReflectorRatios(items[i].a, results[i].reflectors,
                                                              results[i].tau, m, n);
        EXPECT_TRUE(ratios.Hold()) << ratios.residual << " " << ratios.orthogonality;
      }
      // Every tail of an upper triangle is zero.
      for (T tau : results[2].tau) EXPECT_EQ(tau, T(0));
    }
  }
}

TYPED_TEST(Qr, CompleteQIsSquareAndOrthogonal) {
  using T = TypeParam;
  for (const auto& [m, n] :
       {Shape{7, 3}, {40, 8}, {72, 40}, {40, 72}, {200, 20}, {9, 0}, {40, 0}}) {
    const std::vector<Item<T>> items = {{.m = m, .n = n, .a = Normal<T>(m, n, kSeed)}};
    for (bool column_major : {false, true}) {
      Problem problem = Factorization(m, n, QMode::kComplete);
      problem.column_major = column_major;
      const auto results = MustRun<T>(problem, items);
      SCOPED_TRACE(::testing::Message() << m << " x " << n);
      EXPECT_LE(factord::testing::OrthogonalityRatio(results[0].q, m, m), 1);
      const auto ratios = factord::testing::QrRatios(items[0].a, results[0].q, results[0].r, m, n);
      EXPECT_LE(ratios.residual, 1);
    }
  }
}

TYPED_TEST(Qr, EmptyMatricesAreNoWork) {
  using T = TypeParam;
  for (const auto& [m, n] : {Shape{0, 0}, {0, 5}, {5, 0}, {0, 50}, {50, 0}}) {
    const std::vector<Item<T>> items(3, {.m = m, .n = n});
    const auto results = MustRun<T>(Factorization(m, n, QMode::kReduced), items);
    for (const Result<T>& result : results) {
      EXPECT_TRUE(result.q.empty() && result.r.empty());
      EXPECT_EQ(result.status, 0u);
    }
  }
}

TYPED_TEST(Qr, SignOptions) {
  using T = TypeParam;
  for (int n : {4, 20, 40, 70}) {
    std::vector<Item<T>> items;
    for (std::uint64_t seed = 0; seed < 4; ++seed)
      items.push_back({.m = n, .n = n, .a = Normal<T>(n, n, seed)});
    Problem problem = Factorization(n, n, QMode::kReduced);
    problem.sign = Sign::kNonnegative;
    const auto nonnegative = MustRun<T>(problem, items);
    problem.sign = Sign::kSpecialOrthogonal;
    const auto special = MustRun<T>(problem, items);
    for (std::size_t i = 0; i < items.size(); ++i) {
      SCOPED_TRACE(::testing::Message() << n << " seed " << i);
      EXPECT_TRUE(
          factord::testing::QrRatios(items[i].a, nonnegative[i].q, nonnegative[i].r, n, n).Hold());
      EXPECT_TRUE(factord::testing::QrRatios(items[i].a, special[i].q, special[i].r, n, n).Hold());
      int negative = 0;
      for (int j = 0; j < n; ++j) {
        const auto diagonal = static_cast<std::size_t>(j) * static_cast<std::size_t>(n + 1);
        EXPECT_GE(nonnegative[i].r[diagonal], T(0));
        negative += special[i].r[diagonal] < T(0);
        if (j < n - 1) {
          EXPECT_GE(special[i].r[diagonal], T(0));
        }
      }
      // det Q = +1: sign(det A) is on R's last diagonal entry; the determinant itself is checked by
      // LU.
      std::vector<long double> q(special[i].q.begin(), special[i].q.end());
      long double determinant = 1;
      for (int c = 0; c < n; ++c) {
        int pivot = c;
        const auto at = [&](int row, int col) -> long double& {
          return q[static_cast<std::size_t>(row) +
                   static_cast<std::size_t>(col) * static_cast<std::size_t>(n)];
        };
        for (int row = c + 1; row < n; ++row) {
          if (std::fabs(at(row, c)) > std::fabs(at(pivot, c))) pivot = row;
        }
        if (pivot != c) {
          determinant = -determinant;
          for (int col = 0; col < n; ++col) std::swap(at(c, col), at(pivot, col));
        }
        determinant *= at(c, c);
        for (int row = c + 1; row < n; ++row) {
          const long double factor = at(row, c) / at(c, c);
          for (int col = c; col < n; ++col) at(row, col) -= factor * at(c, col);
        }
      }
      EXPECT_NEAR(static_cast<double>(determinant), 1, 1e-3);
      EXPECT_LE(negative, 1);
    }
  }
}

TYPED_TEST(Qr, FormsAndAppliesQ) {
  using T = TypeParam;
  for (const Shape& shape : {Shape{8, 5}, {5, 8}, {40, 40}, {72, 40}, {40, 72}, {200, 70}}) {
    const int m = shape.m, n = shape.n;
    SCOPED_TRACE(::testing::Message() << m << " x " << n);
    const int p = 11;
    Problem factor = Factorization(m, n, QMode::kNone);
    factor.reflectors = true;
    const auto factors = MustRun<T>(factor, {{.m = m, .n = n, .a = Normal<T>(m, n, kSeed)}})[0];
    Item<T> item{.m = m, .n = n, .a = factors.reflectors, .tau = factors.tau};
    // What is on and above the diagonal is R, and ignored.
    for (int j = 0; j < n; ++j) {
      for (int i = 0; i <= std::min(j, m - 1); ++i) {
        item.a[static_cast<std::size_t>(i) +
               static_cast<std::size_t>(j) * static_cast<std::size_t>(m)] =
            std::numeric_limits<T>::quiet_NaN();
      }
    }
    const std::vector<T> q =
        factord::testing::QFromReflectors(factors.reflectors, factors.tau, m, m);

    Problem form;
    form.op = Op::kFormQ;
    form.m = m;
    form.n = n;
    form.q = QMode::kComplete;
    const auto formed = MustRun<T>(form, {item})[0];
    EXPECT_EQ(formed.status, 0u);
    EXPECT_LE(factord::testing::OrthogonalityRatio(formed.q, m, m), 1);
    for (int c = 0; c < m; ++c) {
      std::vector<T> difference(static_cast<std::size_t>(m));
      for (int i = 0; i < m; ++i) {
        const auto at =
            static_cast<std::size_t>(i) + static_cast<std::size_t>(c) * static_cast<std::size_t>(m);
        difference[static_cast<std::size_t>(i)] = formed.q[at] - q[at];
      }
      EXPECT_LE(Norm(difference, 0, m), 30 * m * Eps<T>()) << "column " << c;
    }

    Problem apply = form;
    apply.op = Op::kApplyQ;
    apply.q = QMode::kNone;
    apply.p = p;
    item.p = p;
    for (int variant = 0; variant < 8; ++variant) {
      apply.right = variant & 1;
      apply.adjoint = variant & 2;
      apply.rhs_column_major = variant & 4;
      const int rows = apply.right ? p : m, cols = apply.right ? m : p;
      item.rhs = Normal<T>(rows, cols, kSeed + 1);
      const auto applied = MustRun<T>(apply, {item})[0];
      EXPECT_EQ(applied.status, 0u);
      long double error = 0, size = 0;
      for (int i = 0; i < rows; ++i) {
        for (int j = 0; j < cols; ++j) {
          long double expected = 0;
          const auto c_at = [&](int row, int col) {
            return static_cast<long double>(
                item.rhs[static_cast<std::size_t>(row) +
                         static_cast<std::size_t>(col) * static_cast<std::size_t>(rows)]);
          };
          const auto q_at = [&](int row, int col) {
            if (apply.adjoint) std::swap(row, col);
            return static_cast<long double>(
                q[static_cast<std::size_t>(row) +
                  static_cast<std::size_t>(col) * static_cast<std::size_t>(m)]);
          };
          for (int l = 0; l < m; ++l)
            expected += apply.right ? c_at(i, l) * q_at(l, j) : q_at(i, l) * c_at(l, j);
          const long double got =
              applied.result[static_cast<std::size_t>(i) +
                             static_cast<std::size_t>(j) * static_cast<std::size_t>(rows)];
          error += (got - expected) * (got - expected);
          size += expected * expected;
        }
      }
      EXPECT_LE(std::sqrt(error / size), 30 * m * Eps<T>()) << "variant " << variant;
    }
  }
}

TYPED_TEST(Qr, SolvesLeastSquares) {
  using T = TypeParam;
  for (const auto& [m, n] : {Shape{3, 1}, {8, 8}, {33, 5}, {60, 60}, {200, 70}, {40, 0}}) {
    for (bool column_major : {false, true}) {
      SCOPED_TRACE(::testing::Message() << m << " x " << n);
      const int p = 3;
      Problem problem;
      problem.op = Op::kSolve;
      problem.m = m;
      problem.n = n;
      problem.p = p;
      problem.column_major = column_major;
      problem.rhs_column_major = !column_major;
      Item<T> item{
          .m = m, .n = n, .p = p, .a = Normal<T>(m, n, kSeed), .rhs = Normal<T>(m, p, kSeed + 1)};
      if (m == n) {  // random square ones can be worse than rcond allows to prove
        for (int i = 0; i < n; ++i)
          item.a[static_cast<std::size_t>(i) * static_cast<std::size_t>(n + 1)] += T(3 * n);
      }
      // Units far apart: columns of A and of B.
      for (int i = 0; i < m && n > 0; ++i) item.a[static_cast<std::size_t>(i)] *= T(0x1p40);
      for (int i = 0; i < m; ++i) item.rhs[static_cast<std::size_t>(i)] *= T(0x1p-30);
      Item<T> singular = item;
      if (n > 1) std::copy_n(singular.a.begin(), m, singular.a.begin() + m);
      const auto results = MustRun<T>(problem, {item, singular, item});
      EXPECT_EQ(results[0].status, 0u);
      EXPECT_TRUE(SameBits(results[0], results[2]));
      if (n > 1) {
        EXPECT_EQ(results[1].status, kRankUnproven);
        EXPECT_TRUE(AllNan(results[1].result));
      }
      for (int c = 0; c < p; ++c) {
        std::vector<long double> r(static_cast<std::size_t>(m));
        for (int i = 0; i < m; ++i) {
          r[static_cast<std::size_t>(i)] = item.rhs[static_cast<std::size_t>(i + c * m)];
          for (int j = 0; j < n; ++j) {
            r[static_cast<std::size_t>(i)] -=
                static_cast<long double>(item.a[static_cast<std::size_t>(i + j * m)]) *
                results[0].result[static_cast<std::size_t>(j + c * n)];
          }
        }
        const long double b = Norm(item.rhs, c * m, m), norm = Norm(r, 0, m);
        EXPECT_NEAR(static_cast<double>(norm / b),
                    static_cast<double>(results[0].residual_norm[static_cast<std::size_t>(c)] / b),
                    static_cast<double>(100 * m * Eps<T>()));
        for (int j = 0; j < n; ++j) {  // the residual is orthogonal to each column
          long double dot = 0;
          for (int i = 0; i < m; ++i)
            dot += r[static_cast<std::size_t>(i)] * item.a[static_cast<std::size_t>(i + j * m)];
          EXPECT_LE(std::fabs(dot), 100 * m * Eps<T>() * Norm(item.a, j * m, m) * b)
              << "column " << j;
        }
      }
    }
  }
}

TYPED_TEST(Qr, BadMatricesFailAlone) {
  using T = TypeParam;
  for (const auto& [m, n] : {Shape{6, 6}, {32, 20}, {50, 40}, {200, 30}, {1030, 9}}) {
    SCOPED_TRACE(::testing::Message() << m << " x " << n);
    std::vector<Item<T>> items;
    for (std::uint64_t i = 0; i < 5; ++i)
      items.push_back({.m = m, .n = n, .a = Normal<T>(m, n, kSeed + i)});
    Problem problem = Factorization(m, n, QMode::kReduced);
    problem.reflectors = true;
    const auto good = MustRun<T>(problem, items);
    items[1].a[static_cast<std::size_t>(m * n - 1)] = std::numeric_limits<T>::infinity();
    items[3].a[0] = std::numeric_limits<T>::quiet_NaN();
    const auto results = MustRun<T>(problem, items);
    for (std::size_t i : {0u, 2u, 4u}) EXPECT_TRUE(SameBits(good[i], results[i])) << i;
    for (std::size_t i : {1u, 3u}) {
      EXPECT_EQ(results[i].status, kNonfiniteInput);
      EXPECT_TRUE(AllNan(results[i].q) && AllNan(results[i].r) && AllNan(results[i].reflectors) &&
                  AllNan(results[i].tau));
    }
  }
}

TYPED_TEST(Qr, BitsDoNotDependOnTheBatch) {
  using T = TypeParam;
  // Shapes of one class side by side, as a bucket holds them.
  struct Class {
    Shape largest;
    std::vector<Shape> members;
  };
  const std::vector<Class> classes = {{{8, 8}, {{8, 8}, {7, 8}, {8, 7}, {8, 8}}},
                                      {{20, 20}, {{17, 18}, {20, 20}, {19, 17}}},
                                      {{48, 48}, {{41, 48}, {48, 41}, {44, 45}, {48, 48}}},
                                      {{224, 80}, {{200, 70}, {224, 80}, {199, 77}}},
                                      {{1280, 10}, {{1030, 9}, {1280, 10}}}};
  for (const Class& c : classes) {
    Problem problem = Factorization(c.largest.m, c.largest.n, QMode::kReduced);
    problem.reflectors = true;
    std::vector<Item<T>> items;
    for (const Shape& shape : c.members) {
      items.push_back({.m = shape.m, .n = shape.n, .a = Normal<T>(shape.m, shape.n, kSeed)});
    }
    const auto together = MustRun<T>(problem, items);
    for (std::size_t i = 0; i < items.size(); ++i) {
      const auto alone = MustRun<T>(problem, {items[i]});
      EXPECT_TRUE(SameBits(alone[0], together[i])) << items[i].m << " x " << items[i].n;
      const auto many = MustRun<T>(problem, std::vector<Item<T>>(9, items[i]));
      for (const Result<T>& result : many) EXPECT_TRUE(SameBits(alone[0], result));
    }
  }
}

TYPED_TEST(Qr, OverflowOfRIsReported) {
  using T = TypeParam;
  for (int n : {4, 30, 50}) {
    std::vector<Item<T>> items(2, {.m = n, .n = n, .a = Normal<T>(n, n, kSeed)});
    items[1].a.assign(items[1].a.size(), std::numeric_limits<T>::max());
    const auto results = MustRun<T>(Factorization(n, n, QMode::kReduced), items);
    EXPECT_EQ(results[0].status, 0u);
    EXPECT_EQ(results[1].status, kResultOutOfRange);
    EXPECT_LE(factord::testing::OrthogonalityRatio(results[1].q, n, n), 1);
  }
}

}  // namespace
}  // namespace factord::kernels::testing
