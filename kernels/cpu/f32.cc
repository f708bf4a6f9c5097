#define FACTORD_TYPE float
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/f32.cc"
#include "kernels/cpu/define_kernels-inl.h"
