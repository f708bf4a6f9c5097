// Batches of panels, each inside a larger matrix, through the kernels of every kind.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/householder.h"
#include "kernels/panel/panel.h"
#include "tests/kernels/device_array.h"
#include "tests/kernels/same_bits.h"
#include "tests/support/generators.h"
#include "tests/support/residuals.h"

namespace factord::kernels::testing {

using factord::testing::DeviceArray;
using factord::testing::Ratios;
using factord::testing::ReflectorRatios;

struct Shape {
  int rows, nb;
};

inline int Multiprocessors() {
  int count = 0;
  factord::testing::CheckCuda(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0));
  return count;
}

// `vec`: of kBlock and kCluster; `multiprocessors`: of kGrid, whose scratch is dirty.
template <class T>
cudaError_t FactorPanel(PanelKind kind, const Work<T>& a, int j, int nb, int vec,
                        const WorkVectors<T>& tau, int multiprocessors) {
  switch (kind) {
    case PanelKind::kBlock:
      return FactorPanelBlock(a, j, nb, vec, tau, nullptr);
    case PanelKind::kCluster:
      return FactorPanelCluster(a, j, nb, vec, tau, nullptr);
    case PanelKind::kGrid: {
      DeviceArray<std::byte> scratch(GridPanelScratchBytes(kDtypeOf<T>, a.rows - j, nb, a.count));
      const cudaError_t error =
          FactorPanelGrid(a, j, nb, tau, scratch.data(), multiprocessors, nullptr);
      EXPECT_TRUE(scratch.GuardsIntact());  // and waits for the kernel
      return error;
    }
    case PanelKind::kSimple:
      return FactorPanelSimple(a, j, nb, tau, nullptr);
  }
  return cudaErrorNotSupported;
}

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

  cudaError_t Run(PanelKind kind, int vec, int multiprocessors = Multiprocessors()) {
    DeviceArray<T> a(before_), tau(tau_before_);
    const Work<T> work{a.data(), stride_, j_ + shape_.rows, cols_, ld_, count_};
    cudaError_t error =
        FactorPanel<T>(kind, work, j_, shape_.nb, vec, {tau.data(), tau_stride()}, multiprocessors);
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

inline std::string Describe(Dtype dtype, Shape shape, int j) {
  return std::string(dtype == Dtype::kF32 ? "f32 " : "f64 ") + std::to_string(shape.rows) + " x " +
         std::to_string(shape.nb) + " at " + std::to_string(j);
}

// Runs body.operator()<T>() for both types.
template <class Body>
void ForBothTypes(Body body) {
  body.template operator()<float>();
  body.template operator()<double>();
}

}  // namespace factord::kernels::testing
