// Tiles: one thread's loops, shared with whoever comes to help.
//
// The leader runs its algorithm and offers loops of independent tiles; helpers take tiles while
// there are any. Nobody waits for a helper that has not come: the leader waits only for tiles that
// were taken. Helpers spin between loops, since the loops of one matrix follow each other within
// microseconds, and yield when none comes for long.
//
// Tiles are counted from the end: tile t of n is the same part of a matrix that shrinks from the
// front as tile t - 1 of n - 1. Everybody takes a fixed share of them first, those that its cache
// holds, and only then what others have not begun.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace factord::kernels::cpu {

class Tiles {
 public:
  using Body = void (*)(void* context, std::int64_t tile);

  // Leader: opens a loop of `count` tiles, body(context, tile) for each, once, in any order, by any
  // thread. Returns at once; the context lives until Finish. One loop at a time.
  void Open(std::int64_t count, Body body, void* context);
  // Leader: takes part in the open loop; returns when all its tiles are done.
  void Finish();
  // Leader: no loop will be opened any more; helpers leave.
  void Close();

  // Helper: returns after Close, at once where that was before.
  void Help();

 private:
  // A loop's tiles in at most so many portions.
  static constexpr int kMostPortions = 256;

  // Takes portions of this loop: member's own first, then others'.
  void Work(std::uint64_t loop, int member);
  void Take(std::uint64_t loop, int portion);

  // The open loop, or the last one: its number, from 1, in the upper half, and its portions.
  // Written after what describes it.
  std::atomic<std::uint64_t> loop_{0};
  // Of the loop: written while no portion of it can be taken, read by those who took one.
  Body body_ = nullptr;
  void* context_ = nullptr;
  std::int64_t count_ = 0;
  // The last loop in which each portion, counted from the end, was taken.
  std::array<std::atomic<std::uint32_t>, kMostPortions> taken_{};
  std::atomic<int> done_{0};  // portions of the open loop
  std::atomic<int> members_{1};
  std::atomic<bool> closed_{false};
};

}  // namespace factord::kernels::cpu
