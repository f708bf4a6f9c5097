// What is particular to the grid kind: rows in slabs, their exchange, and as many matrices a launch
// as fit. What it shares with the others: panel_test.cc.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/panel/panel.h"
#include "tests/kernels/panel_harness.h"
#include "tests/support/generators.h"

namespace factord::kernels {
namespace {

using factord::testing::Generate;
using factord::testing::Kind;
using factord::testing::kKinds;
using factord::testing::Name;
using testing::Describe;
using testing::ExpectAccurate;
using testing::Factored;
using testing::FactorOne;
using testing::ForBothTypes;
using testing::PanelBatch;
using testing::Resized;
using testing::SameBits;
using testing::Scaled;
using testing::ScaledNormal;
using testing::Shape;

constexpr PanelKind kGrid = PanelKind::kGrid;

// Of one block.
constexpr int SlabRows(Dtype dtype) { return dtype == Dtype::kF32 ? 512 : 256; }

template <class T>
std::vector<std::vector<T>> Panels(int count, Shape shape) {
  std::vector<std::vector<T>> panels;
  for (int i = 0; i < count; ++i) {
    panels.push_back(ScaledNormal<T>(shape.rows, shape.nb, static_cast<std::uint64_t>(i)));
  }
  return panels;
}

TEST(GridPanelTest, AccurateForEveryKindOfMatrix) {
  ForBothTypes([]<class T>() {
    const Shape shape{SlabRows(kDtypeOf<T>) + 20, 32};
    std::vector<std::vector<T>> panels;
    for (const Kind kind : kKinds) {
      panels.push_back(Scaled(Generate<T>(kind, shape.rows, shape.nb, 11), shape.rows, shape.nb));
    }
    PanelBatch<T> batch(panels, shape, 8);
    ASSERT_EQ(batch.Run(kGrid, 0), cudaSuccess);
    EXPECT_TRUE(batch.RestUntouched());
    for (std::size_t i = 0; i < panels.size(); ++i) {
      SCOPED_TRACE(Describe(kDtypeOf<T>, shape, 8) + " " + std::string(Name(kKinds[i])));
      ExpectAccurate(panels[i], batch.Result(static_cast<int>(i)), shape);
    }
  });
}

// Small enough for every sanitizer.
TEST(GridPanelTest, TwoBlocks) {
  ForBothTypes([]<class T>() {
    const Shape shape{2 * SlabRows(kDtypeOf<T>), 16};
    SCOPED_TRACE(Describe(kDtypeOf<T>, shape, 0));
    const std::vector<T> panel = ScaledNormal<T>(shape.rows, shape.nb, 4);
    ExpectAccurate(panel, FactorOne(kGrid, panel, shape, 0), shape);
  });
}

TEST(GridPanelTest, AccurateAroundWholeSlabs) {
  ForBothTypes([]<class T>() {
    std::uint64_t seed = 1;
    for (const int slabs : {1, 2, 9}) {  // 9: a warp collects from two blocks
      for (const int more : {-1, 0, 1}) {
        if (slabs == 9 && more == 0) continue;
        const Shape shape{slabs * SlabRows(kDtypeOf<T>) + more, seed % 3 == 0 ? 24 : 8};
        SCOPED_TRACE(Describe(kDtypeOf<T>, shape, 16) + ", seed " + std::to_string(seed));
        const std::vector<T> panel = ScaledNormal<T>(shape.rows, shape.nb, seed++);
        PanelBatch<T> batch({panel}, shape, 16);
        ASSERT_EQ(batch.Run(kGrid, 0), cudaSuccess);
        EXPECT_TRUE(batch.RestUntouched());
        ExpectAccurate(panel, batch.Result(0), shape);
      }
    }
  });
}

// More blocks than a warp collects from in one round.
TEST(GridPanelTest, ManySlabs) {
  ForBothTypes([]<class T>() {
    const int slabs = kDtypeOf<T> == Dtype::kF32 ? 66 : 18;
    const Shape shape{slabs * SlabRows(kDtypeOf<T>), 8};
    SCOPED_TRACE(Describe(kDtypeOf<T>, shape, 0));
    const std::vector<T> panel = ScaledNormal<T>(shape.rows, shape.nb, 5);
    ExpectAccurate(panel, FactorOne(kGrid, panel, shape, 0), shape);
  });
}

// However many matrices a launch takes; on a device with one multiprocessor only a few.
TEST(GridPanelTest, BitsDoNotDependOnTheBatch) {
  ForBothTypes([]<class T>() {
    const Shape shape{2 * SlabRows(kDtypeOf<T>) + 5, 16};
    std::vector<std::vector<T>> panels = Panels<T>(10, shape);
    panels[3][17] = std::numeric_limits<T>::quiet_NaN();
    panels[8][shape.rows - 1] = std::numeric_limits<T>::infinity();
    PanelBatch<T> at_once(panels, shape, 8), few_at_once(panels, shape, 8);
    ASSERT_EQ(at_once.Run(kGrid, 0), cudaSuccess);
    ASSERT_EQ(few_at_once.Run(kGrid, 0, 2), cudaSuccess);
    EXPECT_TRUE(at_once.RestUntouched());
    EXPECT_TRUE(few_at_once.RestUntouched());
    for (const int i : {0, 2, 4, 7, 9}) {
      const Factored<T> alone = FactorOne(kGrid, panels[static_cast<std::size_t>(i)], shape, 0);
      EXPECT_EQ(at_once.Result(i), alone) << i;
      EXPECT_EQ(few_at_once.Result(i), alone) << i;
    }
  });
}

TEST(GridPanelTest, BitsDoNotDependOnZeroPadding) {
  ForBothTypes([]<class T>() {
    const int slab = SlabRows(kDtypeOf<T>);
    const Shape shape{slab - 100, 16};
    std::vector<T> panel =
        Scaled(Generate<T>(Kind::kTinyTails, shape.rows, shape.nb, 3), shape.rows, shape.nb);
    for (std::size_t i = 0; i < panel.size(); i += 5) panel[i] = T(-0.0);
    const Factored<T> plain = FactorOne(kGrid, panel, shape, 0);
    for (const Shape larger : {Shape{slab, 16}, {slab + 1, 24}, {9 * slab, 32}}) {
      SCOPED_TRACE(Describe(kDtypeOf<T>, larger, 0));
      const Factored<T> padded = FactorOne(kGrid, Resized(panel, shape, larger), larger, 0);
      EXPECT_TRUE(SameBits(padded.packed, Resized(plain.packed, shape, larger)));
      EXPECT_TRUE(SameBits(padded.tau, Resized(plain.tau, {1, shape.nb}, {1, larger.nb})));
    }
  });
}

// Scratch that looks like messages which have come: the words' tag is their upper half.
TEST(GridPanelTest, ScratchMayBeDirty) {
  ForBothTypes([]<class T>() {
    const Shape shape{2 * SlabRows(kDtypeOf<T>), 8};
    const std::vector<T> panel = ScaledNormal<T>(shape.rows, shape.nb, 1);
    const Factored<T> expected = FactorOne(kGrid, panel, shape, 0);
    for (std::uint64_t tag = 0; tag <= 3; ++tag) {
      SCOPED_TRACE(tag);
      testing::DeviceArray<T> a(factord::testing::Transposed(panel, shape.rows, shape.nb));
      testing::DeviceArray<T> tau(static_cast<std::size_t>(shape.nb));
      const std::size_t bytes = GridPanelScratchBytes(kDtypeOf<T>, shape.rows, shape.nb, 1);
      testing::DeviceArray<std::uint64_t> scratch(
          std::vector<std::uint64_t>(bytes / 8, tag << 32 | 0x3f800000));
      const Work<T> work{a.data(), 0, shape.rows, shape.nb, shape.nb, 1};
      ASSERT_EQ(FactorPanelGrid<T>(work, 0, shape.nb, {tau.data(), 0}, scratch.data(),
                                   testing::Multiprocessors(), nullptr),
                cudaSuccess);
      EXPECT_TRUE(SameBits(factord::testing::Transposed(a.Download(), shape.nb, shape.rows),
                           expected.packed));
      EXPECT_TRUE(SameBits(tau.Download(), expected.tau));
      EXPECT_TRUE(scratch.GuardsIntact());
    }
  });
}

TEST(GridPanelTest, WhatFits) {
  EXPECT_TRUE(GridPanelFits(Dtype::kF32, 102400, 32));
  EXPECT_FALSE(GridPanelFits(Dtype::kF32, 102401, 32));
  EXPECT_TRUE(GridPanelFits(Dtype::kF64, 51200, 32));
  EXPECT_FALSE(GridPanelFits(Dtype::kF64, 51201, 32));
  EXPECT_TRUE(GridPanelFits(Dtype::kF32, 1, 8));
  EXPECT_FALSE(GridPanelFits(Dtype::kF32, 1000, 40));
}

TEST(GridPanelTest, RefusesWhatCannotBeResident) {
  ForBothTypes([]<class T>() {
    const Shape shape{40 * SlabRows(kDtypeOf<T>), 8};
    PanelBatch<T> batch(Panels<T>(1, shape), shape, 0);
    EXPECT_EQ(batch.Run(kGrid, 0, 1), cudaErrorCooperativeLaunchTooLarge);
    EXPECT_TRUE(batch.Untouched());
  });
}

}  // namespace
}  // namespace factord::kernels
