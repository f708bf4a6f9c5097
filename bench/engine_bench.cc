// The CPU engine against a plain loop of LAPACKE over the same matrices: geqrf, then orgqr, one
// thread.
//
// Times of "engine/..." and "lapacke/..." of one shape are to be compared; run with
// --benchmark_repetitions and
// --benchmark_enable_random_interleaving=true, and take medians.
#include <lapacke.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "server/core/slab.h"
#include "server/engine/cpu_factorizer.h"
#include "server/engine/lapack.h"

namespace factord {
namespace {

template <typename T>
constexpr DType kType = sizeof(T) == 4 ? DType::kF32 : DType::kF64;

template <typename T>
std::vector<T> NormalMatrices(std::int64_t count, std::int64_t n) {
  std::mt19937 random(20261130);
  std::normal_distribution<T> normal;
  std::vector<T> values(static_cast<std::size_t>(count * n * n));
  for (T& value : values) value = normal(random);
  return values;
}

void Count(benchmark::State& state, std::int64_t count, std::int64_t n) {
  state.counters["matrices"] =
      benchmark::Counter(static_cast<double>(count), benchmark::Counter::kIsIterationInvariantRate);
  const double cube = static_cast<double>(n * n * n);
  state.counters["flops"] =
      benchmark::Counter(static_cast<double>(count) * (4.0 / 3 + 4.0 / 3) * cube,
                         benchmark::Counter::kIsIterationInvariantRate);
}

template <typename T>
void Engine(benchmark::State& state, Layout layout, int threads) {
  const std::int64_t count = state.range(0), n = state.range(1);
  const std::vector<T> values = NormalMatrices<T>(count, n);
  const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
  Slab a = *Slab::Create(bytes), q = *Slab::Create(bytes), r = *Slab::Create(bytes);
  std::memcpy(a.data(), values.data(), static_cast<std::size_t>(bytes));
  CpuFactorizer factorizer(threads);
  for (auto _ : state) {
    Batch batch;
    batch.jobs.push_back(std::make_unique<Job>());
    Job& job = *batch.jobs.back();
    job.spec = {.op = Op::kFactorize,
                .dtype = kType<T>,
                .layout = layout,
                .m = n,
                .n = n,
                .q = QMode::kReduced,
                .r = true};
    job.count = count;
    job.operands[static_cast<std::size_t>(Operand::kA)] = a.data();
    job.operands[static_cast<std::size_t>(Operand::kQ)] = q.data();
    job.operands[static_cast<std::size_t>(Operand::kR)] = r.data();
    if (!factorizer.Run(batch).ok()) state.SkipWithError("the engine failed");
  }
  Count(state, count, n);
}

lapack_int Geqrf(lapack_int n, float* a, float* tau) {
  return LAPACKE_sgeqrf(LAPACK_COL_MAJOR, n, n, a, n, tau);
}
lapack_int Geqrf(lapack_int n, double* a, double* tau) {
  return LAPACKE_dgeqrf(LAPACK_COL_MAJOR, n, n, a, n, tau);
}
lapack_int Orgqr(lapack_int n, float* a, const float* tau) {
  return LAPACKE_sorgqr(LAPACK_COL_MAJOR, n, n, n, a, n, tau);
}
lapack_int Orgqr(lapack_int n, double* a, const double* tau) {
  return LAPACKE_dorgqr(LAPACK_COL_MAJOR, n, n, n, a, n, tau);
}

// What a user writes: a copy to keep the input, geqrf, R out of the upper triangle, orgqr.
template <typename T>
void Lapacke(benchmark::State& state) {
  const std::int64_t count = state.range(0), n = state.range(1);
  const std::vector<T> values = NormalMatrices<T>(count, n);
  std::vector<T> q(values.size()), r(values.size()), tau(static_cast<std::size_t>(n));
  for (auto _ : state) {
    std::memcpy(q.data(), values.data(), values.size() * sizeof(T));
    for (std::int64_t i = 0; i < count; ++i) {
      T* a = q.data() + i * n * n;
      if (Geqrf(static_cast<lapack_int>(n), a, tau.data()) != 0)
        state.SkipWithError("geqrf failed");
      for (std::int64_t j = 0; j < n; ++j)
        std::memcpy(&r[static_cast<std::size_t>(i * n * n + j * n)], a + j * n,
                    static_cast<std::size_t>(j + 1) * sizeof(T));
      if (Orgqr(static_cast<lapack_int>(n), a, tau.data()) != 0)
        state.SkipWithError("orgqr failed");
    }
    benchmark::DoNotOptimize(r.data());
  }
  Count(state, count, n);
}

template <typename T>
void Register(const std::string& type) {
  static constexpr std::int64_t kShapes[][2] = {{20000, 8}, {4000, 16}, {1000, 32}, {250, 64},
                                                {64, 128},  {16, 256},  {4, 512},   {1, 1024}};
  const auto with_shapes = [](benchmark::internal::Benchmark* b) {
    for (const auto& shape : kShapes) b->Args({shape[0], shape[1]});
    b->Unit(benchmark::kMillisecond)->UseRealTime();
  };
  with_shapes(benchmark::RegisterBenchmark(("lapacke/" + type).c_str(), Lapacke<T>));
  with_shapes(benchmark::RegisterBenchmark(("engine/column_major/" + type).c_str(), Engine<T>,
                                           Layout::kColumnMajor, 1));
  with_shapes(benchmark::RegisterBenchmark(("engine/row_major/" + type).c_str(), Engine<T>,
                                           Layout::kRowMajor, 1));
  with_shapes(benchmark::RegisterBenchmark(("engine/two_threads/" + type).c_str(), Engine<T>,
                                           Layout::kRowMajor, 2));
}

}  // namespace
}  // namespace factord

int main(int argc, char** argv) {
  factord::InitializeLapack();
  factord::Register<float>("f32");
  factord::Register<double>("f64");
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
