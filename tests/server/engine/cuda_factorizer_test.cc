// The GPU engine: the suite of every engine, batches cut into parts, and what it does about errors.
#include "server/engine/cuda_factorizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "server/engine/gpus.h"
#include "server/engine/lapack.h"
#include "server/engine/router.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/server/engine/factorizer_suite.h"
#ifdef FACTORD_EMULATED
#include "tests/kernels/emulator/emulator.h"
#endif

namespace factord::testing {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

#ifdef FACTORD_EMULATED
constexpr char kName[] = "Emulated";
constexpr std::int64_t kLargest = 40, kMany = 30;
constexpr std::size_t kDeviceBytes = 64 * kMiB, kHostBytes = 16 * kMiB;
#else
constexpr char kName[] = "Device";
constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max(), kMany = 512;
constexpr std::size_t kDeviceBytes = 1024 * kMiB, kHostBytes = 256 * kMiB;
#endif

std::unique_ptr<CudaFactorizer> MakeCuda(std::size_t device_bytes = kDeviceBytes,
                                         std::size_t host_bytes = kHostBytes) {
  static const bool initialized = (InitializeLapack(), true);
  EXPECT_TRUE(initialized);
  auto factorizer =
      CudaFactorizer::Create({.device_bytes = device_bytes, .host_bytes = host_bytes});
  EXPECT_TRUE(factorizer.ok()) << factorizer.status();
  return *std::move(factorizer);
}

// As the server has it: what the GPU does not take, or would take too long on the emulator, runs on
// the CPU.
class WithCpu : public Factorizer {
 public:
  absl::Status Run(Batch& batch) override { return For(batch.jobs[0]->spec).Run(batch); }
  std::string_view PathOf(const Spec& spec) const override { return For(spec).PathOf(spec); }

 private:
  Factorizer& For(const Spec& spec) const {
    const bool on_gpu = GpuTakes(spec) && std::max({spec.m, spec.n, spec.p}) <= kLargest;
    return on_gpu ? static_cast<Factorizer&>(*gpu_) : *cpu_;
  }

  std::unique_ptr<CudaFactorizer> gpu_ = MakeCuda();
  std::unique_ptr<CpuFactorizer> cpu_ = std::make_unique<CpuFactorizer>(1);
};

INSTANTIATE_TEST_SUITE_P(Cuda, FactorizerSuite,
                         ::testing::Values(Engine{kName, [] { return std::make_unique<WithCpu>(); },
                                                  kMany}),
                         EngineName);

// ---- parts

void FillRandom(TestJob& job, std::uint64_t seed) {
  for (Operand operand : InputsOf(job.spec())) {
    const Extent extent = ExtentOf(job.spec(), operand);
    for (std::int64_t i = 0; i < job.count(); ++i) {
      if (job.spec().dtype == DType::kF32) {
        job.Set(operand, i, Normal<float>(extent.rows, extent.cols, seed++));
      } else {
        job.Set(operand, i, Normal<double>(extent.rows, extent.cols, seed++));
      }
    }
  }
}

// Jobs of one bucket (9 and 10 are one class), some matrices all NaN.
struct RaggedJobs {
  explicit RaggedJobs(Op op) {
    std::uint64_t seed = 1;
    for (auto [m, n, count] : {std::tuple<std::int64_t, std::int64_t, std::int64_t>{10, 9, 4},
                               {10, 9, 1},
                               {9, 9, 6},
                               {10, 10, 0},
                               {10, 10, 3}}) {
      Spec spec = FactorizeSpec<double>(m, n);
      spec.op = op;
      spec.p = op == Op::kApplyQ || op == Op::kSolve ? 2 : 0;
      jobs.push_back(std::make_unique<TestJob>(spec, count));
      FillRandom(*jobs.back(), seed += 100);
    }
    const Operand first = InputsOf(jobs[0]->spec())[0];
    jobs[1]->Set(first, 0, std::vector<double>(90, NAN));
    jobs[2]->Set(first, 3, std::vector<double>(81, NAN));
  }
  void Run(Factorizer& factorizer) {
    RunBatch(factorizer,
             {jobs[0].get(), jobs[1].get(), jobs[2].get(), jobs[3].get(), jobs[4].get()});
  }

  std::vector<std::unique_ptr<TestJob>> jobs;
};

TEST(CudaFactorizer, PartsDoNotChangeBits) {
  for (Op op : {Op::kFactorize, Op::kFormQ, Op::kApplyQ, Op::kSolve}) {
    SCOPED_TRACE(Name(op));
    RaggedJobs whole(op);
    const auto roomy = MakeCuda();
    whole.Run(*roomy);
    EXPECT_TRUE(whole.jobs[0]->failures().empty());
    EXPECT_EQ(whole.jobs[1]->failures(),
              (std::vector<MatrixFailure>{{0, MatrixCode::kNonfiniteInput}}));
    EXPECT_EQ(whole.jobs[2]->failures(),
              (std::vector<MatrixFailure>{{3, MatrixCode::kNonfiniteInput}}));
    for (std::size_t host_bytes : {8'000, 13'000, 30'000}) {
      SCOPED_TRACE(host_bytes);
      RaggedJobs parts(op);
      const auto tight = MakeCuda(4 * kMiB, host_bytes);
      parts.Run(*tight);
      for (std::size_t j = 0; j < whole.jobs.size(); ++j) {
        EXPECT_EQ(parts.jobs[j]->failures(), whole.jobs[j]->failures());
        for (std::int64_t i = 0; i < whole.jobs[j]->count(); ++i) {
          EXPECT_EQ(parts.jobs[j]->OutputBytes(i), whole.jobs[j]->OutputBytes(i)) << j << ' ' << i;
        }
      }
    }
  }
}

// More bytes than one copy over the bus, in and out.
TEST(CudaFactorizer, LargeOperandsAreCopiedWhole) {
  Spec spec = FactorizeSpec<float>(2, 2, QMode::kReduced, /*reflectors=*/false);
#ifdef FACTORD_EMULATED
  constexpr std::int64_t kCount = 80'000;
#else
  constexpr std::int64_t kCount = 800'000;
#endif
  TestJob job(spec, kCount);
  for (std::int64_t i = 0; i < kCount; ++i) {
    const float x = static_cast<float>(i + 1);
    job.Set<float>(Operand::kA, i, {x, 0, 0, x});
  }
  const auto factorizer = MakeCuda();
  RunBatch(*factorizer, {&job});
  for (std::int64_t i = 0; i < kCount; ++i) {
    const float x = static_cast<float>(i + 1);
    ASSERT_EQ(job.Get<float>(Operand::kR, i), (std::vector<float>{x, 0, 0, x})) << i;
    ASSERT_EQ(job.Get<float>(Operand::kQ, i), (std::vector<float>{1, 0, 0, 1})) << i;
  }
}

TEST(CudaFactorizer, AMatrixTooLargeForItsBuffersIsAnErrorAndDoesNoHarm) {
  TestJob large(FactorizeSpec<float>(64, 64), 1), small(FactorizeSpec<float>(8, 8), 1);
  FillRandom(large, 1);
  FillRandom(small, 1);
  for (auto [device_bytes, host_bytes] :
       {std::pair<std::size_t, std::size_t>{kMiB, 20'000}, {40'000, kMiB}}) {
    const auto factorizer = MakeCuda(device_bytes, host_bytes);
    EXPECT_EQ(RunStatus(*factorizer, {&large}).code(), absl::StatusCode::kResourceExhausted);
    EXPECT_TRUE(RunStatus(*factorizer, {&small}).ok());
    EXPECT_TRUE(factorizer->healthy());
  }
}

TEST(CudaFactorizer, WhatItDoesNotTakeIsAnInternalError) {
  const auto factorizer = MakeCuda();
  TestJob complex(FactorizeSpec<std::complex<float>>(4, 4), 1);
  Spec spec = FactorizeSpec<double>(3, 5);
  spec.op = Op::kSolve;
  spec.p = 1;
  TestJob wide(spec, 1);
  for (TestJob* job : {&complex, &wide}) {
    EXPECT_EQ(RunStatus(*factorizer, {job}).code(), absl::StatusCode::kInternal);
  }
  EXPECT_TRUE(factorizer->healthy());
}

// ---- least squares

TEST(CudaFactorizer, UnprovenRankIsLeftToTheCpuEngine) {
  Spec spec;
  spec.op = Op::kSolve;
  spec.dtype = DType::kF64;
  spec.m = 9;
  spec.n = 4;
  spec.p = 2;
  constexpr std::int64_t kCount = 7;
  TestJob job(spec, kCount), expected(spec, kCount);
  for (TestJob* j : {&job, &expected}) {
    FillRandom(*j, 5);
    std::vector<double> deficient = Normal<double>(9, 4, 1);
    std::copy(deficient.begin(), deficient.begin() + 9, deficient.begin() + 18);
    for (std::int64_t i : {0, 1, 5}) j->Set(Operand::kA, i, deficient);
    j->Set(Operand::kA, 3, std::vector<double>(36, NAN));
  }
  const auto factorizer = MakeCuda(kMiB, 5'000);  // in parts
  RunBatch(*factorizer, {&job});
  CpuFactorizer lapack(1, CpuEngine::kLapack);
  RunBatch(lapack, {&expected});

  EXPECT_EQ(job.failures(), (std::vector<MatrixFailure>{{0, MatrixCode::kRankDeficient},
                                                        {1, MatrixCode::kRankDeficient},
                                                        {3, MatrixCode::kNonfiniteInput},
                                                        {5, MatrixCode::kRankDeficient}}));
  for (std::int64_t i : {0, 1, 5}) EXPECT_EQ(job.OutputBytes(i), expected.OutputBytes(i)) << i;
  for (std::int64_t i : {2, 4, 6}) EXPECT_EQ(job.Rank(i), 4) << i;
  EXPECT_EQ(job.Rank(3), -1);
}

#ifdef FACTORD_EMULATED
// ---- errors

class CudaErrors : public ::testing::Test {
 protected:
  ~CudaErrors() override { emulator::SetOptions({}); }
};

// Whichever call it is that fails.
TEST_F(CudaErrors, AnErrorAnywhereIsReportedAndTheDeviceIsGivenUp) {
  Spec spec = FactorizeSpec<float>(3, 3);
  for (Op op : {Op::kFactorize, Op::kSolve}) {
    spec.op = op;
    spec.p = op == Op::kSolve ? 1 : 0;
    TestJob job(spec, 9);
    FillRandom(job, 1);
    int calls = 0;
    for (absl::Status status = absl::UnknownError(""); !status.ok(); ++calls) {
      ASSERT_LT(calls, 1000);
      emulator::SetOptions({});
      const auto factorizer = MakeCuda(kMiB, 1'500);  // in several parts
      emulator::FailAfter(0, calls, cudaErrorIllegalAddress);
      status = RunStatus(*factorizer, {&job});
      EXPECT_EQ(factorizer->healthy(), status.ok());
      if (status.ok()) break;
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
      EXPECT_NE(status.message().find("cudaErrorIllegalAddress"), std::string::npos) << status;
      // The inputs are as they were: the CPU does it.
      CpuFactorizer lapack(1, CpuEngine::kLapack);
      ASSERT_TRUE(RunStatus(lapack, {&job}).ok());
      EXPECT_TRUE(job.failures().empty());
    }
    EXPECT_GT(calls, 20);
  }
}

TEST_F(CudaErrors, WithoutMemoryThereIsNoFactorizerAndNothingIsLost) {
  const std::size_t before = emulator::AllocatedBytes(0);
  emulator::LimitMemory(0, 3 * kMiB);
  const auto factorizer = CudaFactorizer::Create({.device_bytes = 4 * kMiB, .host_bytes = kMiB});
  EXPECT_EQ(factorizer.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(factorizer.status().message().find("cudaMalloc: cudaErrorMemoryAllocation"),
            std::string::npos)
      << factorizer.status();
  EXPECT_EQ(emulator::AllocatedBytes(0), before);
}

TEST_F(CudaErrors, NoDeviceIsNoGpu) {
  emulator::Options options;
  options.devices = 0;
  emulator::SetOptions(options);
  const auto gpus = OpenGpus({});
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  EXPECT_TRUE(gpus->empty());
}

TEST_F(CudaErrors, EachDeviceHasItsOwnMemoryAndHealth) {
  emulator::Options options;
  options.devices = 3;
  emulator::SetOptions(options);
  InitializeLapack();
  {
    const auto gpus = OpenGpus({.lanes = 2, .device_bytes = kMiB, .host_bytes = kMiB});
    ASSERT_TRUE(gpus.ok()) << gpus.status();
    ASSERT_EQ(gpus->size(), 3u);
    for (int device : {0, 1, 2}) EXPECT_EQ(emulator::AllocatedBytes(device), 2 * kMiB) << device;

    emulator::FailAfter(1, 0, cudaErrorECCUncorrectable);
    TestJob job(FactorizeSpec<float>(4, 4), 2);
    FillRandom(job, 1);
    for (const Gpu& gpu : *gpus) {
      for (const auto& factorizer : gpu.factorizers) {
        EXPECT_EQ(RunStatus(*factorizer, {&job}).ok(), gpu.index != 1);
      }
      EXPECT_EQ(gpu.healthy(), gpu.index != 1);
    }
  }
  for (int device : {0, 1, 2}) EXPECT_EQ(emulator::AllocatedBytes(device), 0u) << device;
}
#endif

}  // namespace
}  // namespace factord::testing
