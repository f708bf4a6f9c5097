#define FACTORD_TYPE std::complex<float>
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/c64.cc"
#include "kernels/cpu/define_kernels-inl.h"
