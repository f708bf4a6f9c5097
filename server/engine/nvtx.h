// NvtxRange: a named range of a thread's time, for NVIDIA's profilers. Nothing where NVTX's
// headers, a part of CUDA's toolkit, are not there; next to nothing where no profiler looks.
#pragma once

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define FACTORD_NVTX 1
#endif

namespace factord {

// From its construction to its destruction, on the calling thread. Ranges nest.
class NvtxRange {
 public:
#ifdef FACTORD_NVTX
  explicit NvtxRange(const char* name) { nvtxRangePushA(name); }
  ~NvtxRange() { nvtxRangePop(); }
#else
  explicit NvtxRange(const char*) {}
#endif
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

}  // namespace factord
