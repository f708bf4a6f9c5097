// The emulated twin of kernels/simt/ptx.h, which includes it: the same functions with the same
// meaning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda_runtime.h"

namespace emulator {

void* BlockMemory(std::size_t at_least);
std::uint32_t SharedOffset(const void* p);
std::uint32_t PeerOffset(const void* p, int rank);

void BarrierInit(std::uint64_t* barrier, int count);
void BarrierArrive(std::uint64_t* barrier, std::uint32_t expected_bytes);
void BarrierArrivePeer(std::uint64_t* barrier, int rank);
void BarrierWait(std::uint64_t* barrier, int parity);

int ClusterRank();
void ClusterArrive();
void ClusterWait();
void CopyToPeer(void* to, int rank, const void* from, std::uint32_t bytes, std::uint64_t* barrier);

void CopyBulk(void* shared, const void* global, std::uint32_t bytes, std::uint64_t* barrier);
void SyncWarps(int id, int threads);

void CopyAsync(std::size_t bytes, void* shared, const void* global, bool valid);
void CopyAsyncCommit();
void CopyAsyncWait(int groups);

std::uint32_t LoadAcquire(const std::uint32_t* flag);
void StoreRelease(std::uint32_t* flag, std::uint32_t value);

void Mma16x8x8(double (&d)[4], const double (&a)[4], const double (&b)[2]);
void Mma16x8x8(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]);
std::uint32_t RoundToTf32(float x);
std::uint32_t TruncateToTf32(float x);

}  // namespace emulator

namespace factord::kernels {

template <class T>
T& DynamicShared() {
  std::size_t bytes = 0;
  if constexpr (!std::is_unbounded_array_v<T>) bytes = sizeof(T);
  return *static_cast<T*>(emulator::BlockMemory(bytes));
}
inline std::uint32_t SharedAddress(const void* p) { return emulator::SharedOffset(p); }

struct Barrier {
  std::uint64_t state;
};
inline void BarrierInit(Barrier* bar, int count) { emulator::BarrierInit(&bar->state, count); }
inline void BarrierArrive(Barrier* bar) { emulator::BarrierArrive(&bar->state, 0); }
inline void BarrierArriveExpect(Barrier* bar, std::uint32_t bytes) {
  emulator::BarrierArrive(&bar->state, bytes);
}
inline void BarrierWait(Barrier* bar, int parity) { emulator::BarrierWait(&bar->state, parity); }

inline int ClusterRank() { return emulator::ClusterRank(); }
inline void ClusterArrive() { emulator::ClusterArrive(); }
inline void ClusterWait() { emulator::ClusterWait(); }
inline void FenceBarrierInit() {}
inline void FenceAsyncProxy() {}
inline std::uint32_t PeerAddress(const void* p, int rank) { return emulator::PeerOffset(p, rank); }
inline void BarrierArrivePeer(Barrier* bar, int rank) {
  emulator::BarrierArrivePeer(&bar->state, rank);
}
inline void BarrierWaitCluster(Barrier* bar, int parity) {
  emulator::BarrierWait(&bar->state, parity);
}
inline void CopyToPeer(void* to, int rank, const void* from, std::uint32_t bytes, Barrier* bar) {
  emulator::CopyToPeer(to, rank, from, bytes, &bar->state);
}

inline void CopyBulk(void* shared, const void* global, std::uint32_t bytes, Barrier* bar) {
  emulator::CopyBulk(shared, global, bytes, &bar->state);
}
using emulator::SyncWarps;

inline void CopyAsync16(void* shared, const void* global, bool valid = true) {
  emulator::CopyAsync(16, shared, global, valid);
}
template <class T>
void CopyAsyncElement(T* shared, const T* global, bool valid = true) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  emulator::CopyAsync(sizeof(T), shared, global, valid);
}
inline void CopyAsyncCommit() { emulator::CopyAsyncCommit(); }
template <int kGroups>
void CopyAsyncWait() {
  emulator::CopyAsyncWait(kGroups);
}

inline std::uint32_t LoadAcquire(const std::uint32_t* flag) { return emulator::LoadAcquire(flag); }
inline void StoreRelease(std::uint32_t* flag, std::uint32_t value) {
  emulator::StoreRelease(flag, value);
}
inline std::uint64_t LoadRelaxed(const std::uint64_t* word) {
  return std::atomic_ref(*const_cast<std::uint64_t*>(word)).load(std::memory_order_relaxed);
}
inline void StoreRelaxed(std::uint64_t* word, std::uint64_t value) {
  std::atomic_ref(*word).store(value, std::memory_order_relaxed);
  emulator::NoteAtomic(true);
}
inline void Pause() { emulator::Sleep(); }

inline void Forget(int&) {}
inline double Select(bool yes, double a, double b) { return yes ? a : b; }

using emulator::Mma16x8x8;
using emulator::RoundToTf32;
using emulator::TruncateToTf32;

}  // namespace factord::kernels
