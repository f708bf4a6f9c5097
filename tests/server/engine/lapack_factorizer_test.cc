#include "server/engine/lapack_factorizer.h"

#include <gtest/gtest.h>

#include <complex>

#include "server/engine/lapack.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/server/engine/factorizer_suite.h"

namespace factord::testing {
namespace {

std::unique_ptr<Factorizer> MakeLapack() {
  static const bool initialized = (InitializeLapack(), true);
  return initialized ? std::make_unique<LapackFactorizer>(2) : nullptr;
}

INSTANTIATE_TEST_SUITE_P(Lapack, FactorizerSuite,
                         ::testing::Values(Engine{"TwoThreads", MakeLapack}), EngineName);

template <class T>
void CheckThreads(std::int64_t m, std::int64_t n, std::int64_t count, Op op) {
  SCOPED_TRACE(::testing::Message() << Name(op) << ' ' << m << 'x' << n << " batch " << count);
  InitializeLapack();
  Spec spec = FactorizeSpec<T>(m, n);
  spec.op = op;
  spec.p = 150;
  std::vector<std::vector<std::byte>> expected;
  for (int threads : {1, 2, 5}) {
    LapackFactorizer factorizer(threads);
    TestJob job(spec, count);
    for (Operand operand : InputsOf(spec)) {
      const Extent extent = ExtentOf(spec, operand);
      for (std::int64_t i = 0; i < count; ++i) {
        job.Set(operand, i, Normal<T>(extent.rows, extent.cols, static_cast<std::uint64_t>(i)));
      }
    }
    RunBatch(factorizer, {&job});
    for (std::int64_t i = 0; i < count; ++i) {
      if (threads == 1) {
        expected.push_back(job.OutputBytes(i));
      } else {
        EXPECT_EQ(job.OutputBytes(i), expected[static_cast<std::size_t>(i)])
            << threads << " threads";
      }
    }
  }
}

TEST(LapackFactorizer, ThreadsDoNotChangeBits) {
  for (Op op : {Op::kFactorize, Op::kFormQ, Op::kApplyQ, Op::kSolve}) {
    CheckThreads<float>(8, 8, 300, op);
    CheckThreads<float>(400, 300, 1, op);
    CheckThreads<float>(200, 520, 1, op);
    CheckThreads<double>(300, 280, 3, op);
    CheckThreads<std::complex<float>>(160, 150, 2, op);
  }
  CheckThreads<float>(530, 530, 1, Op::kFactorize);
}

TEST(LapackFactorizer, PathDependsOnShape) {
  LapackFactorizer factorizer(1);
  EXPECT_EQ(factorizer.PathOf(FactorizeSpec<float>(8, 8)), "lapack");
  EXPECT_EQ(factorizer.PathOf(FactorizeSpec<float>(1000, 31)), "lapack");
  EXPECT_EQ(factorizer.PathOf(FactorizeSpec<float>(32, 32)), "lapack-blocked");
}

}  // namespace
}  // namespace factord::testing
