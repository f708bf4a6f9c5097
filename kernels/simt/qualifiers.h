// What lets one header serve nvcc and an ordinary C++ compiler.
#pragma once

#ifdef __CUDACC__
#define FACTORD_HOST_DEVICE __host__ __device__
// What comes before and after a kernel's loop: kept out of line it takes no registers from the
// loop.
#define FACTORD_OUT_OF_LINE __noinline__
#else
#define FACTORD_HOST_DEVICE
#define FACTORD_OUT_OF_LINE
#endif
