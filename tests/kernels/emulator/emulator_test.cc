// The emulator against what CUDA says: values, order, and that it notices what would be wrong on a
// device.
#include "emulator.h"

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/simt/launch.h"
#include "kernels/simt/ptx.h"
#include "tests/kernels/device_array.h"

namespace factord::kernels {
namespace {

using emulator::Options;
using emulator::Scheduler;
using testing::DeviceArray;

constexpr unsigned kFull = 0xffffffffu;

// Every way of running kernels; ends with the default one.
class EmulatorTest : public ::testing::TestWithParam<Options> {
 protected:
  EmulatorTest() { emulator::SetOptions(GetParam()); }
  ~EmulatorTest() override { emulator::SetOptions({}); }
};
std::string NameOf(const ::testing::TestParamInfo<Options>& info) {
  const Options& options = info.param;
  std::string name = options.scheduler == Scheduler::kThreaded ? "Threaded" : "Sequential";
  if (options.seed != 0) name += "Seed" + std::to_string(options.seed);
  if (!options.deferred_copies) name += "Immediate";
  if (!options.races_within_warps) name += "OneThreadAWarp";
  return name;
}
INSTANTIATE_TEST_SUITE_P(
    All, EmulatorTest,
    ::testing::Values(Options{.scheduler = Scheduler::kSequential},
                      Options{.scheduler = Scheduler::kSequential, .seed = 1},
                      Options{.scheduler = Scheduler::kSequential, .seed = 2},
                      Options{.scheduler = Scheduler::kSequential, .deferred_copies = false},
                      Options{.scheduler = Scheduler::kThreaded},
                      Options{.scheduler = Scheduler::kThreaded, .races_within_warps = false}),
    NameOf);

// What must end the process is tried in the default way. The child process starts anew: others may
// have threads.
class EmulatorDeathTest : public ::testing::Test {
 protected:
  EmulatorDeathTest() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    emulator::SetOptions({.scheduler = Scheduler::kSequential});
  }
  ~EmulatorDeathTest() override { emulator::SetOptions({}); }
};

// ---- indices

__global__ void Indices(unsigned* out) {
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  __syncthreads();
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 1000 + thread;
}

TEST_P(EmulatorTest, EveryThreadKnowsItsPlace) {
  constexpr dim3 kGrid(3, 2, 2), kBlock(5, 4, 3);
  constexpr unsigned kThreads = 60;
  DeviceArray<unsigned> out(12 * kThreads);
  cudaLaunchConfig_t config = {};
  config.gridDim = kGrid;
  config.blockDim = kBlock;
  ASSERT_EQ(cudaLaunchKernelEx(&config, Indices, out.data()), cudaSuccess);
  const auto values = out.Download();
  for (unsigned i = 0; i < values.size(); ++i)
    EXPECT_EQ(values[i], i / kThreads * 1000 + i % kThreads);
}

// ---- warp primitives

struct Shuffled {
  int index, up, down, exchanged, narrow_index, narrow_up, narrow_down, narrow_exchanged;
};
__global__ void ShuffleKernel(Shuffled* out, double* doubles) {
  const int t = static_cast<int>(threadIdx.x);
  out[t] = {__shfl_sync(kFull, t, 3),          __shfl_up_sync(kFull, t, 2),
            __shfl_down_sync(kFull, t, 2),     __shfl_xor_sync(kFull, t, 5),
            __shfl_sync(kFull, t, 9, 8),       __shfl_up_sync(kFull, t, 1, 4),
            __shfl_down_sync(kFull, t, 1, 16), __shfl_xor_sync(kFull, t, 9, 8)};
  doubles[t] = __shfl_xor_sync(kFull, t + 0.1, 1);
}

TEST_P(EmulatorTest, Shuffles) {
  DeviceArray<Shuffled> out(64);
  DeviceArray<double> doubles(64);
  ASSERT_EQ(Launch(ShuffleKernel, {.grid = 1, .threads = 64}, out.data(), doubles.data()),
            cudaSuccess);
  const auto values = out.Download();
  const auto exchanged = doubles.Download();
  for (int t = 0; t < 64; ++t) {
    const int warp = t / 32 * 32, lane = t % 32;
    EXPECT_EQ(values[t].index, warp + 3);
    EXPECT_EQ(values[t].up, lane < 2 ? t : t - 2);
    EXPECT_EQ(values[t].down, lane > 29 ? t : t + 2);
    EXPECT_EQ(values[t].exchanged, t ^ 5);
    EXPECT_EQ(values[t].narrow_index, t / 8 * 8 + 1);
    EXPECT_EQ(values[t].narrow_up, t % 4 == 0 ? t : t - 1);
    EXPECT_EQ(values[t].narrow_down, t % 16 == 15 ? t : t + 1);
    EXPECT_EQ(values[t].narrow_exchanged, lane % 16 < 8 ? t : t ^ 9);  // none from later segments
    EXPECT_EQ(exchanged[t], (t ^ 1) + 0.1);
  }
}

struct Votes {
  unsigned ballot, max, sum;
  int any, all, none, min;
};
__global__ void VoteKernel(Votes* out) {
  const int t = static_cast<int>(threadIdx.x);
  out[t] = {__ballot_sync(kFull, t % 3 == 0),
            __reduce_max_sync(kFull, static_cast<unsigned>(t)),
            __reduce_add_sync(kFull, unsigned(t)),
            __any_sync(kFull, t == 40),
            __all_sync(kFull, t < 32),
            __any_sync(kFull, 0),
            __reduce_min_sync(kFull, -t)};
}

TEST_P(EmulatorTest, VotesAlsoInAPartialWarp) {
  DeviceArray<Votes> out(42);  // the last warp has 10 lanes
  ASSERT_EQ(Launch(VoteKernel, {.grid = 1, .threads = 42}, out.data()), cudaSuccess);
  const auto votes = out.Download();
  EXPECT_EQ(votes[5].ballot, 0b01001001001001001001001001001001u);
  EXPECT_EQ(votes[35].ballot, 0b0010010010u);
  EXPECT_EQ(votes[35].max, 41u);
  EXPECT_EQ(votes[3].sum, 496u);
  EXPECT_EQ(votes[3].any, 0);
  EXPECT_EQ(votes[33].any, 1);
  EXPECT_EQ(votes[3].all, 1);
  EXPECT_EQ(votes[33].all, 0);
  EXPECT_EQ(votes[33].none, 0);
  EXPECT_EQ(votes[33].min, -41);
}

// ---- blocks

struct ReduceShared {
  float sums[8];
};
__global__ void Reduce(const float* in, float* out) {
  auto& shared = DynamicShared<ReduceShared>();
  float x = in[blockIdx.x * blockDim.x + threadIdx.x];
  for (int i = 16; i > 0; i /= 2) x += __shfl_xor_sync(kFull, x, i);
  if (threadIdx.x % 32 == 0) shared.sums[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = std::accumulate(shared.sums, shared.sums + 8, 0.0f);
}

TEST_P(EmulatorTest, SumsOfBlocks) {
  std::vector<float> in(4 * 256);
  std::iota(in.begin(), in.end(), 0.0f);
  DeviceArray<float> device_in(in), out(4);
  ASSERT_EQ(Launch(Reduce, {.grid = 4, .threads = 256, .shared_bytes = sizeof(ReduceShared)},
                   device_in.data(), out.data()),
            cudaSuccess);
  for (int b = 0; b < 4; ++b) EXPECT_EQ(out.Download()[b], 256 * 256 * b + 255 * 128);
}

__global__ void Rotate(int* out, int rounds) {
  int* const values = &DynamicShared<int>();
  const unsigned t = threadIdx.x, n = blockDim.x;
  values[t] = static_cast<int>(t);
  for (int i = 0; i < rounds; ++i) {
    __syncthreads();
    const int next = values[(t + 1) % n];
    __syncthreads();
    values[t] = next;
  }
  out[t] = values[t];
  if (__syncthreads_count(t % 2 == 0) != static_cast<int>(n) / 2) out[t] = -1;
  if (!__syncthreads_or(t == 7) || __syncthreads_and(t != 7)) out[t] = -2;
}

TEST_P(EmulatorTest, BlockBarriers) {
  DeviceArray<int> out(96);
  ASSERT_EQ(
      Launch(Rotate, {.grid = 1, .threads = 96, .shared_bytes = 96 * sizeof(int)}, out.data(), 5),
      cudaSuccess);
  for (int t = 0; t < 96; ++t) EXPECT_EQ(out.Download()[t], (t + 5) % 96);
}

__global__ void LooksAtFreshSharedMemory(int* all_nan, int* aligned) {
  auto& values = DynamicShared<double[100]>();
  *all_nan = 1;
  for (double& x : values) {
    if (!std::isnan(x)) *all_nan = 0;
    x = 0;
  }
  *aligned = reinterpret_cast<std::uintptr_t>(&values) % 1024 == 0;
}

TEST_P(EmulatorTest, SharedMemoryIsFreshForEveryBlock) {
  for (int i = 0; i < 3; ++i) {
    DeviceArray<int> all_nan(1), aligned(1);
    ASSERT_EQ(Launch(LooksAtFreshSharedMemory, {.grid = 1, .threads = 1, .shared_bytes = 800},
                     all_nan.data(), aligned.data()),
              cudaSuccess);
    EXPECT_EQ(all_nan.Download()[0], 1);
    EXPECT_EQ(aligned.Download()[0], 1);
  }
}

// ---- mbarriers

struct PipeShared {
  Barrier full[2], empty[2];
  float stages[2][32];
};
// Warp 0 produces, the others consume.
__global__ void Pipe(float* out, int rounds) {
  auto& shared = DynamicShared<PipeShared>();
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  if (threadIdx.x == 0) {
    for (int s = 0; s < 2; ++s) {
      BarrierInit(&shared.full[s], 32);
      BarrierInit(&shared.empty[s], 3);
    }
  }
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < rounds; ++i) {
    const int stage = i % 2, parity = i / 2 % 2;
    if (warp == 0) {
      BarrierWait(&shared.empty[stage], parity ^ 1);  // at first at once
      shared.stages[stage][lane] = static_cast<float>(i * 32 + lane);
      BarrierArrive(&shared.full[stage]);
    } else {
      BarrierWait(&shared.full[stage], parity);
      sum += shared.stages[stage][(lane + 1) % 32];
      __syncwarp();
      if (lane == 0) BarrierArrive(&shared.empty[stage]);
    }
  }
  out[threadIdx.x] = sum;
}

TEST_P(EmulatorTest, BarrierPhases) {
  DeviceArray<float> out(128);
  ASSERT_EQ(
      Launch(Pipe, {.grid = 1, .threads = 128, .shared_bytes = sizeof(PipeShared)}, out.data(), 9),
      cudaSuccess);
  const auto sums = out.Download();
  for (int t = 32; t < 128; ++t) EXPECT_EQ(sums[t], 32 * 36 + 9 * ((t + 1) % 32));
}

// ---- clusters

struct alignas(16) RingShared {
  float own[32], received[32];
  Barrier arrived, sent;
};
// Every block passes its values on to the next one of its cluster.
__global__ void Ring(float* out, int blocks, int rounds) {
  auto& shared = DynamicShared<RingShared>();
  const unsigned t = threadIdx.x;
  const int rank = ClusterRank();
  shared.own[t] = static_cast<float>(100 * blockIdx.x + t);
  if (t == 0) {
    BarrierInit(&shared.arrived, 1);
    BarrierInit(&shared.sent, 1);
    FenceBarrierInit();
  }
  ClusterArrive();
  ClusterWait();
  for (int i = 0; i < rounds; ++i) {
    if (t == 0) {
      BarrierArriveExpect(&shared.arrived, sizeof shared.own);
      FenceAsyncProxy();
      CopyToPeer(shared.received, (rank + 1) % blocks, shared.own, sizeof shared.own,
                 &shared.arrived);
    }
    BarrierWaitCluster(&shared.arrived, i % 2);
    __syncthreads();
    if (t == 0) BarrierArrivePeer(&shared.sent, (rank + blocks - 1) % blocks);
    BarrierWaitCluster(&shared.sent, i % 2);  // ours has been received: it may be overwritten
    shared.own[t] = shared.received[t];
    __syncthreads();
    ClusterArrive();  // everyone has taken what it received
    ClusterWait();
  }
  out[blockIdx.x * blockDim.x + t] = shared.own[t];
}

TEST_P(EmulatorTest, ClustersHandOver) {
  DeviceArray<float> out(8 * 32);
  const LaunchConfig config{
      .grid = 8, .threads = 32, .shared_bytes = sizeof(RingShared), .cluster = 4};
  ASSERT_EQ(Launch(Ring, config, out.data(), 4, 5), cudaSuccess);
  const auto values = out.Download();
  for (int b = 0; b < 8; ++b) {
    for (int t = 0; t < 32; ++t) EXPECT_EQ(values[b * 32 + t], 100 * (b / 4 * 4 + (b + 3) % 4) + t);
  }
}

__global__ void Addresses(int* good) {
  const auto* const shared = &DynamicShared<char>();
  good[blockIdx.x] = SharedAddress(shared + 40) - SharedAddress(shared) == 40 &&
                     PeerAddress(shared + 40, ClusterRank()) == SharedAddress(shared + 40) &&
                     PeerAddress(shared, 1 - ClusterRank()) != SharedAddress(shared);
  ClusterArrive();
  ClusterWait();
}

TEST_P(EmulatorTest, SharedAddresses) {
  DeviceArray<int> good(2);
  const LaunchConfig config{.grid = 2, .threads = 1, .shared_bytes = 64, .cluster = 2};
  ASSERT_EQ(Launch(Addresses, config, good.data()), cudaSuccess);
  EXPECT_EQ(good.Download(), (std::vector<int>{1, 1}));
}

// ---- asynchronous copies

__global__ void Fetch(const float* in, float* before, float* after) {
  float* const shared = &DynamicShared<float>() + 12 * threadIdx.x;
  for (int i = 0; i < 12; ++i) shared[i] = -1;
  CopyAsync16(shared, in + 8 * threadIdx.x);
  CopyAsyncCommit();
  CopyAsync16(shared + 4, in + 8 * threadIdx.x + 4);
  CopyAsync16(shared + 8, nullptr, false);
  CopyAsyncCommit();
  CopyAsyncWait<1>();
  for (int i = 0; i < 12; ++i) before[12 * threadIdx.x + i] = shared[i];
  CopyAsyncWait<0>();
  for (int i = 0; i < 12; ++i) after[12 * threadIdx.x + i] = shared[i];
}

TEST_P(EmulatorTest, AsynchronousCopies) {
  std::vector<float> in(8 * 64);
  std::iota(in.begin(), in.end(), 0.0f);
  DeviceArray<float> device_in(in), before(12 * 64), after(12 * 64);
  ASSERT_EQ(Launch(Fetch, {.grid = 1, .threads = 64, .shared_bytes = 12 * 64 * sizeof(float)},
                   device_in.data(), before.data(), after.data()),
            cudaSuccess);
  const auto early = before.Download(), late = after.Download();
  for (int t = 0; t < 64; ++t) {
    for (int i = 0; i < 12; ++i) {
      const float expected = i < 8 ? in[8 * t + i] : 0;
      EXPECT_EQ(late[12 * t + i], expected);
      if (i < 4 || !GetParam().deferred_copies) {
        EXPECT_EQ(early[12 * t + i], expected);
      } else {
        EXPECT_TRUE(std::isnan(early[12 * t + i])) << "the second group has not been waited for";
      }
    }
  }
}

// ---- flags, fences and atomics

// Block b waits for block b - 1.
__global__ void Chain(std::uint32_t* flags, int* values) {
  const unsigned b = blockIdx.x;
  if (b > 0) {
    if (threadIdx.x == 0) {
      while (LoadAcquire(&flags[b - 1]) == 0) Pause();
    }
    __syncthreads();
  }
  const int last = b == 0 ? 0 : values[(b - 1) * blockDim.x + threadIdx.x];
  values[b * blockDim.x + threadIdx.x] = last + 1;
  __syncthreads();
  if (threadIdx.x == 0) StoreRelease(&flags[b], 1);
}

TEST_P(EmulatorTest, FlagsBetweenCooperativeBlocks) {
  DeviceArray<std::uint32_t> flags(12);
  flags.Fill(0);
  DeviceArray<int> values(12 * 64);
  ASSERT_EQ(
      Launch(Chain, {.grid = 12, .threads = 64, .cooperative = true}, flags.data(), values.data()),
      cudaSuccess);
  const auto result = values.Download();
  for (int i = 0; i < 12 * 64; ++i) EXPECT_EQ(result[i], i / 64 + 1);
}

// Words that hold their own flag: never 0.
__global__ void RelaxedChain(std::uint64_t* words) {
  const unsigned b = blockIdx.x;
  std::uint64_t last = 1;
  while (b > 0 && (last = LoadRelaxed(&words[b - 1])) == 0) Pause();
  StoreRelaxed(&words[b], 3 * last);
}

TEST_P(EmulatorTest, RelaxedWordsBetweenCooperativeBlocks) {
  DeviceArray<std::uint64_t> words(20);
  words.Fill(0);
  ASSERT_EQ(Launch(RelaxedChain, {.grid = 20, .threads = 1, .cooperative = true}, words.data()),
            cudaSuccess);
  EXPECT_EQ(words.Download()[19], 3486784401u);
}

// The last block to come sums what all have written.
__global__ void LastBlock(unsigned* count, int* parts, int* sum) {
  parts[blockIdx.x] = static_cast<int>(blockIdx.x);
  __threadfence();
  if (atomicAdd(count, 1u) + 1 < gridDim.x) return;
  __threadfence();
  *sum = std::accumulate(parts, parts + gridDim.x, 0);
}

TEST_P(EmulatorTest, FencesAndACounter) {
  DeviceArray<unsigned> count(1);
  count.Fill(0);
  DeviceArray<int> parts(50), sum(1);
  ASSERT_EQ(Launch(LastBlock, {.grid = 50, .threads = 1}, count.data(), parts.data(), sum.data()),
            cudaSuccess);
  EXPECT_EQ(sum.Download()[0], 49 * 25);
}

__global__ void Atomics(int* ints, float* floats, unsigned long long* longs, unsigned* lock) {
  const int t = static_cast<int>(threadIdx.x);
  atomicAdd(&ints[0], t);
  atomicMax(&ints[1], t);
  atomicMin(&ints[2], -t);
  atomicOr(&ints[3], t);
  atomicAdd(&floats[0], 0.5f);
  atomicAdd(&longs[0], 1ull << 33);
  for (bool done = false; !done;) {  // a lane at a time
    if (atomicCAS(lock, 0u, 1u) != 0) continue;
    __threadfence();
    ++ints[4];
    __threadfence();
    atomicExch(lock, 0u);
    done = true;
  }
}

TEST_P(EmulatorTest, AtomicOperations) {
  DeviceArray<int> ints(5);
  DeviceArray<float> floats(1);
  DeviceArray<unsigned long long> longs(1);
  DeviceArray<unsigned> lock(1);
  ints.Fill(0), floats.Fill(0), longs.Fill(0), lock.Fill(0);
  ASSERT_EQ(Launch(Atomics, {.grid = 1, .threads = 96}, ints.data(), floats.data(), longs.data(),
                   lock.data()),
            cudaSuccess);
  EXPECT_EQ(ints.Download(), (std::vector<int>{95 * 48, 95, -95, 127, 96}));
  EXPECT_EQ(floats.Download()[0], 48);
  EXPECT_EQ(longs.Download()[0], 96ull << 33);
}

// ---- tensor cores

std::uint32_t Tf32(float x) { return RoundToTf32(x); }
double Tf32(double x) { return x; }

// A (16 x 8), B (8 x 8), D (16 x 8), row-major: D += A B.
template <class T>
__global__ void MultiplyKernel(const T* A, const T* B, T* D) {
  const int lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4;
  using Input = decltype(Tf32(T()));
  const Input a[4] = {Tf32(A[g * 8 + t]), Tf32(A[(g + 8) * 8 + t]), Tf32(A[g * 8 + t + 4]),
                      Tf32(A[(g + 8) * 8 + t + 4])};
  const Input b[2] = {Tf32(B[t * 8 + g]), Tf32(B[(t + 4) * 8 + g])};
  T* const places[4] = {D + g * 8 + 2 * t, D + g * 8 + 2 * t + 1, D + (g + 8) * 8 + 2 * t,
                        D + (g + 8) * 8 + 2 * t + 1};
  T d[4] = {*places[0], *places[1], *places[2], *places[3]};
  Mma16x8x8(d, a, b);
  for (int i = 0; i < 4; ++i) *places[i] = d[i];
}

template <class T>
void ExpectProduct(double bound) {
  std::mt19937 random(7);
  std::uniform_real_distribution<T> uniform(-1, 1);
  std::vector<T> A(16 * 8), B(8 * 8), D(16 * 8);
  for (auto* matrix : {&A, &B, &D}) {
    for (T& x : *matrix) x = uniform(random);
  }
  DeviceArray<T> device_a(A), device_b(B), device_d(D);
  ASSERT_EQ(Launch(MultiplyKernel<T>, {.grid = 1, .threads = 32}, device_a.data(), device_b.data(),
                   device_d.data()),
            cudaSuccess);
  const auto result = device_d.Download();
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) {
      long double expected = D[i * 8 + j];
      for (int k = 0; k < 8; ++k) expected += static_cast<long double>(A[i * 8 + k]) * B[k * 8 + j];
      EXPECT_NEAR(result[i * 8 + j], static_cast<double>(expected), bound) << i << ", " << j;
    }
  }
}
TEST_P(EmulatorTest, TensorCoreProducts) {
  ExpectProduct<double>(1e-15);
  ExpectProduct<float>(8 * 0x1p-11);  // both factors are rounded
}

TEST(EmulatorPtxTest, RoundsToTf32) {
  const auto round = [](float x) { return __uint_as_float(RoundToTf32(x)); };
  EXPECT_EQ(round(1 + 0x1p-10f), 1 + 0x1p-10f);
  EXPECT_EQ(round(1 + 0x1p-11f), 1 + 0x1p-10f) << "a tie goes away from zero";
  EXPECT_EQ(round(-1 - 0x1p-11f), -1 - 0x1p-10f);
  EXPECT_EQ(round(1 + 0x1p-11f - 0x1p-23f), 1);
  EXPECT_EQ(round(0x1p-149f), 0);
  EXPECT_EQ(round(std::numeric_limits<float>::infinity()), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(round(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_EQ(__uint_as_float(TruncateToTf32(-1 - 0x1p-10f - 0x1p-11f)), -1 - 0x1p-10f);
}

TEST(EmulatorBuiltinsTest, BitsAndExtremes) {
  EXPECT_EQ(__float_as_uint(1.0f), 0x3f800000u);
  EXPECT_EQ(__double_as_longlong(__longlong_as_double(42)), 42);
  EXPECT_EQ(__hiloint2double(__double2hiint(-0.1), __double2loint(-0.1)), -0.1);
  EXPECT_EQ(__popc(0xf0u) + __ffs(8) + __clz(1) + __clzll(1), 4 + 4 + 31 + 63);
  EXPECT_EQ(min(3, 2u), 2u);
  EXPECT_EQ(max(1, 2.5), 2.5);
  EXPECT_EQ(max(1.0f, std::numeric_limits<float>::quiet_NaN()), 1.0f);
  EXPECT_EQ(sizeof(float4), 16u);
  EXPECT_EQ(alignof(double2), 16u);
  EXPECT_EQ(sizeof(Barrier), 8u);
}

// ---- what ends the process

__global__ void WritesBehindSharedMemory() { (&DynamicShared<float>())[16] = 1; }
__global__ void WritesBeforeDeviceMemory(float* p) { p[-1] = 1; }

TEST_F(EmulatorDeathTest, GuardZones) {
  const auto reported = [](const char* text) {
    return emulator::kAddressSanitizer ? "use-after-poison" : text;
  };
  EXPECT_DEATH(
      (void)Launch(WritesBehindSharedMemory, {.grid = 1, .threads = 1, .shared_bytes = 64}),
      reported("wrote outside of its shared memory of 64 bytes, at byte 64"));
  const auto before_device_memory = [] {
    float* p = nullptr;
    (void)cudaMalloc(&p, 100);
    (void)Launch(WritesBeforeDeviceMemory, {.grid = 1, .threads = 1}, p);
    (void)cudaFree(p);
  };
  EXPECT_DEATH(before_device_memory(),
               reported("device memory of 100 bytes was written outside, at byte -4"));
}

__global__ void SomeThreadsSync() {
  if (threadIdx.x < 40) __syncthreads();
}
__global__ void WaitsForNobody() {
  auto& bar = DynamicShared<Barrier>();
  if (threadIdx.x == 0) BarrierInit(&bar, 1);
  __syncthreads();
  BarrierWait(&bar, 0);
}
__global__ void WaitsForAFlag(std::uint32_t* flag) {
  if (blockIdx.x == 0) {
    while (LoadAcquire(flag) == 0) Pause();
  } else {
    StoreRelease(flag, 1);
  }
}

TEST_F(EmulatorDeathTest, Deadlocks) {
  EXPECT_DEATH((void)Launch(SomeThreadsSync, {.grid = 1, .threads = 64}),
               "deadlock: 2 of 2 warps.*warp 0: 32 lanes at __syncthreads;.*"
               "warp 1: 8 lanes at __syncthreads; 24 lanes at its end");
  EXPECT_DEATH((void)Launch(WaitsForNobody, {.grid = 1, .threads = 32, .shared_bytes = 8}),
               "block \\(0, 0, 0\\) warp 0: 32 lanes at BarrierWait");
  const auto not_cooperative = [] {
    DeviceArray<std::uint32_t> flag(1);
    flag.Fill(0);
    (void)Launch(WaitsForAFlag, {.grid = 2, .threads = 1}, flag.data());
  };
  EXPECT_DEATH(not_cooperative(), "deadlock: 1 of 1 warps.*1 lanes at (LoadAcquire|Pause)");
}

__global__ void DivergedPrimitives() {
  if (threadIdx.x < 16) {
    __shfl_sync(kFull, 1, 0);
  } else {
    __ballot_sync(kFull, 1);
  }
}
__global__ void EndsEarly() {
  if (threadIdx.x > 3) __shfl_sync(kFull, 1, 0);
}
__global__ void HalfMask() { __syncwarp(0xffff); }

TEST_F(EmulatorDeathTest, WarpsThatDiverge) {
  EXPECT_DEATH((void)Launch(DivergedPrimitives, {.grid = 1, .threads = 32}),
               "lane 16: __ballot_sync while 16 lanes of the warp are in __shfl_sync");
  EXPECT_DEATH((void)Launch(EndsEarly, {.grid = 1, .threads = 32}),
               "__shfl_sync: 4 lanes of the warp have ended");
  EXPECT_DEATH((void)Launch(HalfMask, {.grid = 1, .threads = 32}), "__syncwarp with mask 0xffff");
}

__global__ void NoInit() { BarrierArrive(&DynamicShared<Barrier>()); }
__global__ void TooManyArrivals() {
  auto& bar = DynamicShared<Barrier>();
  BarrierInit(&bar, 1);
  BarrierArriveExpect(&bar, 16);
  BarrierArrive(&bar);
}

TEST_F(EmulatorDeathTest, MisusedBarriers) {
  EXPECT_DEATH((void)Launch(NoInit, {.grid = 1, .threads = 1, .shared_bytes = 8}),
               "barrier that is not initialized");
  EXPECT_DEATH((void)Launch(TooManyArrivals, {.grid = 1, .threads = 1, .shared_bytes = 8}),
               "more arrivals than the barrier's count of 1");
}

__global__ void SenderLeaves() {
  auto& shared = DynamicShared<RingShared>();
  BarrierInit(&shared.arrived, 1);
  ClusterArrive();
  ClusterWait();
  if (ClusterRank() == 0) {
    CopyToPeer(shared.received, 1, shared.own, 16, &shared.arrived);
  } else {
    BarrierArriveExpect(&shared.arrived, 16);
    BarrierWaitCluster(&shared.arrived, 0);
  }
}
__global__ void MisalignedCopy(const float* p) { CopyAsync16(&DynamicShared<float>(), p + 1); }
__global__ void NotRounded() {
  float d[4] = {};
  const std::uint32_t a[4] = {1}, b[2] = {};
  Mma16x8x8(d, a, b);
}

TEST_F(EmulatorDeathTest, MisusedCopiesAndProducts) {
  if (!emulator::kThreadSanitizer) {  // for which such copies are not deferred
    const LaunchConfig config{
        .grid = 2, .threads = 1, .shared_bytes = sizeof(RingShared), .cluster = 2};
    EXPECT_DEATH((void)Launch(SenderLeaves, config),
                 "CopyToPeer: block .* ended before the copy was there");
  }
  DeviceArray<float> p(8);
  EXPECT_DEATH(
      (void)Launch(MisalignedCopy, {.grid = 1, .threads = 1, .shared_bytes = 16}, p.data()),
      "global address not aligned");
  EXPECT_DEATH((void)Launch(NotRounded, {.grid = 1, .threads = 32}), "0x1 is not a TF32 number");
}

// ---- races, which ThreadSanitizer must see: the kernels above are correct, these are not

__global__ void NoBlockBarrier(int* out) {
  int* const values = &DynamicShared<int>();
  values[threadIdx.x] = 1;
  __syncwarp();
  out[threadIdx.x] = values[threadIdx.x ^ 32];
}
__global__ void NoWarpBarrier(int* out) {
  int* const values = &DynamicShared<int>();
  values[threadIdx.x] = 1;
  __shfl_sync(kFull, 1, 0);  // orders nothing
  out[threadIdx.x] = values[threadIdx.x ^ 1];
}
__global__ void NoFlag(int* out) {  // between blocks that are never alive together
  if (threadIdx.x == 0) out[0] = static_cast<int>(blockIdx.x);
}
__global__ void NoInitBarrier(int*) {
  auto& bar = DynamicShared<Barrier>();
  if (threadIdx.x == 0) BarrierInit(&bar, 1);
  if (threadIdx.x == 32) {
    while (*reinterpret_cast<volatile std::uint64_t*>(&bar.state) == ~std::uint64_t{0}) Pause();
    BarrierArrive(&bar);
  }
}
__global__ void OverwritesTooEarly(int* out) {  // the producer does not wait until it was read
  struct Shared {
    Barrier full;
    int value;
  };
  auto& shared = DynamicShared<Shared>();
  if (threadIdx.x == 0) BarrierInit(&shared.full, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    shared.value = 1;
    BarrierArrive(&shared.full);
    shared.value = 2;
  } else if (threadIdx.x >= 32) {
    BarrierWait(&shared.full, 0);
    out[threadIdx.x] = shared.value;
  }
}
__global__ void NoRelease(int* out) {
  auto* const flag = reinterpret_cast<unsigned*>(out + 1);
  if (blockIdx.x == 0) {
    out[0] = 1;
    atomicExch(flag, 1u);  // relaxed
  } else {
    while (atomicAdd(flag, 0u) != 1) Pause();
    out[2] = out[0];
  }
}

TEST_F(EmulatorDeathTest, Races) {
  if (!emulator::kThreadSanitizer) GTEST_SKIP() << "without ThreadSanitizer";
  for (const Options& options :
       {Options{.scheduler = Scheduler::kSequential}, Options{.scheduler = Scheduler::kThreaded},
        Options{.scheduler = Scheduler::kThreaded, .races_within_warps = false}}) {
    SCOPED_TRACE(NameOf({options, 0}));
    emulator::SetOptions(options);
    DeviceArray<int> out(64);
    out.Fill(0);
    const auto run = [&out](void (*kernel)(int*), const LaunchConfig& config) {
      (void)Launch(kernel, config, out.data());
      std::exit(0);
    };
    const ::testing::ExitedWithCode race(66);  // ThreadSanitizer's
    const LaunchConfig warps{.grid = 1, .threads = 64, .shared_bytes = 256};
    EXPECT_EXIT(run(NoBlockBarrier, warps), race, "data race");
    EXPECT_EXIT(run(NoInitBarrier, warps), race, "data race");
    EXPECT_EXIT(run(OverwritesTooEarly, warps), race, "data race");
    EXPECT_EXIT(run(NoFlag, {.grid = 2, .threads = 32}), race, "data race");
    EXPECT_EXIT(run(NoRelease, {.grid = 2, .threads = 1, .cooperative = true}), race, "data race");
    const LaunchConfig warp{.grid = 1, .threads = 32, .shared_bytes = 256};
    EXPECT_EXIT(run(NoWarpBarrier, warp),
                ::testing::ExitedWithCode(options.races_within_warps ? 66 : 0), "");
  }
}

// ---- the runtime

class RuntimeTest : public ::testing::Test {
 protected:
  ~RuntimeTest() override {
    emulator::SetOptions({});
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    (void)cudaGetLastError();
  }
};

__global__ void Nothing() {}

TEST_F(RuntimeTest, LaunchesAreChecked) {
  EXPECT_EQ(Launch(Nothing, {.grid = 1, .threads = 1024}), cudaSuccess);
  EXPECT_EQ(Launch(Nothing, {.grid = 0, .threads = 32}), cudaSuccess);
  EXPECT_EQ(Launch(Nothing, {.grid = 1, .threads = 1025}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(Launch(Nothing, {.grid = 1, .threads = 0}), cudaErrorInvalidConfiguration);
  EXPECT_EQ(Launch(Nothing, {.grid = dim3(1, 65536), .threads = 32}),
            cudaErrorInvalidConfiguration);
  EXPECT_EQ(Launch(Nothing, {.grid = 1, .threads = 32, .shared_bytes = 232448}), cudaSuccess);
  EXPECT_EQ(Launch(Nothing, {.grid = 1, .threads = 32, .shared_bytes = 232449}),
            cudaErrorInvalidValue);
  EXPECT_EQ(Launch(Nothing, {.grid = 3, .threads = 32, .cluster = 2}), cudaErrorInvalidClusterSize);
  EXPECT_EQ(Launch(Nothing, {.grid = 16, .threads = 32, .cluster = 16}),
            cudaErrorInvalidClusterSize);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidClusterSize);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidClusterSize);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(RuntimeTest, LargeSharedMemoryMustBeAskedFor) {
  cudaLaunchConfig_t config = {};
  config.gridDim = config.blockDim = dim3(1);
  config.dynamicSmemBytes = 50 << 10;
  EXPECT_EQ(cudaLaunchKernelEx(&config, LooksAtFreshSharedMemory, nullptr, nullptr),
            cudaErrorInvalidValue);
}

TEST_F(RuntimeTest, CooperativeLaunchesMustFit) {
  emulator::SetOptions({.multiprocessors = 3});
  EXPECT_EQ(
      Launch(Nothing, {.grid = 6, .threads = 32, .shared_bytes = 100 << 10, .cooperative = true}),
      cudaSuccess);
  EXPECT_EQ(
      Launch(Nothing, {.grid = 7, .threads = 32, .shared_bytes = 100 << 10, .cooperative = true}),
      cudaErrorCooperativeLaunchTooLarge);
  int blocks = 0;
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, Nothing, 1024, 0), cudaSuccess);
  EXPECT_EQ(blocks, 2);
}

TEST_F(RuntimeTest, CopiesAreChecked) {
  DeviceArray<int> device(8);
  std::vector<int> host(8);
  EXPECT_EQ(cudaMemcpy(device.data(), host.data(), 32, cudaMemcpyDeviceToHost),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(device.data(), host.data(), 4096, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemset(host.data(), 0, 32), cudaErrorInvalidValue);
  // 2 x 3 of a 4 x 2 array.
  device.Fill(0);
  host = {1, 2, 3, 4, 5, 6, 0, 0};
  EXPECT_EQ(cudaMemcpy2DAsync(device.data(), 16, host.data(), 12, 12, 2, cudaMemcpyHostToDevice),
            cudaSuccess);
  EXPECT_EQ(device.Download(), (std::vector<int>{1, 2, 3, 0, 4, 5, 6, 0}));
  EXPECT_EQ(cudaMemcpy2DAsync(device.data(), 8, host.data(), 12, 12, 2, cudaMemcpyHostToDevice),
            cudaErrorInvalidPitchValue);
  EXPECT_EQ(cudaFree(device.data()), cudaErrorInvalidValue) << "not what cudaMalloc returned";
}

TEST_F(RuntimeTest, DeviceArraysHaveGuards) {
  DeviceArray<int> array(std::vector<int>{1, 2, 3});
  EXPECT_TRUE(array.GuardsIntact());
  EXPECT_EQ(cudaMemset(array.data() + 3, 0, 1), cudaSuccess);
  EXPECT_FALSE(array.GuardsIntact());
}

TEST_F(RuntimeTest, PinnedMemory) {
  double* p = nullptr;
  ASSERT_EQ(cudaMallocHost(&p, 100), cudaSuccess);
  EXPECT_TRUE(std::isnan(p[0]));
  EXPECT_EQ(cudaFreeHost(p), cudaSuccess);
  std::vector<char> memory(4096);
  EXPECT_EQ(cudaHostRegister(memory.data(), 4096, cudaHostRegisterDefault), cudaSuccess);
  EXPECT_EQ(cudaHostRegister(memory.data() + 100, 10, cudaHostRegisterDefault),
            cudaErrorHostMemoryAlreadyRegistered);
  EXPECT_EQ(cudaHostUnregister(memory.data()), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(memory.data()), cudaErrorHostMemoryNotRegistered);
}

TEST_F(RuntimeTest, MemoryIsLimited) {
  emulator::SetOptions({.devices = 2, .memory_bytes = 4096});
  emulator::LimitMemory(1, 1000);
  void *p = nullptr, *q = nullptr;
  EXPECT_EQ(cudaMalloc(&p, 3000), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&q, 1097), cudaErrorMemoryAllocation);
  EXPECT_EQ(q, nullptr);
  EXPECT_EQ(emulator::AllocatedBytes(0), 3000u);
  EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&q, 1001), cudaErrorMemoryAllocation);
  std::size_t free = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(free, 1000u);
  EXPECT_EQ(total, 4096u);
  EXPECT_EQ(cudaFree(p), cudaSuccess);
  EXPECT_EQ(emulator::AllocatedBytes(0), 0u);
}

TEST_F(RuntimeTest, ALostDeviceStaysLost) {
  emulator::SetOptions({.devices = 2});
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  emulator::FailAfter(0, 1, cudaErrorIllegalAddress);
  EXPECT_EQ(Launch(Nothing, {.grid = 1, .threads = 32, .stream = stream}), cudaSuccess);
  EXPECT_EQ(Launch(Nothing, {.grid = 1, .threads = 32, .stream = stream}), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(Launch(Nothing, {.grid = 1, .threads = 32}), cudaSuccess);
  EXPECT_EQ(Launch(Nothing, {.grid = 1, .threads = 32, .stream = stream}),
            cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
  emulator::SetOptions({.devices = 2});
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(RuntimeTest, Devices) {
  emulator::SetOptions({.devices = 2, .multiprocessors = 7});
  int count = 0, version = 0, processors = 0;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 2);
  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 1), cudaSuccess);
  EXPECT_STREQ(properties.name, "emulated");
  EXPECT_EQ(properties.sharedMemPerBlockOptin, 232448u);
  EXPECT_EQ(properties.major, 9);
  EXPECT_EQ(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0), cudaSuccess);
  EXPECT_EQ(processors, 7);
  EXPECT_EQ(cudaGetDeviceProperties(&properties, 2), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaDriverGetVersion(&version), cudaSuccess);
  emulator::SetOptions({.devices = 0});
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  EXPECT_STREQ(cudaGetErrorString(cudaErrorNoDevice), "no CUDA-capable device is detected");
  EXPECT_STREQ(cudaGetErrorName(cudaErrorNoDevice), "cudaErrorNoDevice");
  emulator::SetOptions({});
}

TEST_F(RuntimeTest, Events) {
  cudaEvent_t start = nullptr, end = nullptr;
  ASSERT_EQ(cudaEventCreate(&start), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&end, cudaEventDefault), cudaSuccess);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(start), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(end), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(nullptr, end), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(end), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaSuccess);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(cudaEventDestroy(start), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(end), cudaSuccess);
}

TEST_F(RuntimeTest, HostThreadsLaunchAtTheSameTime) {
  std::vector<float> in(16 * 256, 1);
  const auto work = [&in] {
    DeviceArray<float> device_in(in), out(16);
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(Launch(Reduce, {.grid = 16, .threads = 256, .shared_bytes = sizeof(ReduceShared)},
                       device_in.data(), out.data()),
                cudaSuccess);
      EXPECT_EQ(out.Download(), std::vector<float>(16, 256));
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace factord::kernels
