// Every test of the CPU's kernels runs with each instruction set that the machine and the binary
// have. Results are held against the contract for each; between two of them bits may differ (with
// and without fused multiply-add, and where the number of lanes decides a panel's width).
#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <complex>
#include <cstdint>

#include "kernels/cpu/qr.h"

namespace factord::kernels::testing {

using ElementTypes = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;

class ScopedInstructionSet {
 public:
  explicit ScopedInstructionSet(std::int64_t target) { hwy::SetSupportedTargetsForTest(target); }
  ~ScopedInstructionSet() { hwy::SetSupportedTargetsForTest(0); }
  ScopedInstructionSet(const ScopedInstructionSet&) = delete;
  ScopedInstructionSet& operator=(const ScopedInstructionSet&) = delete;
};

template <class Test>
void WithEachInstructionSet(const Test& test) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    const ScopedInstructionSet set(target);
    EXPECT_STREQ(cpu::InstructionSet(), hwy::TargetName(target));
    test();
  }
}

}  // namespace factord::kernels::testing
