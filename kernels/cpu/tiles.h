// Tiles: one thread's loops, shared with whoever comes to help.
//
// The leader runs its algorithm and offers loops of independent tiles; helpers take tiles while
// there are any. Nobody waits for a helper that has not come: the leader waits only for tiles that
// were taken. Helpers spin between loops, since the loops of one matrix follow each other within
// microseconds, and yield when none comes for long.
#pragma once

#include <atomic>
#include <cstdint>

namespace factord::kernels::cpu {

class Tiles {
 public:
  using Body = void (*)(void* context, std::int64_t tile);

  // Leader: opens a loop of `count` tiles, 0 <= count < 2^31, body(context, tile) for each, once,
  // in any order, by any thread. Returns at once; the context lives until Finish. One loop at a
  // time.
  void Open(std::int64_t count, Body body, void* context);
  // Leader: takes part in the open loop; returns when all its tiles are done.
  void Finish();
  // Leader: no loop will be opened any more; helpers leave.
  void Close();

  // Helper: returns after Close, at once where that was before.
  void Help();

 private:
  // Takes tiles of the loop in `word` while there are any; returns the word as it is then.
  std::uint64_t Work(std::uint64_t word);

  // The open loop's number, 32 bits, and the tiles that are left of it: what a helper takes belongs
  // to the loop that it saw.
  std::atomic<std::uint64_t> word_{0};
  // The open loop. Written while no tile of it can be taken; a helper that reads them late finds
  // the word changed, and takes nothing.
  std::atomic<Body> body_{nullptr};
  std::atomic<void*> context_{nullptr};

  std::int64_t count_ = 0;             // leader's
  std::atomic<std::int64_t> done_{0};  // tiles of the open loop
  std::atomic<bool> closed_{false};
};

}  // namespace factord::kernels::cpu
