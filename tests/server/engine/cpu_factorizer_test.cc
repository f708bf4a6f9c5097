// The CPU engine, on its kernels and on LAPACK: the suite of every engine, how the bits depend on
// nothing but the matrix, and who computes what.
#include "server/engine/cpu_factorizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <string>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/qr.h"
#include "server/engine/lapack.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/server/engine/factorizer_suite.h"

namespace factord::testing {
namespace {

std::unique_ptr<CpuFactorizer> Make(int threads, CpuEngine engine) {
  static const bool initialized = (InitializeLapack(), true);
  return initialized ? std::make_unique<CpuFactorizer>(threads, engine) : nullptr;
}

INSTANTIATE_TEST_SUITE_P(
    Cpu, FactorizerSuite,
    ::testing::Values(
        Engine{.name = "Simd", .make = [] { return Make(2, CpuEngine::kSimd); }, .copies = false},
        Engine{.name = "Lapack", .make = [] { return Make(2, CpuEngine::kLapack); }}),
    EngineName);

constexpr Op kEveryOp[] = {Op::kFactorize, Op::kFormQ, Op::kApplyQ, Op::kSolve};

template <class F>
void ForTypes(F&& f) {
  f(float{});
  f(double{});
  f(std::complex<float>{});
  f(std::complex<double>{});
}

template <class T>
Spec SpecOf(Op op, std::int64_t m, std::int64_t n, std::int64_t p = 2) {
  Spec spec = FactorizeSpec<T>(m, n);
  spec.op = op;
  spec.p = p;
  return spec;
}

// Matrix i of it is that of every job with this seed.
template <class T>
void FillRandom(TestJob& job, std::uint64_t seed = 0) {
  for (Operand operand : InputsOf(job.spec())) {
    const Extent extent = ExtentOf(job.spec(), operand);
    for (std::int64_t i = 0; i < job.count(); ++i) {
      job.Set(operand, i,
              Normal<T>(extent.rows, extent.cols, seed + static_cast<std::uint64_t>(i)));
    }
  }
}

// ---- threads

template <class T>
void CheckThreads(CpuEngine engine, std::int64_t m, std::int64_t n, std::int64_t count, Op op) {
  SCOPED_TRACE(::testing::Message() << DescriptionOf(engine) << ' ' << Name(op) << ' ' << m << 'x'
                                    << n << " batch " << count);
  const Spec spec = SpecOf<T>(op, m, n, 150);
  TestJob expected(spec, count);
  FillRandom<T>(expected);
  RunBatch(*Make(1, engine), {&expected});
  for (int threads : {2, 5}) {
    TestJob job(spec, count);
    FillRandom<T>(job);
    RunBatch(*Make(threads, engine), {&job});
    for (std::int64_t i = 0; i < count; ++i) {
      EXPECT_EQ(job.OutputBytes(i), expected.OutputBytes(i)) << threads << " threads, " << i;
    }
  }
}

TEST(CpuFactorizer, ThreadsDoNotChangeBits) {
  for (CpuEngine engine : {CpuEngine::kSimd, CpuEngine::kLapack}) {
    for (Op op : kEveryOp) {
      CheckThreads<float>(engine, 8, 8, 300, op);
      CheckThreads<float>(engine, 400, 300, 1, op);
      CheckThreads<float>(engine, 200, 520, 1, op);
      CheckThreads<double>(engine, 300, 280, 3, op);
      CheckThreads<std::complex<float>>(engine, 160, 150, 2, op);
      CheckThreads<std::complex<double>>(engine, 150, 140, 2, op);
    }
    CheckThreads<float>(engine, 530, 530, 1, Op::kFactorize);
  }
}

// ---- batches of every size around what the kernels take at a time

template <class T>
void CheckRaggedBatches(const Spec& spec) {
  SCOPED_TRACE(::testing::Message()
               << Name(spec.op) << ' ' << Name(spec.dtype) << ' ' << spec.m << 'x' << spec.n);
  const std::int64_t lanes = kernels::cpu::Lanes<T>();
  const std::int64_t most = 5 * lanes + 1;
  const auto factorizer = Make(2, CpuEngine::kSimd);
  std::vector<std::vector<std::byte>> alone;
  for (std::int64_t i = 0; i < most; ++i) {
    TestJob job(spec, 1);
    FillRandom<T>(job, static_cast<std::uint64_t>(i));
    RunBatch(*factorizer, {&job});
    alone.push_back(job.OutputBytes(0));
  }
  for (std::int64_t count : {lanes - 1, lanes, lanes + 1, 2 * lanes + 3, most}) {
    // In front of it a job that shares its chunks.
    TestJob other(spec, 3), job(spec, count);
    FillRandom<T>(other, 1000);
    FillRandom<T>(job);
    RunBatch(*factorizer, {&other, &job});
    for (std::int64_t i = 0; i < count; ++i) {
      EXPECT_EQ(job.OutputBytes(i), alone[static_cast<std::size_t>(i)]) << i << " of " << count;
    }
  }
}

TEST(CpuFactorizer, RaggedBatchesDoNotChangeBits) {
  ForTypes([]<class T>(T) {
    for (Op op : kEveryOp) {
      CheckRaggedBatches<T>(SpecOf<T>(op, 3, 3));
      CheckRaggedBatches<T>(SpecOf<T>(op, 9, 4));
      CheckRaggedBatches<T>(SpecOf<T>(op, 40, 33));
    }
    CheckRaggedBatches<T>(SpecOf<T>(Op::kFactorize, 5, 12));
  });
}

// One in every place that a lane can have.
TEST(CpuFactorizer, NonfiniteMatricesLeaveTheirNeighboursBits) {
  ForTypes([]<class T>(T) {
    const std::int64_t count = 3 * kernels::cpu::Lanes<T>();
    const auto factorizer = Make(2, CpuEngine::kSimd);
    for (Op op : kEveryOp) {
      SCOPED_TRACE(::testing::Message() << Name(op) << ' ' << Name(DTypeOf<T>()));
      const Spec spec = SpecOf<T>(op, 7, 5);
      TestJob clean(spec, count), job(spec, count);
      FillRandom<T>(clean);
      FillRandom<T>(job);
      std::vector<MatrixFailure> failures;
      for (std::int64_t i = 0; i < count; i += kernels::cpu::Lanes<T>() + 1) {
        job.Set(InputsOf(spec)[0], i, std::vector<T>(35, T(NAN)));
        failures.push_back({i, MatrixCode::kNonfiniteInput});
      }
      RunBatch(*factorizer, {&clean});
      RunBatch(*factorizer, {&job});
      EXPECT_EQ(job.failures(), failures);
      for (std::int64_t i = 0; i < count; ++i) {
        const bool poisoned = i % (kernels::cpu::Lanes<T>() + 1) == 0;
        EXPECT_EQ(job.OutputBytes(i) == clean.OutputBytes(i), !poisoned) << i;
      }
    }
  });
}

// ---- what the kernels leave to LAPACK

template <class T>
void CheckDeficient(std::int64_t m, std::int64_t n, std::int64_t count, int threads) {
  SCOPED_TRACE(::testing::Message() << Name(DTypeOf<T>()) << ' ' << m << 'x' << n);
  const Spec spec = SpecOf<T>(Op::kSolve, m, n);
  TestJob healthy(spec, count), job(spec, count), expected(spec, count);
  std::vector<T> deficient = Normal<T>(m, n, 1);  // two equal columns
  std::copy(deficient.begin(), deficient.begin() + m, deficient.end() - m);
  std::vector<MatrixFailure> failures;
  for (TestJob* each : {&healthy, &job, &expected}) FillRandom<T>(*each);
  for (std::int64_t i = 0; i < count; i += 3) {
    for (TestJob* each : {&job, &expected}) each->Set(Operand::kA, i, deficient);
    failures.push_back({i, MatrixCode::kRankDeficient});
  }
  const auto simd = Make(threads, CpuEngine::kSimd);
  RunBatch(*simd, {&healthy});
  RunBatch(*simd, {&job});
  RunBatch(*Make(1, CpuEngine::kLapack), {&expected});
  EXPECT_EQ(job.failures(), failures);
  for (std::int64_t i = 0; i < count; ++i) {
    EXPECT_EQ(job.Rank(i), i % 3 == 0 ? n - 1 : n) << i;
    EXPECT_EQ(job.OutputBytes(i), (i % 3 == 0 ? expected : healthy).OutputBytes(i)) << i;
  }
}

TEST(CpuFactorizer, UnprovenRankIsLeftToLapack) {
  ForTypes([]<class T>(T) {
    CheckDeficient<T>(9, 4, 50, 2);
    CheckDeficient<T>(40, 35, 4, 2);
  });
  CheckDeficient<float>(400, 300, 1, 3);  // by all threads together
}

TEST(CpuFactorizer, WideSystemsAreLeftToLapack) {
  ForTypes([]<class T>(T) {
    TestJob job(SpecOf<T>(Op::kSolve, 5, 9), 20), expected(job.spec(), 20);
    FillRandom<T>(job);
    FillRandom<T>(expected);
    RunBatch(*Make(2, CpuEngine::kSimd), {&job});
    RunBatch(*Make(2, CpuEngine::kLapack), {&expected});
    for (std::int64_t i = 0; i < 20; ++i) EXPECT_EQ(job.OutputBytes(i), expected.OutputBytes(i));
  });
}

// 9 x 10 and 10 x 9 are in one bucket.
TEST(CpuFactorizer, WideAndTallSystemsShareABatch) {
  TestJob wide(SpecOf<double>(Op::kSolve, 9, 10), 3), tall(SpecOf<double>(Op::kSolve, 10, 9), 3);
  for (TestJob* job : {&wide, &tall}) FillRandom<double>(*job);
  RunBatch(*Make(2, CpuEngine::kSimd), {&wide, &tall});
  EXPECT_EQ(wide.job().path, "lapack");
  EXPECT_EQ(tall.job().path, "simd");
  for (std::int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(wide.Rank(i), 9);
    EXPECT_EQ(tall.Rank(i), 9);
  }
}

// ---- names

TEST(CpuFactorizer, PathDependsOnShapeAndEngine) {
  const auto simd = Make(1, CpuEngine::kSimd), lapack = Make(1, CpuEngine::kLapack);
  for (auto [m, n] : {std::pair<std::int64_t, std::int64_t>{8, 8}, {1000, 31}, {20, 3000}}) {
    EXPECT_EQ(simd->PathOf(FactorizeSpec<float>(m, n)), "simd");
    EXPECT_EQ(lapack->PathOf(FactorizeSpec<float>(m, n)), "lapack");
  }
  EXPECT_EQ(lapack->PathOf(FactorizeSpec<float>(32, 32)), "lapack-blocked");
  EXPECT_EQ(simd->PathOf(SpecOf<float>(Op::kSolve, 40, 40)), "simd");
  EXPECT_EQ(simd->PathOf(SpecOf<float>(Op::kSolve, 40, 41)), "lapack-blocked");
  EXPECT_EQ(simd->PathOf(SpecOf<float>(Op::kSolve, 4, 41)), "lapack");
  EXPECT_EQ(simd->PathOf(SpecOf<float>(Op::kApplyQ, 4, 4, std::int64_t{1} << 31)), "lapack");
}

TEST(CpuFactorizer, DescriptionNamesWhatComputes) {
  EXPECT_EQ(DescriptionOf(CpuEngine::kLapack), LapackName());
  EXPECT_EQ(DescriptionOf(CpuEngine::kSimd), std::string("SIMD ") + kernels::cpu::InstructionSet());
}

}  // namespace
}  // namespace factord::testing
