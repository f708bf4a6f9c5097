// Plans over the whole range of shapes: pure, no device.
#include "kernels/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels/tiny/tiny.h"
#include "kernels/work.h"
#include "kernels/wy/wy.h"

namespace factord::kernels {
namespace {

// Dimensions around everything that a plan may turn at.
std::vector<int> Dimensions() {
  std::vector<int> sizes = {0, 1, 2, 3, 5, 8};
  for (int size : {16, 32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 512, 768, 1024, 2048, 4096,
                   16'384, 100'000}) {
    sizes.insert(sizes.end(), {size - 1, size, size + 1});
  }
  return sizes;
}

Problem Factorization(int m, int n) {
  Problem problem;
  problem.m = m;
  problem.n = n;
  problem.r = true;
  problem.q = QMode::kReduced;
  return problem;
}

void CheckPanels(const Plan& plan) {
  const int k = RoundUp(plan.problem.k(), kColumnUnit);
  int j = 0;
  for (const Panel& panel : plan.panels) {
    const int rows = plan.problem.m - panel.j;
    ASSERT_EQ(panel.j, j);
    ASSERT_GT(panel.nb, 0);
    ASSERT_EQ(panel.nb % kColumnUnit, 0);
    ASSERT_GT(rows, 0);
    ASSERT_LE(panel.nb, RoundUp(rows, kColumnUnit));
    if (panel.kind == PanelKind::kBlock) {
      ASSERT_EQ(BlockPanelVec(plan.dtype, rows, panel.nb), panel.vec);
      ASSERT_GT(panel.vec, 0);
    }
    if (panel.kind == PanelKind::kGrid) {
      ASSERT_TRUE(GridPanelFits(plan.dtype, rows, panel.nb));
    }
    j += panel.nb;
  }
  ASSERT_EQ(j, k);
}

void CheckBlocks(const Plan& plan) {
  const int k = RoundUp(plan.problem.k(), kColumnUnit);
  int j = 0, next = 0;
  for (const Block& block : plan.blocks) {
    ASSERT_EQ(block.j, j);
    ASSERT_EQ(block.j % kMaxBlock, 0);
    ASSERT_EQ(block.first_panel, next);
    ASSERT_GT(block.panels, 0);
    int width = 0;
    for (int p = next; p < next + block.panels; ++p)
      width += plan.panels[static_cast<std::size_t>(p)].nb;
    ASSERT_EQ(width, block.nb);
    if (block.panels > 1) {
      ASSERT_LE(block.nb, kMaxBlock);
    }
    next += block.panels;
    j += block.nb;
  }
  ASSERT_EQ(j, k);
  ASSERT_EQ(static_cast<std::size_t>(next), plan.panels.size());
}

TEST(Plan, CoversEveryShapeOnce) {
  for (Dtype dtype : {Dtype::kF32, Dtype::kF64}) {
    for (int m : Dimensions()) {
      for (int n : Dimensions()) {
        if (static_cast<double>(m) * n > 1e9) continue;
        SCOPED_TRACE(::testing::Message()
                     << "m " << m << " n " << n << " f64 " << (dtype == Dtype::kF64));
        const Plan plan = PlanQr(Factorization(m, n), dtype, {});
        ASSERT_EQ(plan.tiny, IsTiny(plan.problem));
        ASSERT_EQ(plan.path().substr(0, 4), "gpu-");
        if (plan.tiny) {
          ASSERT_TRUE(plan.panels.empty());
          continue;
        }
        ASSERT_NO_FATAL_FAILURE(CheckPanels(plan));
        ASSERT_NO_FATAL_FAILURE(CheckBlocks(plan));
      }
    }
  }
}

TEST(Plan, DependsOnTheShapeAlone) {
  for (int m : {33, 100, 352, 512, 2048}) {
    const Plan a = PlanQr(Factorization(m, m), Dtype::kF32, {.multiprocessors = 132});
    const Plan b = PlanQr(Factorization(m, m), Dtype::kF32, {.multiprocessors = 148});
    EXPECT_EQ(a.panels, b.panels);
    EXPECT_EQ(a.blocks, b.blocks);
  }
}

TEST(Plan, WorkspaceGrowsWithEachArgument) {
  Problem problem = Factorization(700, 500);
  problem.q = QMode::kComplete;
  problem.sign = Sign::kNonnegative;
  for (Dtype dtype : {Dtype::kF32, Dtype::kF64}) {
    const Plan plan = PlanQr(problem, dtype, {});
    std::size_t last = 0;
    for (int m = 100; m <= 700; m += 23) {
      const std::size_t bytes = WorkspaceBytes(plan, m, 500, 0, 3);
      EXPECT_GE(bytes, last) << m;
      last = bytes;
    }
    last = 0;
    for (int n = 0; n <= 500; n += 17) {
      const std::size_t bytes = WorkspaceBytes(plan, 700, n, 0, 3);
      EXPECT_GE(bytes, last) << n;
      last = bytes;
    }
    last = 0;
    for (int count = 1; count < 40; ++count) {
      const std::size_t bytes = WorkspaceBytes(plan, 700, 500, 0, count);
      EXPECT_GT(bytes, last) << count;
      last = bytes;
    }
  }
}

// A batch's matrices may all be smaller than their class: what the plan chose must still hold them.
TEST(Plan, PanelsFitSmallerMatricesOfTheClass) {
  for (Dtype dtype : {Dtype::kF32, Dtype::kF64}) {
    for (int m : {64, 96, 192, 256, 384, 512, 1024, 2048}) {
      const Plan plan = PlanQr(Factorization(m, m), dtype, {});
      const int smallest = m - m / 5 + 1;
      for (const Panel& panel : plan.panels) {
        if (panel.j >= smallest || panel.kind != PanelKind::kBlock) continue;
        const int rows = smallest - panel.j;
        const int nb = std::min(panel.nb, RoundUp(rows, kColumnUnit));
        EXPECT_GT(BlockPanelVec(dtype, rows, nb), 0) << m << ": " << panel.j << " + " << nb;
      }
    }
  }
}

}  // namespace
}  // namespace factord::kernels
