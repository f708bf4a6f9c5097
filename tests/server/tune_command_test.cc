#include "server/tune_command.h"

#include "gtest/gtest.h"

namespace factord {
namespace {

RoutingRow Row(std::int64_t n, std::int64_t batch, double cpu_us, double gpu_us) {
  return {Op::kFactorize, DType::kF32, true, n, n, batch, cpu_us, gpu_us};
}

TEST(Crossovers, NameTheCountFromWhichOnTheGpuIsFaster) {
  const RoutingTable table({}, {Row(8, 512, 300, 100), Row(8, 1, 1, 60), Row(8, 8, 9, 61),
                                Row(16, 1, 5, 80), Row(512, 1, 9000, 900)});
  EXPECT_EQ(Crossovers(table),
            "The GPU is the faster one from this many matrices on (-: not up to what was "
            "measured):\n"
            "factorize f32 with Q:  8x8 512  16x16 -  512x512 1\n");
}

TEST(Crossovers, WithoutAGpuThereAreNone) {
  EXPECT_EQ(Crossovers(RoutingTable({}, {Row(8, 1, 1, 0)})),
            "No GPU was measured: all work runs on the CPU.\n");
}

}  // namespace
}  // namespace factord
