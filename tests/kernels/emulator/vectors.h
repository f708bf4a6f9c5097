// CUDA's vector types.
#pragma once

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};

#define EMULATOR_VECTORS(scalar, name, wide)                              \
  struct alignas(2 * sizeof(scalar)) name##2 {                            \
    scalar x, y;                                                          \
  };                                                                      \
  struct alignas(wide) name##4 {                                          \
    scalar x, y, z, w;                                                    \
  };                                                                      \
  constexpr name##2 make_##name##2(scalar x, scalar y) { return {x, y}; } \
  constexpr name##4 make_##name##4(scalar x, scalar y, scalar z, scalar w) { return {x, y, z, w}; }
EMULATOR_VECTORS(int, int, 16)
EMULATOR_VECTORS(unsigned, uint, 16)
EMULATOR_VECTORS(float, float, 16)
EMULATOR_VECTORS(double, double, 16)
EMULATOR_VECTORS(long long, longlong, 16)
EMULATOR_VECTORS(unsigned long long, ulonglong, 16)
#undef EMULATOR_VECTORS

struct float3 {
  float x, y, z;
};
struct double3 {
  double x, y, z;
};
struct int3 {
  int x, y, z;
};
constexpr float3 make_float3(float x, float y, float z) { return {x, y, z}; }
constexpr double3 make_double3(double x, double y, double z) { return {x, y, z}; }
constexpr int3 make_int3(int x, int y, int z) { return {x, y, z}; }
constexpr uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
