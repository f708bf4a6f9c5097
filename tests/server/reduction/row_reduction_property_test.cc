// Random rows, cuts, orders and merges; seeds printed.
#include <algorithm>
#include <cmath>

#include "gtest/gtest.h"
#include "server/reduction/row_reduction.h"
#include "tests/server/reduction/reducer.h"
#include "tests/support/residuals.h"

namespace factord::testing {
namespace {

template <class T>
class RowReductionProperty : public ::testing::Test {};
using Types = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(RowReductionProperty, Types);

// The rows of a column-major m x n matrix, one after another.
template <class T>
std::vector<T> RowsOf(const std::vector<T>& A, std::int64_t m, std::int64_t n) {
  return Transposed(A, m, n);
}

template <class T>
std::vector<T> Identity(std::int64_t m) {
  std::vector<T> I(static_cast<std::size_t>(m * m), T(0));
  for (std::int64_t i = 0; i < m; ++i) I[static_cast<std::size_t>(i * (m + 1))] = T(1);
  return I;
}

// (A I), whose R is (R Q^H): so the Q that a tree of blocks implies can be checked as any other.
template <class T>
Ratios TreeRatios(const std::vector<T>& A, std::int64_t m, std::int64_t n, std::int64_t block_rows,
                  std::uint64_t seed) {
  std::vector<T> augmented = A;
  const std::vector<T> I = Identity<T>(m);
  augmented.insert(augmented.end(), I.begin(), I.end());
  Reducer reducer({.dtype = TypeOf<T>(), .n = n, .nrhs = m, .block_rows = block_rows}, seed);
  reducer.AppendInPieces(BytesOf(RowsOf(augmented, m, n + m)), 4096);
  const Reduced& result = reducer.Finish();
  EXPECT_EQ(result.rows, m);
  const std::vector<T> top = reducer.R<T>();
  const std::int64_t k = std::min(m, n);
  std::vector<T> R(static_cast<std::size_t>(k * n)), Q(static_cast<std::size_t>(m * k));
  for (std::int64_t i = 0; i < k; ++i) {
    const T* row = top.data() + i * (n + m);
    for (std::int64_t j = 0; j < n; ++j) R[static_cast<std::size_t>(i + j * k)] = row[j];
    for (std::int64_t j = 0; j < m; ++j) {
      T q = row[n + j];
      if constexpr (!std::is_floating_point_v<T>) q = std::conj(q);
      Q[static_cast<std::size_t>(j + i * m)] = q;
    }
  }
  return QrRatios(A, Q, R, m, n);
}

TYPED_TEST(RowReductionProperty, TheBitsAreThoseOfTheOrderOfTheRows) {
  using T = TypeParam;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const auto between = [&](std::int64_t low, std::int64_t high) {
      return std::uniform_int_distribution<std::int64_t>(low, high)(random);
    };
    const std::int64_t n = between(1, 12), nrhs = between(0, 3), m = between(0, 3000);
    const ReductionOptions options{.dtype = TypeOf<T>(),
                                   .n = n,
                                   .nrhs = nrhs,
                                   .solve = nrhs > 0,
                                   .block_rows = between(1, 60)};
    const std::vector<T> rows = RowsOf(Normal<T>(m, n + nrhs, seed), m, n + nrhs);
    std::vector<T> expected, expected_x;
    for (int run = 0; run < 4; ++run) {
      Reducer reducer(options, seed * 100 + static_cast<std::uint64_t>(run));
      reducer.AppendInPieces(BytesOf(rows), run == 0 ? rows.size() * sizeof(T) + 1
                                                     : static_cast<std::size_t>(between(1, 9999)));
      const Reduced& result = reducer.Finish();
      const std::vector<T> R = reducer.R<T>();
      const std::vector<T> x = Values<T>(result.solution.x, nrhs > 0 ? n * nrhs : 0);
      ASSERT_EQ(result.rows, m);
      if (run == 0) {
        expected = R;
        expected_x = x;
      }
      ASSERT_EQ(R.size(), expected.size());
      ASSERT_TRUE(std::equal(R.begin(), R.end(), expected.begin()));
      ASSERT_TRUE(std::equal(x.begin(), x.end(), expected_x.begin()));
    }
  }
}

TYPED_TEST(RowReductionProperty, TheContractHoldsForEveryKindOfMatrix) {
  using T = TypeParam;
  for (Kind kind : kKinds) {
    for (std::int64_t block_rows : {3, 16}) {
      const std::int64_t m = 90, n = 7;
      const std::vector<T> A = Generate<T>(kind, m, n, 3);
      const Ratios ratios = TreeRatios(A, m, n, block_rows, 5);
      EXPECT_TRUE(ratios.Hold()) << Name(kind) << ", blocks of " << block_rows << ": "
                                 << ratios.residual << ", " << ratios.orthogonality;
    }
  }
}

// Tall enough for three levels, and wider than the blocks.
TYPED_TEST(RowReductionProperty, TheContractHoldsForEveryHeight) {
  using T = TypeParam;
  for (std::int64_t m = 1; m <= 200; m += m < 40 ? 1 : 13) {
    const std::vector<T> A = Normal<T>(m, 8, static_cast<std::uint64_t>(m));
    EXPECT_TRUE(TreeRatios(A, m, 8, 2, 11).Hold()) << m;
    EXPECT_TRUE(TreeRatios(A, m, 8, 16, 11).Hold()) << m;
  }
}

// Sizes and part counts on which split QR went wrong elsewhere.
TYPED_TEST(RowReductionProperty, SizesAndPartsThatOthersGotWrong) {
  using T = TypeParam;
  struct Case {
    std::int64_t m, n, parts;
  };
  for (const auto& [m, n, parts] :
       {Case{44, 54, 2}, Case{52, 32, 3}, Case{47, 43, 2}, Case{38, 31, 12}}) {
    const std::vector<T> A = Normal<T>(m, n, 1);
    EXPECT_TRUE(TreeRatios(A, m, n, (m + parts - 1) / parts, 2).Hold()) << m << "x" << n;
  }
}

// R of any number of blocks is that of one, but for the signs of its rows and rounding.
TEST(RowReductionBlocks, TheirNumberChangesSignsAndRoundingOnly) {
  const std::int64_t m = 10'000, n = 12;
  const std::vector<double> rows = RowsOf(Normal<double>(m, n, 4), m, n);
  std::vector<double> expected;
  for (std::int64_t parts : {1, 2, 3, 5, 8, 17}) {
    Reducer reducer({.n = n, .block_rows = (m + parts - 1) / parts});
    ASSERT_TRUE(reducer.reduction().Append(BytesOf(rows)).ok());
    reducer.Finish();
    std::vector<double> R = reducer.R<double>();
    for (std::int64_t i = 0; i < n; ++i) {
      double* row = R.data() + i * n;
      if (row[i] < 0) std::transform(row, row + n, row, std::negate<>());
    }
    if (parts == 1) expected = R;
    for (std::size_t i = 0; i < R.size(); ++i) {
      ASSERT_NEAR(R[i], expected[i], 1e3 * 0x1p-53 * 100) << parts;  // ||a_j|| is about 100
    }
  }
}

// |R^H R - A^H A| against what the contract allows, in long double.
template <class T>
double GramRatio(const std::vector<T>& rows, const std::vector<T>& R, std::int64_t m,
                 std::int64_t n) {
  using W = std::conditional_t<std::is_floating_point_v<T>, long double, std::complex<long double>>;
  const auto gram = [n](const std::vector<T>& matrix) {
    std::vector<W> sums(static_cast<std::size_t>(n * n), W(0));
    for (std::size_t row = 0; row < matrix.size(); row += static_cast<std::size_t>(n)) {
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          const T& left = matrix[row + static_cast<std::size_t>(i)];
          const W right = W(matrix[row + static_cast<std::size_t>(j)]);
          if constexpr (std::is_floating_point_v<T>) {
            sums[static_cast<std::size_t>(i * n + j)] += W(left) * right;
          } else {
            sums[static_cast<std::size_t>(i * n + j)] += std::conj(W(left)) * right;
          }
        }
      }
    }
    return sums;
  };
  const std::vector<W> expected = gram(rows), got = gram(R);
  const auto norm = [&](std::int64_t j) {
    return std::sqrt(std::abs(expected[static_cast<std::size_t>(j * n + j)]));
  };
  const long double eps = RealOf(TypeOf<T>()) == DType::kF32 ? 0x1p-24L : 0x1p-53L;
  double worst = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      const auto at = static_cast<std::size_t>(i * n + j);
      const long double bound = 2 * 30 * static_cast<long double>(m) * eps * norm(i) * norm(j);
      const long double ratio = std::abs(got[at] - expected[at]) / bound;
      worst = std::max(worst, std::isfinite(ratio) ? static_cast<double>(ratio) : 1e9);
    }
  }
  return worst;
}

// Shards of random sizes, of which some are reduced on streams of their own.
TYPED_TEST(RowReductionProperty, MergedShardsAreAsAccurateAsOneStream) {
  using T = TypeParam;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const std::int64_t m = 2000, n = 9;
    const ReductionOptions options{.dtype = TypeOf<T>(), .n = n, .block_rows = 40};
    const std::vector<T> rows = RowsOf(Normal<T>(m, n, seed), m, n);
    Reducer whole(options, seed);
    for (std::int64_t first = 0; first < m;) {
      const std::int64_t most = std::min<std::int64_t>(m - first, 600);
      const std::int64_t count = std::uniform_int_distribution<std::int64_t>(1, most)(random);
      const auto bytes = BytesOf(rows).subspan(static_cast<std::size_t>(first * n) * sizeof(T),
                                               static_cast<std::size_t>(count * n) * sizeof(T));
      if (random() % 3 == 0) {
        ASSERT_TRUE(whole.reduction().Append(bytes).ok());
      } else {
        Reducer shard(options, seed);
        ASSERT_TRUE(shard.reduction().Append(bytes).ok());
        shard.Finish();
        ASSERT_TRUE(whole.AppendTriangle(count, shard.R<T>()).ok());
      }
      first += count;
    }
    EXPECT_EQ(whole.Finish().rows, m);
    EXPECT_LE(GramRatio(rows, whole.R<T>(), m, n), 1);
  }
}

// Blocks as the server makes them.
TEST(RowReductionBlocks, MillionsOfRows) {
  const std::int64_t m = 1'000'003, n = 4;
  const std::vector<float> rows = Normal<float>(n, m, 9);
  Reducer reducer({.dtype = DType::kF32, .n = n});
  reducer.AppendInPieces(BytesOf(rows), 3 << 20);
  EXPECT_EQ(reducer.Finish().rows, m);
  EXPECT_EQ(reducer.ran().size(), 4u + 1u);  // four blocks of 262144 rows, and the root
  EXPECT_LE(GramRatio(rows, reducer.R<float>(), m, n), 1e-3);
}

TYPED_TEST(RowReductionProperty, LeastSquaresIsAsGoodAsOfTheWholeMatrix) {
  using T = TypeParam;
  for (const auto& [m, n] :
       {std::pair<std::int64_t, std::int64_t>{300, 6}, {40, 12}, {7, 7}, {5, 9}}) {
    for (Kind kind : {Kind::kNormal, Kind::kGradedColumns, Kind::kNearlyDependent, Kind::kRankOne,
                      Kind::kZeroColumn, Kind::kHilbert}) {
      // The shortest solution of so graded columns is more than the engine does.
      if (kind == Kind::kGradedColumns && m < n) continue;
      const std::int64_t nrhs = 2;
      const std::vector<T> A = Generate<T>(kind, m, n, 21), B = Normal<T>(m, nrhs, 22);
      std::vector<T> both = A;
      both.insert(both.end(), B.begin(), B.end());
      Reducer reducer({.dtype = TypeOf<T>(), .n = n, .nrhs = nrhs, .solve = true, .block_rows = 8});
      reducer.AppendInPieces(BytesOf(RowsOf(both, m, n + nrhs)), 500);
      const Reduced& result = reducer.Finish();
      using Real = decltype(std::abs(T{}));
      const SolveRatios ratios =
          LeastSquaresRatios(A, B, Transposed(Values<T>(result.solution.x, n * nrhs), nrhs, n),
                             Values<Real>(result.solution.residual_norm, nrhs), m, n);
      EXPECT_TRUE(ratios.Hold()) << Name(kind) << " " << m << "x" << n << ": " << ratios.residual
                                 << ", " << ratios.norm;
    }
  }
}

}  // namespace
}  // namespace factord::testing
