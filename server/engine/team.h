// Team: the threads that work on one matrix (one or all of a pool's) with a workspace each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "absl/functional/function_ref.h"
#include "server/engine/thread_pool.h"
#include "server/engine/workspace.h"

namespace factord {

// A view; the pool and the workspaces outlive it. What it runs must not depend on how many threads
// it has.
class Team {
 public:
  using Body = absl::FunctionRef<void(std::int64_t i, Workspace& scratch)>;

  explicit Team(Workspace& workspace) : workspaces_(&workspace, 1) {}
  // One workspace for each of the pool's threads.
  Team(ThreadPool& pool, std::span<Workspace> workspaces) : pool_(&pool), workspaces_(workspaces) {}

  int threads() const { return static_cast<int>(workspaces_.size()); }

  // The caller's. A body of For gets it too (or another thread's): what it takes, it gives back
  // before it returns.
  Workspace& workspace() const { return workspaces_[0]; }

  void For(std::int64_t count, Body body) const {
    const auto scoped = [&](std::int64_t i, int worker) {
      Workspace& scratch = workspaces_[static_cast<std::size_t>(worker)];
      const Workspace::Scope scope(scratch);
      body(i, scratch);
    };
    if (pool_ != nullptr) {
      pool_->ParallelFor(count, scoped);
    } else {
      for (std::int64_t i = 0; i < count; ++i) scoped(i, 0);
    }
  }

  // body(first, count) for the tiles of `width` columns that cover [begin, end); the last may be
  // narrower.
  void ForTiles(
      std::int64_t begin, std::int64_t end, std::int64_t width,
      absl::FunctionRef<void(std::int64_t first, std::int64_t count, Workspace&)> body) const {
    For((end - begin + width - 1) / width, [&](std::int64_t i, Workspace& scratch) {
      const std::int64_t first = begin + i * width;
      body(first, std::min(width, end - first), scratch);
    });
  }

 private:
  ThreadPool* pool_ = nullptr;
  std::span<Workspace> workspaces_;
};

}  // namespace factord
