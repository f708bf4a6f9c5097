// Panels of every kind: accuracy, what they leave alone, and the bits that they promise.
#include "kernels/panel/panel.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/householder.h"
#include "kernels/panel/block_sizes.h"
#include "tests/kernels/panel_harness.h"
#include "tests/support/generators.h"

namespace factord::kernels {

void PrintTo(PanelKind kind, std::ostream* out) {
  constexpr const char* kNames[] = {"Block", "Cluster", "Grid", "Simple"};
  *out << kNames[static_cast<int>(kind)];
}

namespace {

using factord::testing::Generate;
using factord::testing::Kind;
using factord::testing::kKinds;
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

// ---- what differs between the kinds

// The vec to use, 0 where the kind can't hold the panel. Kinds without one: 1.
int VecOf(PanelKind kind, Dtype dtype, Shape shape) {
  switch (kind) {
    case PanelKind::kBlock:
      return BlockPanelVec(dtype, shape.rows, shape.nb);
    case PanelKind::kCluster:
      for (const int vec : {8, 4}) {
        if (ClusterPanelFits(dtype, shape.rows, shape.nb, vec)) return vec;
      }
      return 0;
    case PanelKind::kGrid:
      return GridPanelFits(dtype, shape.rows, shape.nb) ? 1 : 0;
    case PanelKind::kSimple:
      return 1;
  }
  return 0;
}

bool Fits(PanelKind kind, Dtype dtype, Shape shape) { return VecOf(kind, dtype, shape) != 0; }

// Shapes at which the kind changes its ways, and around them.
std::vector<Shape> EdgeShapes(PanelKind kind, Dtype dtype) {
  if (kind == PanelKind::kGrid) return {{511, 8}, {512, 16}, {513, 32}};
  if (kind == PanelKind::kSimple) return {{16, 16}, {17, 24}, {18, 8}, {130, 32}, {130, 104}};
  std::vector<Shape> shapes;
  const auto add = [&](int rows, int nb) {
    if (nb > 0 && nb <= RoundUp(rows, kColumnUnit) && Fits(kind, dtype, {rows, nb})) {
      shapes.push_back({rows, nb});
    }
  };
  const auto add_around = [&](const BlockSize& size) {
    const int blocks = kind == PanelKind::kCluster ? 2 : 1;
    int widest = std::min(size.max_cols, blocks * size.vec * size.warps);
#ifdef FACTORD_EMULATED
    widest = std::min(widest, 128);
#endif
    for (const int rows : {32 * size.items - 1, 32 * size.items, 32 * size.items + 1}) {
      for (const int nb : {8, 40, widest}) add(rows, nb);
    }
  };
  if (dtype == Dtype::kF32) {
    for (const BlockSize& size : kBlockSizesF32) add_around(size);
  } else {
    for (const BlockSize& size : kBlockSizesF64) add_around(size);
  }
  return shapes;
}

class PanelTest : public ::testing::TestWithParam<PanelKind> {
 protected:
  static int Vec(Dtype dtype, Shape shape) { return VecOf(GetParam(), dtype, shape); }
};

TEST_P(PanelTest, AccurateForEveryKindOfMatrix) {
  ForBothTypes([&]<class T>() {
    for (const Shape shape :
         {Shape{1, 8}, {5, 8}, {40, 40}, {67, 24}, {33, 40}, {33, 32}, {150, 56}}) {
      if (!Fits(GetParam(), kDtypeOf<T>, shape)) continue;
      for (const int j : {0, 16}) {
        SCOPED_TRACE(Describe(kDtypeOf<T>, shape, j));
        std::vector<std::vector<T>> panels;
        for (const Kind kind : kKinds) {
          panels.push_back(
              Scaled(Generate<T>(kind, shape.rows, shape.nb, 7), shape.rows, shape.nb));
        }
        PanelBatch<T> batch(panels, shape, j);
        ASSERT_EQ(batch.Run(GetParam(), Vec(kDtypeOf<T>, shape)), cudaSuccess);
        EXPECT_TRUE(batch.RestUntouched());
        for (std::size_t i = 0; i < panels.size(); ++i) {
          SCOPED_TRACE(Name(kKinds[i]));
          ExpectAccurate(panels[i], batch.Result(static_cast<int>(i)), shape);
        }
      }
    }
  });
}

TEST_P(PanelTest, AccurateAtTheEdges) {
  ForBothTypes([&]<class T>() {
    std::uint64_t seed = 1;
    for (const Shape shape : EdgeShapes(GetParam(), kDtypeOf<T>)) {
      SCOPED_TRACE(Describe(kDtypeOf<T>, shape, 8) + ", seed " + std::to_string(seed));
      const Kind nasty = kKinds[seed % std::size(kKinds)];
      const std::vector<std::vector<T>> panels = {
          Scaled(Generate<T>(nasty, shape.rows, shape.nb, seed), shape.rows, shape.nb),
          ScaledNormal<T>(shape.rows, shape.nb, seed)};
      PanelBatch<T> batch(panels, shape, 8);
      ASSERT_EQ(batch.Run(GetParam(), Vec(kDtypeOf<T>, shape)), cudaSuccess);
      EXPECT_TRUE(batch.RestUntouched());
      ExpectAccurate(panels[0], batch.Result(0), shape);
      ExpectAccurate(panels[1], batch.Result(1), shape);
      ++seed;
    }
  });
}

// Fewer rows than columns, as at the end of a matrix that was padded to whole column units.
TEST_P(PanelTest, RowsMayEndBeforeTheColumns) {
  ForBothTypes([&]<class T>() {
    for (const int nb : {8, 32, 40, 64}) {
      for (int rows = nb - 7; rows <= nb; ++rows) {
        const Shape shape{rows, nb};
        if (!Fits(GetParam(), kDtypeOf<T>, shape)) continue;
        SCOPED_TRACE(Describe(kDtypeOf<T>, shape, 8));
        const auto panel = ScaledNormal<T>(rows, nb, static_cast<std::uint64_t>(rows));
        PanelBatch<T> batch({panel}, shape, 8);
        ASSERT_EQ(batch.Run(GetParam(), Vec(kDtypeOf<T>, shape)), cudaSuccess);
        EXPECT_TRUE(batch.RestUntouched());
        ExpectAccurate(panel, batch.Result(0), shape);
      }
    }
  });
}

TEST_P(PanelTest, BitsDoNotDependOnTheBatch) {
  ForBothTypes([&]<class T>() {
    const Shape shape{100, Fits(GetParam(), kDtypeOf<T>, {100, 48}) ? 48 : 32};
    const int vec = Vec(kDtypeOf<T>, shape);
    std::vector<std::vector<T>> panels;
    for (std::uint64_t i = 0; i < 5; ++i) panels.push_back(ScaledNormal<T>(100, shape.nb, i));
    panels[3][17] = std::numeric_limits<T>::quiet_NaN();
    panels[1][170] = std::numeric_limits<T>::infinity();
    PanelBatch<T> batch(panels, shape, 24);
    ASSERT_EQ(batch.Run(GetParam(), vec), cudaSuccess);
    for (const int i : {0, 2, 4}) {
      EXPECT_EQ(batch.Result(i), FactorOne(GetParam(), panels[i], shape, vec)) << i;
    }
  });
}

// Zero rows below, zero columns to the right. The vec is that of the larger panel, as in a shape
// class.
TEST_P(PanelTest, BitsDoNotDependOnZeroPadding) {
  ForBothTypes([&]<class T>() {
    for (const Shape shape : {Shape{20, 16}, {61, 40}, {100, 24}}) {
      for (const Shape larger : {Shape{shape.rows + 1, shape.nb},
                                 {100, 48},
                                 {150, 40},
                                 {200, 56},
                                 {300, 64},
                                 {340, 48},
                                 {380, 40},
                                 {500, 32},
                                 {700, 32},
                                 {1000, 32}}) {
        if (larger.rows < shape.rows || larger.nb < shape.nb) continue;
        const int vec = Vec(kDtypeOf<T>, larger);
        if (vec == 0) continue;
        SCOPED_TRACE(Describe(kDtypeOf<T>, shape, 0) + " in " + Describe(kDtypeOf<T>, larger, 0));
        std::vector<T> panel =
            Scaled(Generate<T>(Kind::kTinyTails, shape.rows, shape.nb, 3), shape.rows, shape.nb);
        for (std::size_t i = 0; i < panel.size(); i += 5) panel[i] = T(-0.0);
        const Factored<T> plain = FactorOne(GetParam(), panel, shape, vec);
        const Factored<T> padded =
            FactorOne(GetParam(), Resized(panel, shape, larger), larger, vec);
        EXPECT_TRUE(SameBits(plain.packed, Resized(padded.packed, larger, shape)));
        EXPECT_TRUE(SameBits(plain.tau, Resized(padded.tau, {1, larger.nb}, {1, shape.nb})));
        EXPECT_EQ(Resized(plain.packed, shape, larger), padded.packed);
        EXPECT_EQ(Resized(plain.tau, {1, shape.nb}, {1, larger.nb}), padded.tau);
      }
    }
  });
}

TEST_P(PanelTest, EmptyBatch) {
  ForBothTypes([&]<class T>() {
    PanelBatch<T> batch({}, {40, 16}, 0);
    EXPECT_EQ(batch.Run(GetParam(), Vec(kDtypeOf<T>, {40, 16})), cudaSuccess);
  });
}

INSTANTIATE_TEST_SUITE_P(Kinds, PanelTest,
                         ::testing::Values(PanelKind::kBlock, PanelKind::kCluster, PanelKind::kGrid,
                                           PanelKind::kSimple),
                         ::testing::PrintToStringParamName());

// ---- block and cluster

TEST(RegisterPanelTest, ClusterHasTheBlocksBits) {
  ForBothTypes([]<class T>() {
    std::uint64_t seed = 1;
    for (const Shape shape : EdgeShapes(PanelKind::kBlock, kDtypeOf<T>)) {
      const int vec = BlockPanelVec(kDtypeOf<T>, shape.rows, shape.nb);
      if (!ClusterPanelFits(kDtypeOf<T>, shape.rows, shape.nb, vec)) continue;
      SCOPED_TRACE(Describe(kDtypeOf<T>, shape, 0));
      const std::vector<T> panel = ScaledNormal<T>(shape.rows, shape.nb, ++seed);
      EXPECT_EQ(FactorOne(PanelKind::kBlock, panel, shape, vec),
                FactorOne(PanelKind::kCluster, panel, shape, vec));
    }
  });
}

TEST(RegisterPanelTest, WhatFits) {
  EXPECT_EQ(BlockPanelVec(Dtype::kF32, 192, 192), 8);
  EXPECT_EQ(BlockPanelVec(Dtype::kF32, 352, 128), 8);
  EXPECT_EQ(BlockPanelVec(Dtype::kF32, 384, 96), 8);
  EXPECT_EQ(BlockPanelVec(Dtype::kF32, 384, 104), 0);
  EXPECT_EQ(BlockPanelVec(Dtype::kF32, 768, 64), 8);
  EXPECT_EQ(BlockPanelVec(Dtype::kF32, 769, 32), 4);
  EXPECT_EQ(BlockPanelVec(Dtype::kF32, 1024, 40), 0);
  EXPECT_EQ(BlockPanelVec(Dtype::kF32, 1025, 8), 0);
  EXPECT_EQ(BlockPanelVec(Dtype::kF64, 128, 128), 8);
  EXPECT_EQ(BlockPanelVec(Dtype::kF64, 384, 64), 8);
  EXPECT_EQ(BlockPanelVec(Dtype::kF64, 704, 32), 4);
  EXPECT_EQ(BlockPanelVec(Dtype::kF64, 705, 8), 0);
  EXPECT_TRUE(ClusterPanelFits(Dtype::kF32, 352, 256, 8));
  EXPECT_TRUE(ClusterPanelFits(Dtype::kF32, 1024, 64, 4));
  EXPECT_FALSE(ClusterPanelFits(Dtype::kF32, 1024, 32, 8));
  EXPECT_FALSE(ClusterPanelFits(Dtype::kF32, 100, 32, 0));
}

// Whatever fits with a vec also fits with fewer rows and columns; in a cluster too.
TEST(RegisterPanelTest, SmallerFitsToo) {
  for (const Dtype dtype : {Dtype::kF32, Dtype::kF64}) {
    for (int rows = 1; rows <= 1024; ++rows) {
      for (int nb = 8; nb <= 256; nb += 8) {
        const int vec = BlockPanelVec(dtype, rows, nb);
        EXPECT_TRUE(vec == 0 || ClusterPanelFits(dtype, rows, nb, vec)) << rows << " x " << nb;
        for (const int v : {4, 8}) {
          if (!ClusterPanelFits(dtype, rows, nb, v)) continue;
          EXPECT_TRUE(rows == 1 || ClusterPanelFits(dtype, rows - 1, nb, v));
          EXPECT_TRUE(nb == 8 || ClusterPanelFits(dtype, rows, nb - 8, v));
        }
      }
    }
  }
}

TEST(RegisterPanelTest, RefusesWhatDoesNotFit) {
  ForBothTypes([]<class T>() {
    const Shape shape{1025, 8};
    for (const PanelKind kind : {PanelKind::kBlock, PanelKind::kCluster}) {
      PanelBatch<T> batch({ScaledNormal<T>(shape.rows, shape.nb, 1)}, shape, 0);
      EXPECT_EQ(batch.Run(kind, 8), cudaErrorInvalidValue);
      EXPECT_TRUE(batch.Untouched());
    }
  });
}

}  // namespace
}  // namespace factord::kernels
