// How the blocks of one matrix add up 32 numbers: an all-reduce through global memory, in one
// crossing.
//
// A message's words carry 32 bits of a number and a tag, 64 bits that are written and read at once.
// The reader polls the word itself: where the tag is the awaited one, the number is there. So no
// flag follows the data, no fence comes between the two, and the data need not be fetched after the
// flag (the "LL" protocol of NCCL).
#pragma once

#include <cuda_runtime.h>

#include <bit>
#include <cstdint>

#include "kernels/householder.h"
#include "kernels/simt/ptx.h"

namespace factord::kernels {

template <class T>
struct Message {
  static constexpr int kParts = sizeof(T) / 4;
  std::uint64_t word[kParts][32];
};

template <class T>
__device__ __forceinline__ void Send(Message<T>& to, int i, T value, std::uint32_t tag) {
  const std::uint64_t bits = std::bit_cast<typename Ieee<T>::Bits>(value);
#pragma unroll
  for (int part = 0; part < Message<T>::kParts; ++part) {
    const auto half = static_cast<std::uint32_t>(bits >> 32 * part);
    StoreRelaxed(&to.word[part][i], std::uint64_t{tag} << 32 | half);
  }
}

// Number i, if it has come.
template <class T>
__device__ __forceinline__ bool TryReceive(const Message<T>& from, int i, std::uint32_t tag,
                                           T& value) {
  std::uint64_t bits = 0;
  bool complete = true;
#pragma unroll
  for (int part = 0; part < Message<T>::kParts; ++part) {
    const std::uint64_t word = LoadRelaxed(&from.word[part][i]);
    bits |= (word & 0xffffffffu) << 32 * part;
    complete &= static_cast<std::uint32_t>(word >> 32) == tag;
  }
  value = std::bit_cast<T>(static_cast<typename Ieee<T>::Bits>(bits));
  return complete;
}

// One all-reduce's messages: the pivot row, and the sums of each block (`blocks` of them, one after
// the other).
//
// Exchanges alternate between two sets of messages. That suffices: a block sends for the next but
// one only after it has all messages of the next, which their senders sent only after they had all
// of this one. (A read can't see a word that is itself a consequence of what was read: the memory
// model's rule against values out of thin air.)
template <class T>
struct Exchange {
  Message<T>* pivot;
  Message<T>* sums;
};

FACTORD_HOST_DEVICE constexpr std::int64_t ExchangeMessages(int blocks) {
  return 2 * (std::int64_t{1} + blocks);
}

template <class T>
__device__ __forceinline__ Exchange<T> ExchangeOf(Message<T>* messages, int blocks,
                                                  std::uint32_t tag) {
  Message<T>* const set = messages + (tag % 2) * (1 + blocks);
  return {set, set + 1};
}

// Of every kStep-th block from `first` on, lane i gets the sum of number i, in ascending order; and
// the pivot row's entry i. All messages of a round are under way together.
template <int kStep, class T>
__device__ __forceinline__ T Collect(const Exchange<T>& exchange, int blocks, int first, int lane,
                                     std::uint32_t tag, T& pivot) {
  constexpr int kTogether = Message<T>::kParts == 1 ? 8 : 2;  // as registers allow
  const Message<T>* from = exchange.sums + first;
  int left = blocks - first;
  bool has_pivot = false;
  T sum = 0;
  do {
    T part[kTogether];
    while (true) {
      bool complete = has_pivot || TryReceive(*exchange.pivot, lane, tag, pivot);
#pragma unroll
      for (int u = 0; u < kTogether; ++u) {
        part[u] = 0;
        if (u * kStep < left) complete &= TryReceive(from[u * kStep], lane, tag, part[u]);
      }
      if (complete) break;
      Pause();
    }
#pragma unroll
    for (int u = 0; u < kTogether; ++u) sum += part[u];
    has_pivot = true;
    from += kTogether * kStep;
    left -= kTogether * kStep;
  } while (left > 0);
  return sum;
}

}  // namespace factord::kernels
