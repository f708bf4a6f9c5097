#define FACTORD_TYPE double
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/f64.cc"
#include "kernels/cpu/define_kernels-inl.h"
