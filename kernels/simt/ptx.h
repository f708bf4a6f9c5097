// The few instructions that CUDA C++ has no word for. Everything else in kernels/ is plain CUDA
// C++; the tests' emulator (tests/kernels/emulator) implements both, so that every kernel also runs
// on a CPU.
#pragma once

#include <cstdint>

#ifdef __CUDACC__

#include <cuda_runtime.h>

namespace factord::kernels {

// The block's dynamic shared memory, 1024-byte aligned.
template <class T>
__device__ __forceinline__ T& DynamicShared() {
  extern __shared__ __align__(1024) unsigned char factord_dynamic_shared[];
  return *reinterpret_cast<T*>(factord_dynamic_shared);
}

__device__ __forceinline__ std::uint32_t SharedAddress(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

// ---- mbarriers. One phase completes when `count` arrivals, and all expected bytes, have come.
// Phases alternate between parity 0 and 1; waiting for parity p returns once the phase of that
// parity has completed.
struct Barrier {
  std::uint64_t state;
};
__device__ __forceinline__ void BarrierInit(Barrier* bar, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(bar)), "r"(count)
               : "memory");
}
__device__ __forceinline__ void BarrierArrive(Barrier* bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SharedAddress(bar)) : "memory");
}
// One arrival that also announces `bytes` of asynchronous copies.
__device__ __forceinline__ void BarrierArriveExpect(Barrier* bar, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SharedAddress(bar)),
               "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void BarrierWait(Barrier* bar, int parity) {
  asm volatile(
      "{\n .reg .pred p;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n @p bra done;\n bra again;\n"
      "done:\n}" ::"r"(SharedAddress(bar)),
      "r"(parity)
      : "memory");
}

// ---- clusters
__device__ __forceinline__ int ClusterRank() {
  std::uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}
// All threads of all blocks of the cluster; what was written before Arrive is seen after Wait.
__device__ __forceinline__ void ClusterArrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void ClusterWait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// After BarrierInit, before ClusterArrive: peers may use the barriers.
__device__ __forceinline__ void FenceBarrierInit() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// Ordinary writes to shared memory become visible to CopyToPeer.
__device__ __forceinline__ void FenceAsyncProxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ std::uint32_t PeerAddress(const void* p, int rank) {
  std::uint32_t r;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(SharedAddress(p)), "r"(rank));
  return r;
}
// Arrives at block `rank`'s barrier of the same place.
__device__ __forceinline__ void BarrierArrivePeer(Barrier* bar, int rank) {
  asm volatile(
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(PeerAddress(bar, rank))
      : "memory");
}
// As BarrierWait, for barriers that peers arrive at.
__device__ __forceinline__ void BarrierWaitCluster(Barrier* bar, int parity) {
  asm volatile(
      "{\n .reg .pred p;\n"
      "again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n @p bra "
      "done;\n bra again;\n"
      "done:\n}" ::"r"(SharedAddress(bar)),
      "r"(parity)
      : "memory");
}
// Copies to the same place as `to` in block `rank`, and completes `bytes` of that block's barrier
// of the same place as `bar`. 16-byte aligned, a multiple of 16 bytes. The source must stay until
// the receiver has it.
__device__ __forceinline__ void CopyToPeer(void* to, int rank, const void* from,
                                           std::uint32_t bytes, Barrier* bar) {
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, "
      "[%3];" ::"r"(PeerAddress(to, rank)),
      "r"(SharedAddress(from)), "r"(bytes), "r"(PeerAddress(bar, rank))
      : "memory");
}

// Copies from global memory and completes `bytes` of the barrier. 16-byte aligned, a multiple of 16
// bytes.
__device__ __forceinline__ void CopyBulk(void* shared, const void* global, std::uint32_t bytes,
                                         Barrier* bar) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(SharedAddress(shared)),
      "l"(global), "r"(bytes), "r"(SharedAddress(bar))
      : "memory");
}

// All threads of `threads` / 32 warps that name the same `id`, 1 to 15.
__device__ __forceinline__ void SyncWarps(int id, int threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// ---- asynchronous copies of 16 bytes, global to shared; with `valid` false zeros are written and
// nothing is read
__device__ __forceinline__ void CopyAsync16(void* shared, const void* global, bool valid = true) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(shared)),
               "l"(global), "r"(valid ? 16 : 0)
               : "memory");
}
// One number instead, of 4 or 8 bytes, aligned to itself.
template <class T>
__device__ __forceinline__ void CopyAsyncElement(T* shared, const T* global, bool valid = true) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(SharedAddress(shared)),
               "l"(global), "n"(sizeof(T)), "r"(valid ? static_cast<int>(sizeof(T)) : 0)
               : "memory");
}
__device__ __forceinline__ void CopyAsyncCommit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Until at most `kGroups` of this thread's committed groups are under way.
template <int kGroups>
__device__ __forceinline__ void CopyAsyncWait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

// ---- flags in global memory, between blocks
__device__ __forceinline__ std::uint32_t LoadAcquire(const std::uint32_t* flag) {
  std::uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}
__device__ __forceinline__ void StoreRelease(std::uint32_t* flag, std::uint32_t value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}
// 64 bits at once, never torn, past the L1 cache. They order nothing else: for words that say by
// themselves whether they have come.
__device__ __forceinline__ std::uint64_t LoadRelaxed(const std::uint64_t* word) {
  std::uint64_t value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word));
  return value;
}
__device__ __forceinline__ void StoreRelaxed(std::uint64_t* word, std::uint64_t value) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}
// In a loop that waits for a flag.
__device__ __forceinline__ void Pause() { __nanosleep(20); }

// ---- registers. The compiler no longer knows that x is what it was: what follows from it is
// computed anew, instead of being kept from before.
__device__ __forceinline__ void Forget(int& x) { asm volatile("" : "+r"(x)); }

// yes ? a : b as an instruction. Of two elements of an array in registers the compiler would choose
// the address, and so put the array into memory.
__device__ __forceinline__ double Select(bool yes, double a, double b) {
  double r;
  asm("{\n .reg .pred p;\n setp.ne.s32 p, %3, 0;\n selp.f64 %0, %1, %2, p;\n}"
      : "=d"(r)
      : "d"(a), "d"(b), "r"(static_cast<int>(yes)));
  return r;
}

// ---- tensor cores. A is 16 x 8, B 8 x 8, D 16 x 8, all row, column, row. With g = lane / 4, t =
// lane % 4:
//   a = A(g, t), A(g + 8, t), A(g, t + 4), A(g + 8, t + 4);  b = B(t, g), B(t + 4, g)
//   d = D(g, 2t), D(g, 2t + 1), D(g + 8, 2t), D(g + 8, 2t + 1)
__device__ __forceinline__ void Mma16x8x8(double (&d)[4], const double (&a)[4],
                                          const double (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
}
// a and b hold TF32 numbers.
__device__ __forceinline__ void Mma16x8x8(float (&d)[4], const std::uint32_t (&a)[4],
                                          const std::uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// To TF32, 11 bits of significand; the bits are those of a float. To nearest, ties away from zero.
__device__ __forceinline__ std::uint32_t RoundToTf32(float x) {
  std::uint32_t r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
  return r;
}
// Toward zero: the tensor core does not look at the other bits. Only for Mma16x8x8.
__device__ __forceinline__ std::uint32_t TruncateToTf32(float x) { return __float_as_uint(x); }

}  // namespace factord::kernels

#else
#include "emulator_ptx.h"
#endif
