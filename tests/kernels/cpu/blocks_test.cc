// R alone, across blocks of rows: at every edge of units, folds and blocks, for every kind of
// matrix. There is no Q to judge R by. With A = Q0 R0, in long double, R is the R of some A + E if
// an orthogonal W takes R0 to nearly R. Such a W, nearly the best, comes from the QR of both, their
// columns scaled to unit length and in the order in which R0's are pivoted: R0 P = U0 S0, R P = U
// S, W = U U0^T, R - W R0 = U (S - S0) P^T, however close to dependent columns are. E's columns are
// held to the contract's bound, 30 m eps ||a_j|| + m eta. (A^T A = R^T R would not see what is lost
// of R's small entries.)
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

namespace factord::kernels::testing {
namespace {

using factord::testing::Generate;
using factord::testing::Kind;
using factord::testing::kKinds;
using factord::testing::Name;
using factord::testing::Normal;

constexpr std::uint64_t kSeed = 20'261'136;

using Wide = std::vector<long double>;

std::size_t At(int rows, int i, int j) {
  return static_cast<std::size_t>(i) + static_cast<std::size_t>(j) * static_cast<std::size_t>(rows);
}

long double NormOf(const long double* x, int size) {
  long double sum = 0;
  for (int i = 0; i < size; ++i) sum += x[i] * x[i];
  return std::sqrt(sum);
}

// The R (n x n) of LAPACK's geqrf.
Wide ExactR(Wide x, int m, int n) {
  for (int j = 0; j < n; ++j) {
    long double* const v = &x[At(m, j, j)];
    const int size = m - j;
    const long double norm = NormOf(v, size);
    if (NormOf(v + 1, size - 1) == 0) continue;
    const long double beta = -std::copysign(norm, v[0]);
    const long double alpha = v[0];
    v[0] -= beta;
    for (int k = j + 1; k < n; ++k) {
      long double* const c = &x[At(m, j, k)];
      long double dot = 0;
      for (int i = 0; i < size; ++i) dot += v[i] * c[i];
      for (int i = 0; i < size; ++i) c[i] += v[i] * dot / (beta * (alpha - beta));
    }
    v[0] = beta;
  }
  Wide r(At(n, 0, n));
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i <= j; ++i) r[At(n, i, j)] = x[At(m, i, j)];
  }
  return r;
}

// The columns of x (n x n) from the one that is the farthest from the span of those before it on.
std::vector<int> PivotsOf(Wide x, int n) {
  std::vector<int> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const auto norm = [&](int k) { return NormOf(&x[At(n, 0, k)], n); };
  for (auto next = order.begin(); next != order.end(); ++next) {
    std::iter_swap(
        next, std::max_element(next, order.end(), [&](int k, int l) { return norm(k) < norm(l); }));
    const long double* const q = &x[At(n, 0, *next)];
    const long double square = norm(*next) * norm(*next);
    for (auto other = next + 1; square > 0 && other != order.end(); ++other) {
      long double* const c = &x[At(n, 0, *other)];
      const long double dot = std::inner_product(q, q + n, c, 0.0L);
      for (int i = 0; i < n; ++i) c[i] -= q[i] * (dot / square);
    }
  }
  return order;
}

// The R of x's columns in this order, with a diagonal >= 0.
Wide OrderedR(const Wide& x, const std::vector<int>& order, int n) {
  Wide ordered;
  for (int k : order) ordered.insert(ordered.end(), &x[At(n, 0, k)], &x[At(n, 0, k)] + n);
  Wide r = ExactR(ordered, n, n);
  for (int i = 0; i < n; ++i) {
    if (r[At(n, i, i)] >= 0) continue;
    for (int j = i; j < n; ++j) r[At(n, i, j)] *= -1;
  }
  return r;
}

// 1 is the bound.
template <class T>
double ResidualRatio(const std::vector<T>& a, const Wide& exact, const std::vector<T>& r, int m,
                     int n) {
  const long double eps = sizeof(T) == 4 ? 0x1p-24L : 0x1p-53L;
  const long double eta = std::numeric_limits<T>::denorm_min();
  const Wide wide(a.begin(), a.end());
  Wide x = exact, y(r.begin(), r.end()), norms;
  for (int j = 0; j < n; ++j) {
    norms.push_back(NormOf(&wide[At(m, 0, j)], m));
    for (int i = 0; i < n; ++i) {
      x[At(n, i, j)] /= norms.back() == 0 ? 1 : norms.back();
      y[At(n, i, j)] /= norms.back() == 0 ? 1 : norms.back();
    }
  }
  const std::vector<int> order = PivotsOf(x, n);
  const Wide s0 = OrderedR(x, order, n), s = OrderedR(y, order, n);
  double worst = 0;
  for (int j = 0; j < n; ++j) {
    Wide difference;
    for (int i = 0; i < n; ++i) difference.push_back(s[At(n, i, j)] - s0[At(n, i, j)]);
    const long double norm = norms[static_cast<std::size_t>(order[static_cast<std::size_t>(j)])];
    const long double error = NormOf(difference.data(), n);
    const long double bound = 30 * m * eps + (norm == 0 ? 0 : m * eta / norm);
    if (std::isnan(error)) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, static_cast<double>(error / bound));
  }
  return worst;
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
    std::vector<Wide> exact;
    for (const Item<T>& item : items) {
      exact.push_back(ExactR({item.a.begin(), item.a.end()}, m, n));
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
          Judge(items[i].a, exact[i], results[i], shape, kinds[i % kinds.size()]);
        }
      }
    });
  }

  static void Judge(const std::vector<T>& a, const Wide& exact, const Result<T>& x,
                    const Shape& shape, Kind kind) {
    const int n = shape.n;
    EXPECT_EQ(x.status, 0u);
    EXPECT_LE(ResidualRatio(a, exact, x.r, shape.m, n), 1);
    for (int j = 0; j < n; ++j) {
      for (int i = j + 1; i < n; ++i) EXPECT_EQ(x.r[At(n, i, j)], T(0));
      if (kind != Kind::kNormal || shape.m < 2 * n) continue;  // signs are a matter of rounding
      EXPECT_EQ(std::signbit(x.r[At(n, j, j)]), std::signbit(exact[At(n, j, j)])) << "sign " << j;
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
