// What lanes do together: in a warp, a block, a cluster, the grid.
#include <algorithm>
#include <cstring>
#include <span>

#include "emulator_ptx.h"
#include "grid.h"
#include "sanitizers.h"

namespace emulator {
namespace {

constexpr unsigned kFullMask = 0xffffffffu;

// ---- warps

void CheckMask(const Warp& warp, const char* operation, unsigned mask) {
  const unsigned existing = kFullMask >> (kWarpSize - warp.size());
  if (mask != kFullMask && mask != existing) {
    Fail("%s with mask %#x: the emulator knows only the full mask", operation, mask);
  }
}

// In the memory model shuffles order nothing, __syncwarp does.
template <bool kOrdering>
const Warp::Exchange& MeetAs(const char* operation, std::span<const std::uint64_t> values) {
  constexpr auto kAcquire = kOrdering ? std::memory_order_acquire : std::memory_order_relaxed;
  constexpr auto kRelease = kOrdering ? std::memory_order_release : std::memory_order_relaxed;
  Lane& lane = CurrentLane();
  Warp& warp = *lane.warp;
  const int arrived = warp.arrived.load(kAcquire);
  if (warp.finished != 0)
    Fail("%s: %d lanes of the warp have ended", operation, static_cast<int>(warp.finished));
  if (arrived == 0) {
    warp.operation = operation;
  } else if (warp.operation != operation) {
    Fail("%s while %d lanes of the warp are in %s", operation, arrived,
         static_cast<const char*>(warp.operation));
  }
  const std::uint64_t generation = LoadWord(&warp.generation, std::memory_order_relaxed);
  Warp::Exchange& exchange = warp.exchanges[generation % 2];
  for (std::size_t i = 0; i < values.size(); ++i) exchange.words[lane.number][i] = values[i];
  if (arrived + 1 < warp.size()) {
    warp.arrived.store(arrived + 1, kRelease);
    Wait(&warp.generation, generation, operation);
    LoadWord(&warp.generation, kAcquire);
  } else {
    warp.arrived.store(0, std::memory_order_relaxed);
    std::atomic_ref(warp.generation).store(generation + 1, kRelease);
  }
  return exchange;
}

const char* NameOf(Shuffle kind) {
  switch (kind) {
    case Shuffle::kIndex:
      return "__shfl_sync";
    case Shuffle::kUp:
      return "__shfl_up_sync";
    case Shuffle::kDown:
      return "__shfl_down_sync";
    case Shuffle::kXor:
      break;
  }
  return "__shfl_xor_sync";
}

// The lane that `own` reads from; segments of `width` lanes shuffle among themselves.
int SourceLane(Shuffle kind, int own, int lane, int width) {
  const int first = own & ~(width - 1), end = first + width;
  switch (kind) {
    case Shuffle::kIndex:
      return first + (lane & (width - 1));
    case Shuffle::kUp:
      return own - lane < first ? own : own - lane;
    case Shuffle::kDown:
      return own + lane >= end ? own : own + lane;
    case Shuffle::kXor:
      break;
  }
  const int source = own ^ lane;
  return source >= end ? own : source;
}

// ---- mbarriers: all their state in their 8 bytes

struct BarrierState {
  static constexpr int kMost = (1 << 15) - 1;  // arrivals of a phase
  static constexpr std::int64_t kMostBytes = (1 << 20) - 1;
  static constexpr std::uint64_t kValid = 0x2B;  // neither zeros nor what fresh memory holds

  std::uint64_t phase = 0;     // of the current one, 0 or 1
  std::uint64_t expected = 0;  // arrivals of every phase
  std::uint64_t pending = 0;   // arrivals that the current phase still waits for
  std::int64_t bytes = 0;      // and bytes; negative while they come before they are announced

  static BarrierState Unpack(std::uint64_t word, const char* operation) {
    if (word >> 53 != kValid) Fail("%s of a barrier that is not initialized", operation);
    return {word >> 52 & 1, word >> 37 & kMost, word >> 22 & kMost,
            static_cast<std::int64_t>(word & ((1 << 22) - 1)) - (1 << 21)};
  }
  std::uint64_t Pack() const {
    return kValid << 53 | phase << 52 | expected << 37 | pending << 22 |
           static_cast<std::uint64_t>(bytes + (1 << 21));
  }
  void CompletePhase() {
    if (pending != 0 || bytes != 0) return;
    phase ^= 1;
    pending = expected;
  }
};

void CheckBarrier(const Block& block, const std::uint64_t* barrier, const char* operation) {
  if (!block.shared.Contains(barrier, sizeof *barrier))
    Fail("%s: not in the block's shared memory", operation);
  if (reinterpret_cast<std::uintptr_t>(barrier) % sizeof *barrier != 0)
    Fail("%s: not 8-byte aligned", operation);
}

template <class Change>
void UpdateBarrier(std::uint64_t* barrier, const char* operation, Change change) {
  const std::atomic_ref ref(*barrier);
  std::uint64_t old = ref.load(std::memory_order_relaxed);
  while (true) {
    BarrierState state = BarrierState::Unpack(old, operation);
    change(state);
    if (state.bytes < -BarrierState::kMostBytes || state.bytes > BarrierState::kMostBytes) {
      Fail("%s: more than %lld bytes under way", operation,
           static_cast<long long>(BarrierState::kMostBytes));
    }
    state.CompletePhase();
    if (ref.compare_exchange_weak(old, state.Pack(), std::memory_order_release,
                                  std::memory_order_relaxed))
      return;
  }
}

void Arrive(std::uint64_t* barrier, std::uint32_t expected_bytes, const char* operation) {
  UpdateBarrier(barrier, operation, [&](BarrierState& state) {
    if (state.pending == 0)
      Fail("%s: more arrivals than the barrier's count of %d", operation, int(state.expected));
    --state.pending;
    state.bytes += expected_bytes;
  });
  CurrentLane().warp->Progress();
}

// ---- clusters

// The place in block `rank` of the cluster that `own` is in this block.
template <class T>
T* PeerPlace(T* own, int rank, Block*& peer, const char* operation) {
  Block& block = *CurrentLane().block;
  Cluster& cluster = *block.cluster;
  if (rank < 0 || rank >= static_cast<int>(cluster.blocks.size())) {
    Fail("%s: block %d of a cluster of %zu", operation, rank, cluster.blocks.size());
  }
  peer = &cluster.blocks[rank];
  if (peer->finished.load(std::memory_order_relaxed) == peer->threads) {
    Fail("%s: block %d of the cluster has ended", operation, rank);
  }
  return reinterpret_cast<T*>(peer->shared.data() +
                              (reinterpret_cast<std::byte*>(own) - block.shared.data()));
}

constexpr std::uint32_t kRankShift = 24;  // above any offset into shared memory

void Perform(const AsyncCopy& copy) {
  if (copy.from == nullptr) {
    std::memset(copy.to, 0, copy.bytes);
  } else {
    std::memcpy(copy.to, copy.from, copy.bytes);
  }
}

bool IsAligned(const void* p, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(p) % bytes == 0;
}

}  // namespace

// ---- warps

const Warp::Exchange& Meet(const char* operation, std::span<const std::uint64_t> values) {
  return MeetAs<false>(operation, values);
}

std::uint64_t ShuffleWord(Shuffle kind, unsigned mask, std::uint64_t value, int lane, int width) {
  const Lane& self = CurrentLane();
  const char* const name = NameOf(kind);
  CheckMask(*self.warp, name, mask);
  if (width < 1 || width > kWarpSize || (width & (width - 1)) != 0)
    Fail("%s: width %d", name, width);
  const Warp::Exchange& exchange = Meet(name, {&value, 1});
  const int source = SourceLane(kind, self.number, lane, width);
  if (source < 0 || source >= self.warp->size()) return ~std::uint64_t{0};  // undefined
  return exchange.words[source][0];
}

WarpValues GatherWarp(const char* operation, unsigned mask, std::uint32_t value) {
  const Warp& warp = *CurrentLane().warp;
  CheckMask(warp, operation, mask);
  const std::uint64_t word = value;
  const Warp::Exchange& exchange = Meet(operation, {&word, 1});
  WarpValues result;
  result.count = warp.size();
  for (int i = 0; i < result.count; ++i)
    result.values[i] = static_cast<std::uint32_t>(exchange.words[i][0]);
  return result;
}

void SyncWarp(unsigned mask) {
  CheckMask(*CurrentLane().warp, "__syncwarp", mask);
  MeetAs<true>("__syncwarp", {});
}

// ---- blocks

int SyncBlockAndCount(bool predicate) {
  Block& block = *CurrentLane().block;
  const std::uint64_t generation = LoadWord(&block.generation, std::memory_order_relaxed);
  std::atomic<int>& votes = block.votes[generation % 2];
  if (predicate) votes.fetch_add(1, std::memory_order_relaxed);
  if (block.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < block.threads) {
    Wait(&block.generation, generation, "__syncthreads");
    LoadWord(&block.generation, std::memory_order_acquire);
  } else {
    block.arrived.store(0, std::memory_order_relaxed);
    block.votes[(generation + 1) % 2].store(0, std::memory_order_relaxed);  // all have read these
    std::atomic_ref(block.generation).store(generation + 1, std::memory_order_release);
  }
  return votes.load(std::memory_order_relaxed);
}

void SyncBlock() { SyncBlockAndCount(false); }

void SyncWarps(int id, int threads) {
  Block& block = *CurrentLane().block;
  if (id < 1 || id >= 16) Fail("SyncWarps: no barrier %d", id);
  Block::Meeting& meeting = block.meetings[id];
  const std::uint64_t generation = LoadWord(&meeting.generation, std::memory_order_relaxed);
  const int arrived = meeting.arrived.fetch_add(1, std::memory_order_acq_rel) + 1;
  if (arrived > threads) Fail("SyncWarps: more than %d threads at barrier %d", threads, id);
  if (arrived < threads) {
    Wait(&meeting.generation, generation, "SyncWarps");
    LoadWord(&meeting.generation, std::memory_order_acquire);
  } else {
    meeting.arrived.store(0, std::memory_order_relaxed);
    std::atomic_ref(meeting.generation).store(generation + 1, std::memory_order_release);
  }
}

// ---- fences, flags and atomics

// ThreadSanitizer knows no fences. For it they are updates of one variable of the block or the
// launch: fences are then ordered among each other, whether or not a flag was passed, and so it may
// miss a race; it does not report false ones.
static void Fence([[maybe_unused]] std::atomic<std::uint64_t>& variable) {
#ifdef EMULATOR_TSAN
  variable.fetch_add(1, std::memory_order_acq_rel);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}
void FenceBlock() { Fence(CurrentLane().block->fence); }
void FenceDevice() { Fence(CurrentLane().block->cluster->launch->fence); }

void NoteAtomic(bool changed) {
  if (changed) {
    CurrentLane().warp->Progress();
  } else {
    Pause("an atomic operation");
  }
}

void Sleep() { Pause("Pause"); }

std::uint32_t LoadAcquire(const std::uint32_t* flag) {
  Pause("LoadAcquire");
  return std::atomic_ref(*const_cast<std::uint32_t*>(flag)).load(std::memory_order_acquire);
}

void StoreRelease(std::uint32_t* flag, std::uint32_t value) {
  std::atomic_ref(*flag).store(value, std::memory_order_release);
  CurrentLane().warp->Progress();
}

// ---- shared memory

void* BlockMemory(std::size_t at_least) {
  const GuardedMemory& shared = CurrentLane().block->shared;
  if (at_least > shared.size()) {
    Fail("DynamicShared of %zu bytes in a launch with %zu", at_least, shared.size());
  }
  return shared.data();
}

std::uint32_t SharedOffset(const void* p) {
  const Block& block = *CurrentLane().block;
  return static_cast<std::uint32_t>(static_cast<const std::byte*>(p) - block.shared.data()) |
         static_cast<std::uint32_t>(block.rank) << kRankShift;
}
std::uint32_t PeerOffset(const void* p, int rank) {
  return (SharedOffset(p) & ((1u << kRankShift) - 1)) | static_cast<std::uint32_t>(rank)
                                                            << kRankShift;
}

// ---- mbarriers

// A plain store: ThreadSanitizer reports who uses the barrier without having waited for it.
void BarrierInit(std::uint64_t* barrier, int count) {
  CheckBarrier(*CurrentLane().block, barrier, "BarrierInit");
  if (count < 1 || count > BarrierState::kMost) Fail("BarrierInit: count %d", count);
  const auto arrivals = static_cast<std::uint64_t>(count);
  *barrier = BarrierState{0, arrivals, arrivals, 0}.Pack();
}

void BarrierArrive(std::uint64_t* barrier, std::uint32_t expected_bytes) {
  CheckBarrier(*CurrentLane().block, barrier, "BarrierArrive");
  Arrive(barrier, expected_bytes, "BarrierArrive");
}

void BarrierArrivePeer(std::uint64_t* barrier, int rank) {
  CheckBarrier(*CurrentLane().block, barrier, "BarrierArrivePeer");
  Block* peer;
  Arrive(PeerPlace(barrier, rank, peer, "BarrierArrivePeer"), 0, "BarrierArrivePeer");
}

void BarrierWait(std::uint64_t* barrier, int parity) {
  CheckBarrier(*CurrentLane().block, barrier, "BarrierWait");
  if (parity != 0 && parity != 1) Fail("BarrierWait: parity %d", parity);
  while (true) {
    const std::uint64_t word = LoadWord(barrier, std::memory_order_acquire);
    if (BarrierState::Unpack(word, "BarrierWait").phase != static_cast<std::uint64_t>(parity))
      return;
    Wait(barrier, word, "BarrierWait");
  }
}

// ---- clusters

int ClusterRank() { return CurrentLane().block->rank; }

void ClusterArrive() {
  Lane& lane = CurrentLane();
  Cluster& cluster = *lane.block->cluster;
  if (lane.cluster_arrived) Fail("ClusterArrive twice without ClusterWait");
  lane.cluster_arrived = true;
  lane.cluster_generation = LoadWord(&cluster.generation, std::memory_order_relaxed);
  if (cluster.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == cluster.threads) {
    cluster.arrived.store(0, std::memory_order_relaxed);
    std::atomic_ref(cluster.generation)
        .store(lane.cluster_generation + 1, std::memory_order_release);
  }
}

void ClusterWait() {
  Lane& lane = CurrentLane();
  Cluster& cluster = *lane.block->cluster;
  if (!lane.cluster_arrived) Fail("ClusterWait without ClusterArrive");
  lane.cluster_arrived = false;
  Wait(&cluster.generation, lane.cluster_generation, "ClusterWait");
  LoadWord(&cluster.generation, std::memory_order_acquire);
}

void CopyToPeer(void* to, int rank, const void* from, std::uint32_t bytes, std::uint64_t* barrier) {
  Lane& lane = CurrentLane();
  const GuardedMemory& shared = lane.block->shared;
  if (!IsAligned(to, 16) || !IsAligned(from, 16) || bytes % 16 != 0)
    Fail("CopyToPeer: not 16-byte aligned");
  if (!shared.Contains(to, bytes) || !shared.Contains(from, bytes))
    Fail("CopyToPeer: not in shared memory");
  CheckBarrier(*lane.block, barrier, "CopyToPeer");
  PeerCopy copy{lane.block, nullptr, nullptr, from, bytes, nullptr};
  copy.barrier = PeerPlace(barrier, rank, copy.to_block, "CopyToPeer");
  copy.to = PeerPlace(to, rank, copy.to_block, "CopyToPeer");
  Cluster& cluster = *lane.block->cluster;
  const Options& options = cluster.launch->options;
  if (options.deferred_copies && options.scheduler == Scheduler::kSequential && !kThreadSanitizer) {
    cluster.peer_copies.push_back(copy);
  } else {
    Deliver(copy);
  }
}

void Deliver(const PeerCopy& copy) {
  for (const Block* block : {copy.from_block, copy.to_block}) {
    if (block->finished.load(std::memory_order_relaxed) == block->threads) {
      Fail("CopyToPeer: block (%u, %u, %u) ended before the copy was there", block->index.x,
           block->index.y, block->index.z);
    }
  }
  std::memcpy(copy.to, copy.from, copy.bytes);
  UpdateBarrier(copy.barrier, "CopyToPeer",
                [&](BarrierState& state) { state.bytes -= copy.bytes; });
  copy.to_block->warps.front().Progress();
}

// ---- asynchronous copies

void CopyAsync(std::size_t bytes, void* shared, const void* global, bool valid) {
  Lane& lane = CurrentLane();
  if (!IsAligned(shared, bytes)) Fail("asynchronous copy: shared address not aligned");
  if (valid && !IsAligned(global, bytes)) Fail("asynchronous copy: global address not aligned");
  if (!lane.block->shared.Contains(shared, bytes))
    Fail("asynchronous copy: not to the block's shared memory");
  const AsyncCopy copy{shared, valid ? global : nullptr, bytes};
  if (lane.block->cluster->launch->options.deferred_copies) {
    std::memset(shared, 0xFF, bytes);
    lane.open_copies.push_back(copy);
  } else {
    Perform(copy);
  }
}

void CopyBulk(void* shared, const void* global, std::uint32_t bytes, std::uint64_t* barrier) {
  Block& block = *CurrentLane().block;
  if (!IsAligned(shared, 16) || !IsAligned(global, 16) || bytes % 16 != 0)
    Fail("CopyBulk: not 16-byte aligned");
  if (!block.shared.Contains(shared, bytes)) Fail("CopyBulk: not to the block's shared memory");
  CheckBarrier(block, barrier, "CopyBulk");
  std::memcpy(shared, global, bytes);
  UpdateBarrier(barrier, "CopyBulk", [&](BarrierState& state) { state.bytes -= bytes; });
  CurrentLane().warp->Progress();
}

void CopyAsyncCommit() {
  Lane& lane = CurrentLane();
  lane.committed_copies.push_back(std::move(lane.open_copies));
  lane.open_copies.clear();
}

void CopyAsyncWait(int groups) {
  std::deque<std::vector<AsyncCopy>>& committed = CurrentLane().committed_copies;
  while (committed.size() > static_cast<std::size_t>(groups)) {
    std::for_each(committed.front().begin(), committed.front().end(), Perform);
    committed.pop_front();
  }
}

}  // namespace emulator
