// Matrix products of a warp. The order of the sums is not the hardware's, which is not known.
#include <array>
#include <bit>
#include <cmath>

#include "emulator_ptx.h"
#include "grid.h"

namespace emulator {
namespace {

constexpr std::uint32_t kBeyondTf32 = (1u << 13) - 1;  // bits of a float

double FromWord(std::uint64_t word, double) { return std::bit_cast<double>(word); }
float FromWord(std::uint64_t word, float) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(word));
}

// T: of D and the sums. The fragments as in ptx.h: words 0 to 3 of a lane are its a, 4 and 5 its b.
template <class T>
void Multiply(T (&d)[4], const std::array<std::uint64_t, 6>& fragments) {
  const Lane& lane = CurrentLane();
  if (lane.warp->size() != kWarpSize) Fail("Mma16x8x8 by %d lanes", lane.warp->size());
  const Warp::Exchange& exchange = Meet("Mma16x8x8", fragments);
  const auto a = [&](int i, int k) {
    return FromWord(exchange.words[i % 8 * 4 + k % 4][i / 8 + k / 4 * 2], T());
  };
  const auto b = [&](int k, int j) {
    return FromWord(exchange.words[j * 4 + k % 4][4 + k / 4], T());
  };
  const int g = lane.number / 4, t = lane.number % 4;
  for (int e = 0; e < 4; ++e) {
    const int i = g + e / 2 * 8, j = 2 * t + e % 2;
    for (int k = 0; k < 8; ++k) d[e] = std::fma(a(i, k), b(k, j), d[e]);
  }
}

void CheckTf32(std::uint32_t bits) {
  if ((bits & kBeyondTf32) != 0 && !std::isnan(std::bit_cast<float>(bits))) {
    Fail("Mma16x8x8: %#x is not a TF32 number: RoundToTf32 or TruncateToTf32 is missing", bits);
  }
}

}  // namespace

void Mma16x8x8(double (&d)[4], const double (&a)[4], const double (&b)[2]) {
  const auto word = [](double x) { return std::bit_cast<std::uint64_t>(x); };
  Multiply(d, {word(a[0]), word(a[1]), word(a[2]), word(a[3]), word(b[0]), word(b[1])});
}

void Mma16x8x8(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  for (const std::uint32_t x : a) CheckTf32(x);
  for (const std::uint32_t x : b) CheckTf32(x);
  Multiply(d, {a[0], a[1], a[2], a[3], b[0], b[1]});
}

// To nearest, ties away from zero.
std::uint32_t RoundToTf32(float x) {
  if (std::isnan(x)) return 0x7fffffff;
  return (std::bit_cast<std::uint32_t>(x) + (kBeyondTf32 + 1) / 2) & ~kBeyondTf32;
}

std::uint32_t TruncateToTf32(float x) {
  if (std::isnan(x)) return 0x7fffffff;
  return std::bit_cast<std::uint32_t>(x) & ~kBeyondTf32;
}

}  // namespace emulator
