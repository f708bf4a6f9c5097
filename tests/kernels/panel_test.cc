// Panels of every kind: accuracy, what they leave alone, and the bits that they promise.
#include "kernels/panel/panel.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/householder.h"
#include "kernels/panel/block_sizes.h"
#include "tests/kernels/device_array.h"
#include "tests/support/generators.h"
#include "tests/support/residuals.h"

namespace factord::kernels {

void PrintTo(PanelKind kind, std::ostream* out) {
  constexpr const char* kNames[] = {"Block", "Cluster", "Grid", "Simple"};
  *out << kNames[static_cast<int>(kind)];
}

namespace {

using factord::testing::DeviceArray;
using factord::testing::Generate;
using factord::testing::Kind;
using factord::testing::kKinds;
using factord::testing::Ratios;
using factord::testing::ReflectorRatios;

struct Shape {
  int rows, nb;
};

// ---- what differs between the kinds

// The vec to use, 0 where the kind can't hold the panel. Kinds without one: any number.
int VecOf(PanelKind kind, Dtype dtype, Shape shape) {
  switch (kind) {
    case PanelKind::kBlock:
      return BlockPanelVec(dtype, shape.rows, shape.nb);
    case PanelKind::kCluster:
      for (const int vec : {8, 4}) {
        if (ClusterPanelFits(dtype, shape.rows, shape.nb, vec)) return vec;
      }
      return 0;
    default:
      return 0;
  }
}

template <class T>
cudaError_t FactorPanel(PanelKind kind, const Work<T>& a, int j, int nb, int vec,
                        const WorkVectors<T>& tau) {
  switch (kind) {
    case PanelKind::kBlock:
      return FactorPanelBlock(a, j, nb, vec, tau, nullptr);
    case PanelKind::kCluster:
      return FactorPanelCluster(a, j, nb, vec, tau, nullptr);
    default:
      return cudaErrorNotSupported;
  }
}

// Shapes at which the kind changes its ways, and around them.
std::vector<Shape> EdgeShapes(PanelKind kind, Dtype dtype) {
  std::vector<Shape> shapes;
  const auto add = [&](int rows, int nb) {
    if (nb > 0 && nb <= RoundUp(rows, kColumnUnit) && VecOf(kind, dtype, {rows, nb}) != 0) {
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

// ---- a batch of panels, each inside a larger matrix

template <class T>
std::vector<T> Scaled(std::vector<T> a, int rows, int cols) {
  for (int c = 0; c < cols; ++c) {
    T* column = a.data() + static_cast<std::ptrdiff_t>(c) * rows;
    int field = 0;
    for (int r = 0; r < rows; ++r) field = std::max(field, ExponentField(column[r]));
    for (int r = 0; r < rows; ++r) column[r] *= ScaleOf<T>(field);
  }
  return a;
}

template <class T>
std::vector<T> ScaledNormal(int rows, int cols, std::uint64_t seed) {
  return Scaled(factord::testing::Normal<T>(rows, cols, seed), rows, cols);
}

// Column-major, in the upper left corner of a zero matrix; or cut to that corner.
template <class T>
std::vector<T> Resized(const std::vector<T>& a, Shape from, Shape to) {
  std::vector<T> result(static_cast<std::size_t>(to.rows) * to.nb);
  for (int c = 0; c < std::min(from.nb, to.nb); ++c) {
    std::copy_n(a.begin() + static_cast<std::ptrdiff_t>(c) * from.rows,
                std::min(from.rows, to.rows),
                result.begin() + static_cast<std::ptrdiff_t>(c) * to.rows);
  }
  return result;
}

template <class T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// What a panel gives: R and V, column-major, and tau, of each column.
template <class T>
struct Factored {
  std::vector<T> packed, tau;
};

template <class T>
bool operator==(const Factored<T>& a, const Factored<T>& b) {
  return SameBits(a.packed, b.packed) && SameBits(a.tau, b.tau);
}

template <class T>
class PanelBatch {
 public:
  // Every panel is shape.rows x shape.nb, column-major, and lies at (j, j).
  PanelBatch(const std::vector<std::vector<T>>& panels, Shape shape, int j)
      : shape_(shape), j_(j), count_(static_cast<int>(panels.size())) {
    cols_ = j + shape.nb + 8;
    ld_ = cols_ + 8;
    stride_ = static_cast<std::int64_t>(j + shape.rows) * ld_ + 16;
    before_ = factord::testing::Normal<T>(stride_, count_, 99);
    tau_before_.assign(static_cast<std::size_t>(count_ * tau_stride()),
                       std::numeric_limits<T>::quiet_NaN());
    for (int i = 0; i < count_; ++i) {
      for (int r = 0; r < shape.rows; ++r) {
        for (int c = 0; c < shape.nb; ++c) before_[At(i, r, c)] = panels[i][r + c * shape.rows];
      }
    }
  }

  cudaError_t Run(PanelKind kind, int vec) {
    DeviceArray<T> a(before_), tau(tau_before_);
    const Work<T> work{a.data(), stride_, j_ + shape_.rows, cols_, ld_, count_};
    cudaError_t error = FactorPanel<T>(kind, work, j_, shape_.nb, vec, {tau.data(), tau_stride()});
    if (error == cudaSuccess) error = cudaDeviceSynchronize();
    after_ = a.Download();
    tau_after_ = tau.Download();
    guards_intact_ = a.GuardsIntact() && tau.GuardsIntact();
    return error;
  }

  Factored<T> Result(int i) const {
    Factored<T> result;
    for (int c = 0; c < shape_.nb; ++c) {
      for (int r = 0; r < shape_.rows; ++r) result.packed.push_back(after_[At(i, r, c)]);
      result.tau.push_back(tau_after_[TauAt(i, c)]);
    }
    return result;
  }

  // Whether everything but the results has its old bits.
  bool RestUntouched() const {
    std::vector<T> a = after_, tau = tau_after_;
    for (int i = 0; i < count_; ++i) {
      for (int c = 0; c < shape_.nb; ++c) {
        for (int r = 0; r < shape_.rows; ++r) a[At(i, r, c)] = before_[At(i, r, c)];
        tau[TauAt(i, c)] = tau_before_[TauAt(i, c)];
      }
    }
    return guards_intact_ && SameBits(a, before_) && SameBits(tau, tau_before_);
  }
  bool Untouched() const { return SameBits(after_, before_) && SameBits(tau_after_, tau_before_); }

 private:
  std::int64_t tau_stride() const { return cols_ + 3; }
  std::size_t At(int i, int r, int c) const {
    return static_cast<std::size_t>(i * stride_ + static_cast<std::int64_t>(j_ + r) * ld_ + j_ + c);
  }
  std::size_t TauAt(int i, int c) const {
    return static_cast<std::size_t>(i * tau_stride() + j_ + c);
  }

  Shape shape_;
  int j_, count_, cols_, ld_;
  std::int64_t stride_;
  std::vector<T> before_, after_, tau_before_, tau_after_;
  bool guards_intact_ = false;
};

// One matrix, no surroundings.
template <class T>
Factored<T> FactorOne(PanelKind kind, const std::vector<T>& panel, Shape shape, int vec) {
  PanelBatch<T> batch({panel}, shape, 0);
  EXPECT_EQ(batch.Run(kind, vec), cudaSuccess);
  return batch.Result(0);
}

template <class T>
void ExpectAccurate(const std::vector<T>& panel, const Factored<T>& result, Shape shape) {
  const auto k = static_cast<std::size_t>(std::min(shape.rows, shape.nb));
  const std::vector<T> tau(result.tau.begin(), result.tau.begin() + static_cast<std::ptrdiff_t>(k));
  const Ratios ratios = ReflectorRatios(panel, result.packed, tau, shape.rows, shape.nb);
  EXPECT_TRUE(ratios.Hold()) << "residual " << ratios.residual << ", orthogonality "
                             << ratios.orthogonality;
  for (std::size_t c = 0; c < result.tau.size(); ++c) {  // LAPACK's signs
    const T value = result.tau[c];
    EXPECT_TRUE(value == 0 || (c < k && value >= 1 && value <= T(2.00001)))
        << "tau[" << c << "] = " << value;
  }
  EXPECT_TRUE(std::all_of(result.packed.begin(), result.packed.end(),
                          [](T x) { return std::isfinite(x); }));
}

std::string Describe(Dtype dtype, Shape shape, int j) {
  return std::string(dtype == Dtype::kF32 ? "f32 " : "f64 ") + std::to_string(shape.rows) + " x " +
         std::to_string(shape.nb) + " at " + std::to_string(j);
}

// Runs body.operator()<T>() for both types.
template <class Body>
void ForBothTypes(Body body) {
  body.template operator()<float>();
  body.template operator()<double>();
}

class PanelTest : public ::testing::TestWithParam<PanelKind> {
 protected:
  static int Vec(Dtype dtype, Shape shape) { return VecOf(GetParam(), dtype, shape); }
};

TEST_P(PanelTest, AccurateForEveryKindOfMatrix) {
  ForBothTypes([&]<class T>() {
    for (const Shape shape : {Shape{1, 8}, {5, 8}, {40, 40}, {67, 24}, {33, 40}, {150, 56}}) {
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
    const Shape shape{100, 48};
    const int vec = Vec(kDtypeOf<T>, shape);
    std::vector<std::vector<T>> panels;
    for (std::uint64_t i = 0; i < 5; ++i) panels.push_back(ScaledNormal<T>(100, 48, i));
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
                         ::testing::Values(PanelKind::kBlock, PanelKind::kCluster),
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
