// Factorize: accuracy for every kind of matrix and shape, exact cases, signs.
#include <cmath>
#include <complex>
#include <limits>

#include "tests/server/engine/engine_harness.h"
#include "tests/server/engine/factorizer_suite.h"
#include "tests/support/r_alone.h"
#include "tests/support/residuals.h"

namespace factord::testing {
namespace {

struct Shape {
  std::int64_t m, n;
};

template <class F>
void ForTypes(F&& f) {
  f(float{});
  f(double{});
  f(std::complex<float>{});
  f(std::complex<double>{});
}

// Every output of one matrix within the bounds, and consistent with the others.
template <class T>
void CheckMatrix(Factorizer& factorizer, Kind kind, Shape shape, Layout layout, QMode q,
                 std::uint64_t seed) {
  SCOPED_TRACE(::testing::Message()
               << Name(DTypeOf<T>()) << ' ' << Name(kind) << ' ' << shape.m << 'x' << shape.n
               << (layout == Layout::kRowMajor ? " rows" : " columns")
               << (q == QMode::kComplete ? " complete" : " reduced") << " seed " << seed);
  const std::vector<T> A = Generate<T>(kind, shape.m, shape.n, seed);
  Spec spec = FactorizeSpec<T>(shape.m, shape.n, q);
  spec.layout = layout;
  const Factors<T> f = Factorize(factorizer, spec, A);
  EXPECT_TRUE(f.failures.empty());
  const Ratios explicit_q = QrRatios(A, f.Q, f.R, shape.m, shape.n);
  EXPECT_LE(explicit_q.residual, 1);
  EXPECT_LE(explicit_q.orthogonality, 1);
  EXPECT_TRUE(explicit_q.triangular);
  const Ratios packed = ReflectorRatios(A, f.packed, f.tau, shape.m, shape.n);
  EXPECT_LE(packed.residual, 1);
  EXPECT_LE(packed.orthogonality, 1);
  // One R, whichever way it is asked for; real on its diagonal.
  const std::int64_t k = spec.k();
  for (std::int64_t j = 0; j < shape.n; ++j) {
    for (std::int64_t i = 0; i <= std::min(j, k - 1); ++i) {
      const T r = f.R[static_cast<std::size_t>(i + j * k)];
      ASSERT_EQ(r, f.packed[static_cast<std::size_t>(i + j * shape.m)]) << i << ',' << j;
      if (i == j) {
        ASSERT_EQ(std::imag(r), 0) << i;
      }
    }
  }
}

template <class T>
void CheckShape(Factorizer& factorizer, Shape shape, std::uint64_t seed) {
  for (Kind kind : kKinds) {
    const bool odd = (shape.m + shape.n + static_cast<int>(kind)) % 2 != 0;
    const bool complete =
        (shape.m * 3 + shape.n + static_cast<int>(kind)) % 3 == 0 && shape.m <= 70;
    CheckMatrix<T>(factorizer, kind, shape, odd ? Layout::kRowMajor : Layout::kColumnMajor,
                   complete ? QMode::kComplete : QMode::kReduced, seed);
  }
}

TEST_P(FactorizerSuite, AllSmallShapesAreAccurateForAllKinds) {
  ForTypes([&]<class T>(T) {
    for (std::int64_t m = 0; m <= 12; ++m) {
      for (std::int64_t n = 0; n <= 12; ++n) CheckShape<T>(factorizer(), {m, n}, 1);
    }
  });
}

// LAPACK's own list, each side of every block boundary, tall and wide.
TEST_P(FactorizerSuite, LargerShapesAreAccurateForAllKinds) {
  constexpr Shape kShapes[] = {{50, 50}, {50, 10}, {10, 50}, {31, 31}, {32, 32}, {33, 33}, {31, 46},
                               {31, 47}, {31, 48}, {20, 35}, {20, 36}, {63, 64}, {64, 64}, {65, 65},
                               {48, 33}, {33, 48}, {47, 49}, {200, 7}, {3, 200}};
  ForTypes([&]<class T>(T) {
    for (Shape shape : kShapes) CheckShape<T>(factorizer(), shape, 2);
  });
}

TEST_P(FactorizerSuite, LargeShapesAreAccurate) {
  constexpr Shape kShapes[] = {{1000, 5}, {300, 40}, {40, 300}, {127, 127}, {129, 129}, {140, 257}};
  for (Shape shape : kShapes) {
    for (Kind kind :
         {Kind::kNormal, Kind::kGradedColumns, Kind::kEqualColumns, Kind::kNearlyDependent}) {
      CheckMatrix<float>(factorizer(), kind, shape, Layout::kRowMajor, QMode::kReduced, 3);
    }
    CheckMatrix<double>(factorizer(), Kind::kGradedRows, shape, Layout::kColumnMajor,
                        QMode::kReduced, 4);
    CheckMatrix<std::complex<float>>(factorizer(), Kind::kNormal, shape, Layout::kColumnMajor,
                                     QMode::kReduced, 5);
  }
}

TEST_P(FactorizerSuite, PanelWidthsMeetAt512) {
  for (std::int64_t n : {511, 512, 513}) {
    CheckMatrix<float>(factorizer(), Kind::kNormal, {n, n}, Layout::kRowMajor, QMode::kReduced, 6);
  }
}

TEST_P(FactorizerSuite, EveryMAgainstEightColumnsIsAccurate) {
  for (std::int64_t m = 1; m <= 200; ++m) {
    CheckMatrix<float>(factorizer(), Kind::kNormal, {m, 8}, Layout::kRowMajor, QMode::kReduced, 7);
  }
}

template <class T>
void CheckRAlone(Factorizer& factorizer, Kind kind, Shape shape, Layout layout) {
  SCOPED_TRACE(::testing::Message()
               << Name(DTypeOf<T>()) << ' ' << Name(kind) << ' ' << shape.m << 'x' << shape.n
               << (layout == Layout::kRowMajor ? " rows" : " columns"));
  const std::vector<T> A = Generate<T>(kind, shape.m, shape.n, 1);
  Spec spec = FactorizeSpec<T>(shape.m, shape.n, QMode::kNone, /*reflectors=*/false);
  spec.layout = layout;
  TestJob job(spec, 1);
  job.Set(Operand::kA, 0, A);
  RunBatch(factorizer, {&job});
  EXPECT_TRUE(job.failures().empty());
  const RAlone<T> exact(A, shape.m, shape.n);
  const std::vector<T> R = job.Get<T>(Operand::kR, 0);
  EXPECT_LE(exact.ResidualRatio(R), 1);
  EXPECT_TRUE(exact.HasSigns(R));
}

// Tall and skinny enough for the ways of their own that engines have for them.
TEST_P(FactorizerSuite, RAloneOfTallSkinnyMatricesIsAccurate) {
  for (const Shape& shape : {Shape{9001, 3}, {9001, 8}, {9001, 21}, {20'000, 1}}) {
    for (Kind kind : {Kind::kNormal, Kind::kNearlyDependent, Kind::kGradedColumns}) {
      for (Layout layout : {Layout::kRowMajor, Layout::kColumnMajor}) {
        CheckRAlone<float>(factorizer(), kind, shape, layout);
        CheckRAlone<double>(factorizer(), kind, shape, layout);
      }
    }
  }
}

TEST_P(FactorizerSuite, ZeroMatrixGivesIdentityExactly) {
  ForTypes([&]<class T>(T) {
    for (Shape shape : {Shape{2, 1}, {1, 1}, {5, 3}, {3, 5}, {64, 64}, {31, 60}, {100, 40}}) {
      const auto q = shape.m > 3 ? QMode::kComplete : QMode::kReduced;
      const Spec spec = FactorizeSpec<T>(shape.m, shape.n, q);
      const Factors<T> f = Factorize(factorizer(), spec,
                                     std::vector<T>(static_cast<std::size_t>(shape.m * shape.n)));
      EXPECT_EQ(f.R, std::vector<T>(f.R.size()));
      EXPECT_EQ(f.tau, std::vector<T>(f.tau.size()));
      EXPECT_EQ(f.Q, Generate<T>(Kind::kIdentity, shape.m, ExtentOf(spec, Operand::kQ).cols, 0));
    }
  });
}

TEST_P(FactorizerSuite, RealUpperTriangularMatrixReturnsItselfExactly) {
  for (Shape shape :
       {Shape{1, 1}, {5, 3}, {6, 6}, {3, 7}, {31, 60}, {40, 40}, {70, 64}, {64, 90}}) {
    const std::vector<double> A = Generate<double>(Kind::kUpper, shape.m, shape.n, 8);
    const Factors<double> f = Factorize(factorizer(), FactorizeSpec<double>(shape.m, shape.n), A);
    EXPECT_EQ(f.packed, A);
    EXPECT_EQ(f.tau, std::vector<double>(f.tau.size()));
    EXPECT_EQ(f.Q, Generate<double>(Kind::kIdentity, shape.m, std::min(shape.m, shape.n), 0));
  }
}

TEST_P(FactorizerSuite, UnitVectorsHaveNoResidualAtAll) {
  for (std::int64_t m = 1; m <= 70; ++m) {
    for (std::int64_t i = 0; i < m; ++i) {
      std::vector<float> e(static_cast<std::size_t>(m));
      e[static_cast<std::size_t>(i)] = 1;
      const Factors<float> f = Factorize(factorizer(), FactorizeSpec<float>(m, 1), e);
      ASSERT_EQ(std::abs(f.R[0]), 1) << m << ' ' << i;
      for (std::size_t r = 0; r < e.size(); ++r) ASSERT_EQ(f.Q[r] * f.R[0], e[r]) << m << ' ' << i;
    }
  }
}

TEST_P(FactorizerSuite, OneByOneFollowsLapack) {
  const Factors<float> real = Factorize<float>(factorizer(), FactorizeSpec<float>(1, 1), {-2});
  EXPECT_EQ(real.R[0], -2);
  EXPECT_EQ(real.Q[0], 1);
  EXPECT_EQ(real.tau[0], 0);
  // Im alpha != 0: H makes R real, so tau is not zero.
  using C = std::complex<double>;
  const Factors<C> complex = Factorize<C>(factorizer(), FactorizeSpec<C>(1, 1), {C(0, 2)});
  EXPECT_EQ(std::abs(complex.R[0].real()), 2);
  EXPECT_NE(complex.tau[0], C(0));
}

TEST_P(FactorizerSuite, EmptyMatricesGiveEmptyFactors) {
  for (Shape shape : {Shape{0, 0}, {0, 3}, {3, 0}}) {
    const Factors<double> f = Factorize<double>(
        factorizer(), FactorizeSpec<double>(shape.m, shape.n, QMode::kComplete), {});
    EXPECT_TRUE(f.R.empty() && f.tau.empty() && f.failures.empty());
    EXPECT_EQ(f.Q, Generate<double>(Kind::kIdentity, shape.m, shape.m, 0));
  }
}

// QR(A diag(2^e)) = (Q, R diag(2^e)), Q, V and tau bit by bit.
TEST_P(FactorizerSuite, PowerOfTwoColumnScalingChangesNoBits) {
  ForTypes([&]<class T>(T) {
    for (Shape shape : {Shape{7, 5}, {5, 9}, {40, 36}, {20, 60}}) {
      const std::vector<T> A = Normal<T>(shape.m, shape.n, 9);
      std::vector<T> scaled = A;
      const auto factor = [](std::int64_t j) {
        return T(std::ldexp(1.0f, static_cast<int>(j * 37 % 200) - 100));
      };
      for (std::int64_t j = 0; j < shape.n; ++j) {
        for (std::int64_t i = 0; i < shape.m; ++i)
          scaled[static_cast<std::size_t>(i + j * shape.m)] *= factor(j);
      }
      const Spec spec = FactorizeSpec<T>(shape.m, shape.n);
      const Factors<T> plain = Factorize(factorizer(), spec, A);
      const Factors<T> f = Factorize(factorizer(), spec, scaled);
      EXPECT_EQ(f.Q, plain.Q);
      EXPECT_EQ(f.tau, plain.tau);
      for (std::int64_t j = 0; j < shape.n; ++j) {
        for (std::int64_t i = 0; i < shape.m; ++i) {
          const auto at = static_cast<std::size_t>(i + j * shape.m);
          ASSERT_EQ(f.packed[at], i <= j ? plain.packed[at] * factor(j) : plain.packed[at]);
        }
      }
    }
  });
}

// The largest entry 2^e, e up to the largest exponent: R is 2^e times that of the unscaled matrix
// while it is representable, and the matrix is marked where it is not.
TEST_P(FactorizerSuite, NearOverflowRIsExactOrMarked) {
  std::vector<float> A = Normal<float>(30, 4, 10);
  float largest = 0;
  for (float a : A) largest = std::max(largest, std::abs(a));
  for (float& a : A) a /= largest;
  A[0] = 1;
  const Factors<float> unscaled = Factorize(factorizer(), FactorizeSpec<float>(30, 4), A);
  bool out_of_range = false;
  for (int e = 124; e <= 127; ++e) {
    std::vector<float> scaled = A;
    for (float& a : scaled) a = std::ldexp(a, e);
    const Factors<float> f = Factorize(factorizer(), FactorizeSpec<float>(30, 4), scaled);
    bool finite = true;
    for (std::size_t i = 0; i < f.R.size(); ++i) {
      ASSERT_EQ(f.R[i], std::ldexp(unscaled.R[i], e));
      finite &= std::isfinite(f.R[i]);
    }
    EXPECT_EQ(f.Q, unscaled.Q);
    EXPECT_EQ(f.failures.empty(), finite);
    if (!finite) {
      EXPECT_EQ(f.failures[0].code, MatrixCode::kResultOutOfRange);
    }
    out_of_range |= !finite;
  }
  EXPECT_TRUE(out_of_range);
}

TEST_P(FactorizerSuite, NonnegativeSignMakesDiagonalNonnegative) {
  ForTypes([&]<class T>(T) {
    for (Kind kind : kKinds) {
      for (Shape shape : {Shape{6, 6}, {9, 4}, {4, 9}, {40, 40}}) {
        const std::vector<T> A = Generate<T>(kind, shape.m, shape.n, 11);
        Spec spec = FactorizeSpec<T>(shape.m, shape.n, QMode::kReduced, /*reflectors=*/false);
        spec.sign = Sign::kNonnegative;
        const Factors<T> f = Factorize(factorizer(), spec, A);
        EXPECT_TRUE(QrRatios(A, f.Q, f.R, shape.m, shape.n).Hold()) << Name(kind);
        for (std::int64_t i = 0; i < spec.k(); ++i) {
          const T r = f.R[static_cast<std::size_t>(i + i * spec.k())];
          EXPECT_FALSE(std::signbit(std::real(r))) << Name(kind) << i;
          EXPECT_EQ(std::imag(r), 0);
        }
      }
    }
  });
}

double Determinant(std::vector<double> A, std::int64_t n) {
  double det = 1;
  for (std::int64_t c = 0; c < n; ++c) {
    std::int64_t pivot = c;
    for (std::int64_t r = c; r < n; ++r) {
      if (std::abs(A[static_cast<std::size_t>(r + c * n)]) >
          std::abs(A[static_cast<std::size_t>(pivot + c * n)]))
        pivot = r;
    }
    if (pivot != c) det = -det;
    for (std::int64_t j = 0; j < n; ++j)
      std::swap(A[static_cast<std::size_t>(pivot + j * n)], A[static_cast<std::size_t>(c + j * n)]);
    const double p = A[static_cast<std::size_t>(c + c * n)];
    det *= p;
    for (std::int64_t r = c + 1; r < n; ++r) {
      const double factor = A[static_cast<std::size_t>(r + c * n)] / p;
      for (std::int64_t j = c; j < n; ++j)
        A[static_cast<std::size_t>(r + j * n)] -= factor * A[static_cast<std::size_t>(c + j * n)];
    }
  }
  return det;
}

TEST_P(FactorizerSuite, SpecialOrthogonalQHasDeterminantOne) {
  for (std::int64_t n : {0, 1, 2, 3, 4, 5, 8, 31, 33}) {
    for (Kind kind : {Kind::kNormal, Kind::kIdentity, Kind::kZero, Kind::kPermutation, Kind::kUpper,
                      Kind::kRankOne}) {
      for (std::uint64_t seed = 0; seed < 4; ++seed) {
        const std::vector<double> A = Generate<double>(kind, n, n, seed);
        Spec spec = FactorizeSpec<double>(n, n, QMode::kReduced, /*reflectors=*/false);
        spec.sign = Sign::kSpecialOrthogonal;
        const Factors<double> f = Factorize(factorizer(), spec, A);
        EXPECT_NEAR(Determinant(f.Q, n), 1, 1e-12) << n << ' ' << Name(kind);
        EXPECT_TRUE(QrRatios(A, f.Q, f.R, n, n).Hold());
        for (std::int64_t i = 0; i + 1 < n; ++i)
          EXPECT_GE(f.R[static_cast<std::size_t>(i + i * n)], 0);
      }
    }
  }
}

// With the sign fix, Q of Gaussian matrices is Haar-distributed: its entries have mean 0 (without
// it, Q_00 < 0 always).
TEST_P(FactorizerSuite, NonnegativeSignGivesCentredQ) {
  Spec spec = FactorizeSpec<double>(2, 2, QMode::kReduced, /*reflectors=*/false);
  spec.sign = Sign::kNonnegative;
  constexpr int kDraws = 4000;
  TestJob job(spec, kDraws);
  for (int i = 0; i < kDraws; ++i)
    job.Set(Operand::kA, i, Normal<double>(2, 2, static_cast<std::uint64_t>(i)));
  RunBatch(factorizer(), {&job});
  double sum = 0;
  for (int i = 0; i < kDraws; ++i) sum += job.Get<double>(Operand::kQ, i)[0];
  // Var Q_00 = 1/2.
  EXPECT_LT(std::abs(sum / kDraws), 4 * std::sqrt(0.5 / kDraws));
}

}  // namespace
}  // namespace factord::testing
