// Tiles: each tile of each loop exactly once, whoever helps and whenever. Bodies write ordinary
// memory that the leader reads after Finish, so that ThreadSanitizer sees what that orders.
#include "kernels/cpu/tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

namespace factord::kernels::cpu {
namespace {

// Opens a loop of body(tile); the caller finishes it.
template <class Body>
void Open(Tiles& tiles, std::int64_t count, Body& body) {
  tiles.Open(
      count, [](void* context, std::int64_t tile) { (*static_cast<Body*>(context))(tile); }, &body);
}

class Helpers {
 public:
  explicit Helpers(Tiles& tiles) : tiles_(tiles) {}
  ~Helpers() {
    for (std::thread& thread : threads_) thread.join();
  }
  void Come() {
    threads_.emplace_back([this] { tiles_.Help(); });
  }

 private:
  Tiles& tiles_;
  std::vector<std::thread> threads_;
};

TEST(Tiles, EachIsDoneOnceWhateverTheHelp) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    Tiles tiles;
    Helpers helpers(tiles);
    int to_come = static_cast<int>(random() % 5);
    for (std::uint64_t loops = random() % 60; loops > 0; --loops) {
      if (to_come > 0 && random() % 4 == 0) {  // sooner or later, or not until it is over
        helpers.Come();
        --to_come;
      }
      const std::size_t count = random() % (random() % 4 == 0 ? 500 : 8);
      std::vector<int> times(count);
      auto body = [&times](std::int64_t tile) { ++times[static_cast<std::size_t>(tile)]; };
      Open(tiles, static_cast<std::int64_t>(count), body);
      tiles.Finish();
      EXPECT_EQ(std::count(times.begin(), times.end(), 1), static_cast<std::int64_t>(count));
    }
    tiles.Close();
    for (; to_come > 0; --to_come) helpers.Come();
  }
}

// A loop's tiles may read what the loops before wrote, whichever thread that was.
TEST(Tiles, LoopsFollowOneAnother) {
  Tiles tiles;
  Helpers helpers(tiles);
  for (int i = 0; i < 3; ++i) helpers.Come();
  constexpr std::int64_t kCount = 64;
  std::vector<std::int64_t> previous(kCount, 0), next(kCount);
  for (int loop = 0; loop < 200; ++loop) {
    auto body = [&](std::int64_t tile) {
      const std::int64_t neighbour = (tile + 7) % kCount;
      next[static_cast<std::size_t>(tile)] = previous[static_cast<std::size_t>(neighbour)] + 1;
    };
    Open(tiles, kCount, body);
    tiles.Finish();
    std::swap(previous, next);
  }
  tiles.Close();
  EXPECT_EQ(std::count(previous.begin(), previous.end(), 200), kCount);
}

TEST(Tiles, LeaderAloneDoesThemAll) {
  Tiles tiles;
  std::vector<std::thread::id> by(100);
  auto body = [&by](std::int64_t tile) {
    by[static_cast<std::size_t>(tile)] = std::this_thread::get_id();
  };
  Open(tiles, 100, body);
  tiles.Finish();
  EXPECT_EQ(std::count(by.begin(), by.end(), std::this_thread::get_id()), 100);
  tiles.Close();
}

// Neither of two tiles ends before the other has begun: it takes a second thread, which comes when
// the loop is open, and Finish must wait for its tile.
TEST(Tiles, HelperTakesPartInAnOpenLoop) {
  Tiles tiles;
  Helpers helpers(tiles);
  std::atomic<int> begun = 0;
  std::vector<std::thread::id> by(2);
  auto body = [&](std::int64_t tile) {
    ++begun;
    while (begun < 2) std::this_thread::yield();
    by[static_cast<std::size_t>(tile)] = std::this_thread::get_id();
  };
  Open(tiles, 2, body);
  helpers.Come();
  tiles.Finish();
  tiles.Close();
  EXPECT_NE(by[0], std::thread::id());
  EXPECT_NE(by[1], std::thread::id());
  EXPECT_NE(by[0], by[1]);
}

// So it does after loops that it had no part in.
TEST(Tiles, HelperTakesPartInLaterLoops) {
  Tiles tiles;
  Helpers helpers(tiles);
  helpers.Come();
  for (int loop = 0; loop < 20; ++loop) {
    auto nothing = [](std::int64_t) {};
    Open(tiles, loop % 3, nothing);
    tiles.Finish();
    std::atomic<int> begun = 0;
    auto meet = [&begun](std::int64_t) {
      ++begun;
      while (begun < 2) std::this_thread::yield();
    };
    Open(tiles, 2, meet);
    tiles.Finish();
    EXPECT_EQ(begun, 2);
  }
  tiles.Close();
}

TEST(Tiles, HelpAfterCloseReturnsAtOnce) {
  Tiles tiles;
  auto body = [](std::int64_t) {};
  Open(tiles, 3, body);
  tiles.Finish();
  tiles.Close();
  tiles.Help();

  Tiles unused;
  unused.Close();
  unused.Help();
}

}  // namespace
}  // namespace factord::kernels::cpu
