// FACTORD_UNROLL: before a loop over register arrays, whose count the compiler knows: all of it.
#pragma once

#ifdef __clang__
#define FACTORD_UNROLL _Pragma("clang loop unroll(full)")
#else
#define FACTORD_UNROLL _Pragma("GCC unroll 32")
#endif
