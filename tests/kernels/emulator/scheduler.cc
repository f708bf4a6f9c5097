#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <thread>

#include "builtins.h"
#include "grid.h"
#include "sanitizers.h"

constinit thread_local uint3 threadIdx{}, blockIdx{};
constinit thread_local dim3 blockDim, gridDim;

namespace emulator {

constinit thread_local Lane* current_lane = nullptr;

namespace {

// Passes over all warps in which nothing happens but pauses, before that counts as a deadlock; and
// the time for it where OS threads make the passes.
constexpr int kIdlePasses = 100000;
constexpr std::chrono::seconds kIdleTime{20};
constexpr int kPassesPerClock = 1024;
// With a seed a warp is interrupted at one wait in so many.
constexpr std::uint64_t kInterruptions = 16;

std::uint64_t NextRandom(std::uint64_t x) {  // xorshift64; never 0
  x ^= x << 13;
  x ^= x >> 7;
  return x ^ (x << 17);
}
std::uint64_t NextRandom(Relaxed<std::uint64_t>& state) {
  return state = NextRandom(static_cast<std::uint64_t>(state));
}

template <class T>
void Permute(std::vector<T>& values, std::uint64_t& random) {
  for (std::size_t i = values.size(); i > 1; --i) {
    std::swap(values[i - 1], values[(random = NextRandom(random)) % i]);
  }
}

// ThreadSanitizer is not to see these reads: they are made for lanes that do not run.
EMULATOR_NO_TSAN std::uint64_t Peek(const std::uint64_t* word) {
  return __atomic_load_n(word, __ATOMIC_RELAXED);
}

bool IsReady(const Lane& lane) {
  switch (lane.state) {
    case Lane::State::kReady:
      return true;
    case Lane::State::kWaiting:
      return Peek(lane.word) != lane.seen;
    default:
      return false;
  }
}

// The next ready one after lane `number`, at last that one itself.
Lane* NextReady(Warp& warp, int number) {
  const int size = warp.size(), step = warp.step;
  for (int i = 0; i < size; ++i) {
    number += step;
    if (number >= size) number -= size;
    if (number < 0) number += size;
    if (IsReady(warp.lanes[number])) return &warp.lanes[number];
  }
  return nullptr;
}

// ThreadSanitizer need not know that the lanes of an OS thread have these variables in common.
EMULATOR_NO_TSAN void SetCurrent(Lane* lane) {
  current_lane = lane;
  if (lane == nullptr) return;
  const Launch& launch = *lane->block->cluster->launch;
  threadIdx = lane->index;
  blockIdx = lane->block->index;
  blockDim = launch.block;
  gridDim = launch.grid;
}

void Enter(Fiber& from, Lane* lane) {
  SetCurrent(lane);
  SwitchFiber(from, lane->fiber);
}
void Leave(Lane& lane) {
  SetCurrent(nullptr);
  SwitchFiber(lane.fiber, *lane.warp->scheduler);
}

// Returns once it is this lane's turn.
void Yield(Lane& lane) {
  Warp& warp = *lane.warp;
  Lane* const next = NextReady(warp, lane.number);
  const bool interrupted = warp.random != 0 && NextRandom(warp.random) % kInterruptions == 0;
  if (next == nullptr || interrupted) {
    Leave(lane);
  } else if (next != &lane) {
    Enter(lane.fiber, next);
  }
}

// Returns which lane is next.
Lane* RunLane(Lane& lane) {
  Warp& warp = *lane.warp;
  (*lane.block->cluster->launch->thread)();
  if (const int arrived = warp.arrived.load(std::memory_order_relaxed)) {
    Fail("the thread ends while %d lanes of its warp wait in %s", arrived,
         static_cast<const char*>(warp.operation));
  }
  lane.state = Lane::State::kFinished;
  lane.place = "its end";
  warp.finished = warp.finished + 1;
  warp.Progress();
  lane.block->finished.fetch_add(1, std::memory_order_relaxed);
  return NextReady(warp, lane.number);
}

Fiber* SchedulerOf(const Lane& lane) { return lane.warp->scheduler; }

EMULATOR_NO_TSAN void LaneMain() {
  Lane& lane = *current_lane;
  FiberEntered(lane.fiber);
  Fiber* const scheduler = SchedulerOf(lane);
  Lane* const next = RunLane(lane);
  SetCurrent(next);
  SwitchFiber(lane.fiber, next != nullptr ? next->fiber : *scheduler, true);
}

// ---- building and ending clusters

void BuildWarp(Warp& warp, Block& block, int number, const Launch& launch) {
  warp.number = number;
  warp.block = &block;
  const int first = number * kWarpSize;
  warp.lanes = std::vector<Lane>(std::min(kWarpSize, block.threads - first));
  for (int i = 0; i < warp.size(); ++i) {
    Lane& lane = warp.lanes[i];
    const unsigned thread = first + i;
    lane.number = i;
    lane.index = {thread % launch.block.x, thread / launch.block.x % launch.block.y,
                  thread / launch.block.x / launch.block.y};
    lane.warp = &warp;
    lane.block = &block;
  }
}

// Cluster `number` of the grid, whose blocks are neighbours along x.
void BuildCluster(Cluster& cluster, Launch& launch, unsigned number) {
  cluster.launch = &launch;
  const unsigned across = launch.grid.x / launch.cluster;
  for (unsigned rank = 0; rank < launch.cluster; ++rank) {
    Block& block = cluster.blocks.emplace_back(launch.shared_bytes);
    block.index = {number % across * launch.cluster + rank, number / across % launch.grid.y,
                   number / across / launch.grid.y};
    block.rank = static_cast<int>(rank);
    block.cluster = &cluster;
    block.threads = static_cast<int>(launch.block.x * launch.block.y * launch.block.z);
    cluster.threads += block.threads;
    for (int i = 0; i * kWarpSize < block.threads; ++i) {
      BuildWarp(block.warps.emplace_back(), block, i, launch);
    }
  }
}

void StartLanes(Warp& warp) {
  warp.stacks = TakeStacks(!warp.block->cluster->launch->lanes_are_threads);
  for (Lane& lane : warp.lanes) {
    StartFiber(lane.fiber, *warp.stacks, lane.number, LaneMain);
    warp.Progress();
  }
}

void EndBlock(Block& block) {
  for (Warp& warp : block.warps) {
    for (Lane& lane : warp.lanes) FinishFiber(lane.fiber);
    if (!ReturnStacks(warp.stacks)) {
      Fail("block (%u, %u, %u) warp %d: a stack overflowed", block.index.x, block.index.y,
           block.index.z, warp.number);
    }
  }
  if (const auto damage = block.shared.Damage()) {
    Fail("block (%u, %u, %u) wrote outside of its shared memory of %zu bytes, at byte %td",
         block.index.x, block.index.y, block.index.z, block.shared.size(), *damage);
  }
}

// ---- running clusters

class Group {  // clusters that are alive together
 public:
  // Builds the clusters of these numbers; with the threaded scheduler they begin to run.
  Group(Launch& launch, std::span<const unsigned> numbers, std::uint64_t random)
      : clusters_(numbers.size()), random_(random) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      BuildCluster(clusters_[i], launch, numbers[i]);
    }
    for (Cluster& cluster : clusters_) {
      for (Block& block : cluster.blocks) {
        for (Warp& warp : block.warps) {
          warps_.push_back(&warp);
          if (random_ != 0) warp.random = random_ = NextRandom(random_);
        }
      }
    }
    if (launch.options.scheduler == Scheduler::kThreaded) {
      for (Warp* warp : warps_) threads_.emplace_back([this, warp] { RunOne(*warp); });
    } else {
      for (Warp* warp : warps_) StartLanes(*warp);
    }
  }

  // Runs the clusters to their end.
  void Finish() {
    if (threads_.empty()) {
      RunAll();
    } else {
      for (std::thread& thread : threads_) thread.join();
    }
    for (Cluster& cluster : clusters_) {
      for (Block& block : cluster.blocks) EndBlock(block);
    }
  }

 private:
  // What was seen of the group's progress, to notice that there is none.
  struct Watch {
    std::uint64_t progress = 0;
    int idle_passes = 0;
    std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
  };

  // The sequential scheduler.
  void RunAll() {
    Fiber self;
    AdoptThread(self);
    for (Warp* warp : warps_) warp->scheduler = &self;
    std::vector<Warp*> warps = warps_;
    Watch watch;
    while (true) {
      std::erase_if(warps, [](const Warp* warp) { return warp->finished == warp->size(); });
      if (warps.empty()) break;
      if (random_ != 0) Permute(warps, random_);
      bool any = false;
      for (Warp* warp : warps) any |= Visit(*warp);
      const bool stuck = TotalProgress() == watch.progress;
      any |= DeliverCopies(stuck);
      watch = {TotalProgress(), stuck ? watch.idle_passes + 1 : 0, watch.since};
      if (!any || watch.idle_passes > kIdlePasses) ReportDeadlock();
    }
    DeliverCopies(true);
  }

  // The threaded scheduler: what an OS thread does.
  void RunOne(Warp& warp) const {
    Fiber self;
    AdoptThread(self);
    warp.scheduler = &self;
    StartLanes(warp);
    Watch watch;
    while (warp.finished != warp.size()) {
      Visit(warp);
      std::this_thread::yield();
      if (++watch.idle_passes % kPassesPerClock != 0) continue;
      const auto now = std::chrono::steady_clock::now();
      const std::uint64_t progress = TotalProgress();
      if (progress != watch.progress) watch = {progress, 0, now};
      if (now - watch.since > kIdleTime) ReportDeadlock();
    }
  }

  std::uint64_t TotalProgress() const {
    return std::accumulate(
        warps_.begin(), warps_.end(), std::uint64_t{0},
        [](std::uint64_t sum, const Warp* warp) { return sum + warp->progress; });
  }

  // Runs the warp's lanes until all of them wait, or pause for the second time. False if all wait.
  static bool Visit(Warp& warp) {
    for (Lane& lane : warp.lanes) {
      if (lane.state == Lane::State::kPaused) lane.state = Lane::State::kReady;
    }
    int before = warp.size() - 1;  // the lane before the first one
    if (warp.random != 0) {
      before = static_cast<int>(NextRandom(warp.random) % warp.size());
      warp.step = NextRandom(warp.random) % 2 == 0 ? 1 : -1;
    }
    Lane* const first = NextReady(warp, before);
    if (first != nullptr) Enter(*warp.scheduler, first);
    return first != nullptr;
  }

  // All copies to peers that are under way, or with a seed some of them.
  bool DeliverCopies(bool all) {
    const auto deliver = [this, all](const PeerCopy& copy) {
      if (!all && (random_ == 0 || (random_ = NextRandom(random_)) % 2 == 0)) return false;
      Deliver(copy);
      return true;
    };
    bool any = false;
    for (Cluster& cluster : clusters_) any |= std::erase_if(cluster.peer_copies, deliver) > 0;
    return any;
  }

  [[noreturn]] void ReportDeadlock() const {
    constexpr int kMost = 16;
    std::string report;
    int listed = 0, unfinished = 0;
    for (const Warp* warp : warps_) {
      if (warp->finished == warp->size()) continue;
      ++unfinished;
      if (++listed > kMost) continue;
      std::map<std::string, int> places;
      for (const Lane& lane : warp->lanes) ++places[static_cast<const char*>(lane.place)];
      const uint3 index = warp->block->index;
      report += "\n  block (" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " +
                std::to_string(index.z) + ") warp " + std::to_string(warp->number) + ":";
      for (const auto& [place, lanes] : places)
        report += " " + std::to_string(lanes) + " lanes at " + place + ";";
    }
    Fail("deadlock: %d of %zu warps have not finished and none can go on%s", unfinished,
         warps_.size(), report.c_str());
  }

  std::deque<Cluster> clusters_;
  std::vector<Warp*> warps_;
  std::vector<std::thread> threads_;  // one per warp; none: sequential
  std::uint64_t random_;              // 0: everything in order
};

// Groups are built by a fiber. For ThreadSanitizer: what builds a group must not know that earlier
// ones have ended, or their lanes would seem to be ordered. So the orders for the fiber pass
// unseen, and it knows no more than the launch's start.
class GroupBuilder {
 public:
  GroupBuilder() {
    AdoptThread(caller_);
    StartFiber(builder_, *stacks_, 0, Work);
  }
  EMULATOR_NO_TSAN ~GroupBuilder() {
    launch_ = nullptr;
    Switch();
    FinishFiber(builder_);
    ReturnStacks(stacks_);
  }
  EMULATOR_NO_TSAN std::unique_ptr<Group> Build(Launch& launch, std::span<const unsigned> numbers,
                                                std::uint64_t random) {
    launch_ = &launch;
    numbers_ = numbers.data();
    count_ = numbers.size();
    random_ = random;
    Switch();
    TsanAcquire(&group_);
    return std::unique_ptr<Group>(group_);
  }

 private:
  EMULATOR_NO_TSAN void Switch() {
    current_builder = this;
    SwitchFiber(caller_, builder_);
  }
  EMULATOR_NO_TSAN static void Work() {
    GroupBuilder& self = *current_builder;
    FiberEntered(self.builder_);
    while (self.launch_ != nullptr) {
      self.group_ = NewGroup(self.launch_, self.numbers_, self.count_, self.random_);
      TsanRelease(&self.group_);
      SwitchFiber(self.builder_, self.caller_);
    }
    SwitchFiber(self.builder_, self.caller_, true);
  }
  static Group* NewGroup(Launch* launch, const unsigned* numbers, std::size_t count,
                         std::uint64_t random) {
    return new Group(*launch, {numbers, count}, random);
  }

  static constinit thread_local GroupBuilder* current_builder;

  Fiber caller_, builder_;
  StackSet* const stacks_ = TakeStacks(true);
  Launch* launch_ = nullptr;  // null: the work is over
  const unsigned* numbers_ = nullptr;
  std::size_t count_ = 0;
  std::uint64_t random_ = 0;
  Group* group_ = nullptr;
};
constinit thread_local GroupBuilder* GroupBuilder::current_builder = nullptr;

}  // namespace

void Wait(const std::uint64_t* word, std::uint64_t seen, const char* place) {
  Lane& lane = CurrentLane();
  lane.word = word;
  lane.seen = seen;
  lane.place = place;
  lane.state = Lane::State::kWaiting;
  while (!IsReady(lane)) Yield(lane);
  lane.state = Lane::State::kReady;
  lane.warp->Progress();
}

void Pause(const char* place) {
  Lane& lane = CurrentLane();
  lane.place = place;
  lane.state = Lane::State::kPaused;
  while (!IsReady(lane)) Yield(lane);
}

void Run(Launch& launch) {
  const unsigned count = launch.grid.x / launch.cluster * launch.grid.y * launch.grid.z;
  const std::uint64_t seed = launch.options.seed;
  std::uint64_t random = seed == 0 ? 0 : NextRandom(seed * 0x9E3779B97F4A7C15 | 1);
  std::vector<unsigned> order(count);
  std::iota(order.begin(), order.end(), 0u);
  if (random != 0) Permute(order, random);
  const unsigned together = launch.cooperative ? count : 1;
  // ThreadSanitizer knows no more than some 8000 threads.
  constexpr std::uint64_t kMostLanes = 4096;
  const std::uint64_t lanes =
      std::uint64_t{together} * launch.cluster * launch.block.x * launch.block.y * launch.block.z;
  launch.lanes_are_threads = launch.options.races_within_warps && lanes <= kMostLanes;
  GroupBuilder builder;
  for (unsigned first = 0; first < count; first += together) {
    if (random != 0) random = NextRandom(random);
    const std::unique_ptr<Group> group = builder.Build(launch, {&order[first], together}, random);
    group->Finish();
  }
}

void Fail(const char* format, ...) {
  std::fputs("emulator: ", stderr);
  if (const Lane* lane = current_lane) {
    const uint3 block = lane->block->index;
    std::fprintf(stderr, "block (%u, %u, %u) warp %d lane %d: ", block.x, block.y, block.z,
                 lane->warp->number, lane->number);
  }
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fputs("\n", stderr);
  std::abort();
}

}  // namespace emulator
