// How the server's process keeps memory between messages; the benchmarks' too, or what they compare
// it with would pay for its allocator.
#pragma once

#include <malloc.h>

namespace factord {

// Large messages are the rule here. By default glibc gives the top of the heap back after each one
// and faults it in again for the next, which costs more than the message (2-3x on 1 MiB messages).
// Before anything else is done.
inline void KeepFreedMemory() {
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 64 << 20);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
}

}  // namespace factord
