// R alone of one tall matrix, by all threads: across blocks, across rows and by LAPACKE's geqrf,
// beside what it takes to read the same memory once. In turn, the best of some rounds each.
//   cpu_tall_bench [MiB, 256] [threads, all]
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "bench/cpu/lapack.h"
#include "bench/cpu/matrices.h"
#include "bench/cpu/workers.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/qr.h"
#include "kernels/cpu/tiles.h"

namespace factord::bench::cpu {
namespace {

namespace kernel = factord::kernels::cpu;

constexpr int kRounds = 5;

template <class Body>
double SecondsOf(const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Numbers of any value: few are drawn, the rest repeat them.
template <class T>
Array<T> Numbers(std::int64_t size) {
  const Matrices<T> drawn = RandomMatrices<T>(1, 99'991, 1);
  Array<T> numbers(size);
  for (std::int64_t i = 0; i < size; ++i) numbers.data()[i] = drawn.values.data()[i % 99'991];
  return numbers;
}

template <class T>
class Bench {
 public:
  Bench(std::int64_t bytes, Workers& workers)
      : size_(bytes / static_cast<std::int64_t>(sizeof(T))),
        a_(Numbers<T>(size_)),
        copy_(size_),
        lapack_(LinkedLapack()),
        workers_(workers) {}

  void Run(int n, bool column_major) {
    const auto m = static_cast<int>(size_ / n);
    const kernels::Problem problem{.r = true, .column_major = column_major};
    Array<T> r(std::int64_t{n} * n);
    std::uint32_t status = 0;
    kernels::Run<T> run{.m = m, .n = n, .a = a_.data(), .r = r.data()};
    double read = std::numeric_limits<double>::max(), blocks = read, rows = read, lapack = read;
    Array<std::byte> scratch(
        static_cast<std::int64_t>(std::max(kernel::AcrossBlocksScratchBytes(problem, run),
                                           kernel::AcrossRowsScratchBytes(problem, run))));
    const auto together = [&](const auto& way) {
      return SecondsOf([&] {
        kernel::Tiles tiles;
        workers_.Run([&](int worker) {
          if (worker != 0) return tiles.Help();
          way(problem, run, 0, &status, scratch.data(), &tiles);
          tiles.Close();
        });
      });
    };
    for (int round = 0; round < kRounds; ++round) {
      read = std::min(read, SecondsOf([&] { Read(); }));
      blocks = std::min(blocks, together(kernel::RunAcrossBlocks<T>));
      if (round > 1) continue;  // these take long
      rows = std::min(rows, together(kernel::RunAcrossRows<T>));
      if (column_major) lapack = std::min(lapack, Lapacke(m, n));
    }
    const double bytes = static_cast<double>(size_) * sizeof(T);
    std::printf("%s  n = %2d  %s-major  read %6.2f GB/s  across blocks %6.2f GB/s = %3.0f %%",
                sizeof(T) == 4 ? "f32" : "f64", n, column_major ? "column" : "row   ",
                1e-9 * bytes / read, 1e-9 * bytes / blocks, 100 * read / blocks);
    std::printf("  %5.1f x across rows", rows / blocks);
    if (column_major) std::printf("  %5.1f x LAPACKE", lapack / blocks);
    std::puts(status == 0 ? "" : "  FAILED");
    std::fflush(stdout);
  }

 private:
  void Read() {
    std::vector<std::uint64_t> sums(static_cast<std::size_t>(workers_.threads()));
    const auto* const words = reinterpret_cast<const std::uint64_t*>(a_.data());
    const std::int64_t count = size_ * static_cast<std::int64_t>(sizeof(T)) / 8;
    workers_.Run([&](int worker) {
      const std::int64_t first = count * worker / workers_.threads();
      const std::int64_t last = count * (worker + 1) / workers_.threads();
      sums[static_cast<std::size_t>(worker)] =
          std::accumulate(words + first, words + last, std::uint64_t{0});
    });
    sum_ = std::accumulate(sums.begin(), sums.end(), std::uint64_t{0});
  }

  double Lapacke(int m, int n) {
    std::copy_n(a_.data(), size_, copy_.data());
    lapack_.set_threads(workers_.threads());
    Array<T> tau(n), work(std::int64_t{64} * n);
    return SecondsOf([&] {
      lapack_.Calls<T>().geqrf(LAPACK_COL_MAJOR, m, n, copy_.data(), m, tau.data(), work.data(),
                               64 * n);
    });
  }

  const std::int64_t size_;
  const Array<T> a_, copy_;
  const Lapack lapack_;
  Workers& workers_;
  volatile std::uint64_t sum_ = 0;  // so that it is computed
};

template <class T>
void RunAll(std::int64_t bytes, Workers& workers) {
  Bench<T> bench(bytes, workers);
  for (int n : {1, 2, 4, 8, 16, 32, 64}) {
    for (bool column_major : {false, true}) bench.Run(n, column_major);
  }
}

int Main(int argc, char** argv) {
  const std::int64_t bytes = (argc > 1 ? std::atoll(argv[1]) : 256) << 20;
  const int threads =
      argc > 2 ? std::atoi(argv[2]) : static_cast<int>(std::thread::hardware_concurrency());
  Workers workers(threads);
  std::printf("%s, %d threads, %lld MiB\n", kernel::InstructionSet(), threads,
              static_cast<long long>(bytes >> 20));
  RunAll<double>(bytes, workers);
  RunAll<float>(bytes, workers);
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace factord::bench::cpu

int main(int argc, char** argv) { return factord::bench::cpu::Main(argc, argv); }
