// What lets one header serve nvcc and an ordinary C++ compiler.
#pragma once

#ifdef __CUDACC__
#define FACTORD_HOST_DEVICE __host__ __device__
#else
#define FACTORD_HOST_DEVICE
#endif
