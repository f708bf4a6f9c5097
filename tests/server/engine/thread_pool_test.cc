#include "server/engine/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace factord {
namespace {

TEST(ThreadPool, RunsEachIterationOnce) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (std::int64_t count : {0, 1, 2, 3, 100, 1000}) {
      std::vector<std::atomic<int>> calls(static_cast<std::size_t>(count));
      pool.ParallelFor(count, [&](std::int64_t i, int worker) {
        EXPECT_GE(worker, 0);
        EXPECT_LT(worker, threads);
        ++calls[static_cast<std::size_t>(i)];
      });
      for (const auto& c : calls) EXPECT_EQ(c, 1);
    }
  }
}

// All three iterations wait for each other: they can only end if three threads run them.
TEST(ThreadPool, UsesAllItsThreadsAtOnce) {
  ThreadPool pool(3);
  std::vector<int> workers(3);
  std::atomic<int> arrived{0};
  pool.ParallelFor(3, [&](std::int64_t i, int worker) {
    workers[static_cast<std::size_t>(i)] = worker;
    ++arrived;
    while (arrived < 3) std::this_thread::yield();
  });
  std::sort(workers.begin(), workers.end());
  EXPECT_EQ(workers, (std::vector<int>{0, 1, 2}));
}

TEST(ThreadPool, ManyShortLoopsSeeEachOthersWrites) {
  ThreadPool pool(4);
  std::vector<std::int64_t> values(8);  // plain: the pool must order the loops
  for (int loop = 0; loop < 2000; ++loop) {
    pool.ParallelFor(8,
                     [&](std::int64_t i, int) { values[static_cast<std::size_t>(7 - i)] += loop; });
  }
  for (std::int64_t value : values) EXPECT_EQ(value, 1999 * 2000 / 2);
}

}  // namespace
}  // namespace factord
