// The checker itself: it must accept exact factors and refuse slightly wrong ones.
#include "tests/support/residuals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "server/engine/cpu_factorizer.h"
#include "server/engine/lapack.h"
#include "tests/server/engine/engine_harness.h"

namespace factord::testing {
namespace {

class ResidualsTest : public ::testing::Test {
 protected:
  static constexpr std::int64_t kM = 9, kN = 6;
  ResidualsTest() {
    InitializeLapack();
    CpuFactorizer factorizer(1, CpuEngine::kLapack);
    A_ = Generate<float>(Kind::kGradedColumns, kM, kN, 1);
    f_ = Factorize(factorizer, FactorizeSpec<float>(kM, kN), A_);
  }
  bool ExplicitHolds() const { return QrRatios(A_, f_.Q, f_.R, kM, kN).Hold(); }
  bool PackedHolds() const { return ReflectorRatios(A_, f_.packed, f_.tau, kM, kN).Hold(); }

  std::vector<float> A_;
  Factors<float> f_;
};

TEST_F(ResidualsTest, AcceptsRightFactors) {
  EXPECT_TRUE(ExplicitHolds());
  EXPECT_TRUE(PackedHolds());
}

TEST_F(ResidualsTest, RefusesOneWrongEntryOfR) {
  // In the column graded down to 1e-30 too: the check is by column.
  for (std::int64_t j = 0; j < kN; ++j) {
    Factors<float> saved = f_;
    f_.R[static_cast<std::size_t>(j + j * kN)] *= 1.001f;
    f_.packed[static_cast<std::size_t>(j + j * kM)] *= 1.001f;
    EXPECT_FALSE(ExplicitHolds()) << j;
    EXPECT_FALSE(PackedHolds()) << j;
    f_ = saved;
  }
}

TEST_F(ResidualsTest, RefusesWrongTauAndV) {
  for (std::int64_t j = 0; j < kN; ++j) {
    Factors<float> saved = f_;
    f_.tau[static_cast<std::size_t>(j)] *= 1.0003f;
    EXPECT_FALSE(PackedHolds()) << j;
    f_ = saved;
    f_.packed[static_cast<std::size_t>(j + 1 + j * kM)] += 1e-3f;
    EXPECT_FALSE(PackedHolds()) << j;
    f_ = saved;
  }
}

TEST_F(ResidualsTest, RefusesWrongQ) {
  f_.Q[3] += 1e-3f;
  EXPECT_FALSE(ExplicitHolds());
}

TEST_F(ResidualsTest, RefusesNanAndWhatLiesBelowTheDiagonal) {
  f_.R[1] = std::numeric_limits<float>::denorm_min();
  EXPECT_FALSE(ExplicitHolds());
  f_.R[1] = 0;
  EXPECT_TRUE(ExplicitHolds());
  f_.Q[0] = NAN;
  EXPECT_FALSE(ExplicitHolds());
}

// A conjugated tau is right for real matrices only.
TEST_F(ResidualsTest, RefusesConjugatedTau) {
  using C = std::complex<double>;
  CpuFactorizer factorizer(1, CpuEngine::kLapack);
  const std::vector<C> A = Normal<C>(5, 5, 2);
  Factors<C> f = Factorize(factorizer, FactorizeSpec<C>(5, 5), A);
  EXPECT_TRUE(ReflectorRatios(A, f.packed, f.tau, 5, 5).Hold());
  for (C& tau : f.tau) tau = std::conj(tau);
  EXPECT_FALSE(ReflectorRatios(A, f.packed, f.tau, 5, 5).Hold());
}

}  // namespace
}  // namespace factord::testing
