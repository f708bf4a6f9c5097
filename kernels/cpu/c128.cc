#define FACTORD_TYPE std::complex<double>
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/c128.cc"
#include "kernels/cpu/define_kernels-inl.h"
