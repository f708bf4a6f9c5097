// Batches through RunQr, as a caller would send them: operands in any layout, runs of different
// shapes, outputs poisoned.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

#include "kernels/qr.h"
#include "tests/kernels/device_array.h"
#include "tests/kernels/same_bits.h"
#include "tests/support/generators.h"

namespace factord::kernels::testing {

using factord::testing::DeviceArray;

// One matrix's inputs; matrices are column-major.
template <class T>
struct Item {
  int m = 0, n = 0, p = 0;
  std::vector<T> a;    // m x n: A, or packed reflectors
  std::vector<T> tau;  // kFormQ, kApplyQ
  std::vector<T> rhs;  // m x p; on the right p x m
  double rcond = -1;
};

// One matrix's outputs; matrices are column-major. Empty where the problem has no such output.
template <class T>
struct Result {
  std::vector<T> q, r, reflectors, tau, result, residual_norm;
  std::uint32_t status = 0;
};

inline DeviceLimits ThisDevice() {
  DeviceLimits limits;
  cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, 0) == cudaSuccess) {
    limits.multiprocessors = properties.multiProcessorCount;
    limits.shared_bytes = properties.sharedMemPerBlockOptin;
  }
  return limits;
}

// Between a matrix as tests see it (column-major) and as the problem lays it out; its own inverse
// with rows and cols swapped.
template <class T>
std::vector<T> Reordered(const std::vector<T>& from, int rows, int cols, bool column_major) {
  return column_major ? from : factord::testing::Transposed(from, rows, cols);
}

// One operand of a batch: one dense device array, in the order of the items.
template <class T>
class Operand {
 public:
  void Append(const std::vector<T>& elements) {
    host_.insert(host_.end(), elements.begin(), elements.end());
  }
  void AppendPoison(std::int64_t elements) {
    host_.insert(host_.end(), static_cast<std::size_t>(elements),
                 std::numeric_limits<T>::signaling_NaN());
  }
  std::int64_t size() const { return static_cast<std::int64_t>(host_.size()); }
  void Upload() { device_ = std::make_unique<DeviceArray<T>>(host_); }
  void Download() {
    EXPECT_TRUE(device_->GuardsIntact());
    host_ = device_->Download();
  }
  T* device() const { return device_->data(); }
  std::vector<T> Take(std::int64_t elements) {
    const auto first = host_.begin() + taken_;
    taken_ += elements;
    return std::vector<T>(first, first + elements);
  }

 private:
  std::vector<T> host_;
  std::unique_ptr<DeviceArray<T>> device_;
  std::int64_t taken_ = 0;
};

template <class T>
class QrBatch {
 public:
  QrBatch(const Problem& problem, const std::vector<Item<T>>& items)
      : problem_(problem), items_(items) {
    for (const Item<T>& item : items_) Add(item);
    for (Operand<T>* operand :
         {&a_, &tau_in_, &rhs_, &q_, &r_, &reflectors_, &tau_, &result_, &norm_})
      operand->Upload();
  }

  // Asserts nothing: the caller looks at `error`.
  std::vector<Result<T>> Run(const Plan& plan, cudaError_t* error) {
    std::vector<kernels::Run<T>> runs;
    for (Place& place : places_) runs.push_back(Located(place));
    DeviceArray<kernels::Run<T>> device_runs(runs);
    DeviceArray<std::uint32_t> status(items_.size());
    status.Fill(0xee);
    Batch<T> batch;
    batch.runs = device_runs.data();
    batch.run_count = static_cast<int>(runs.size());
    batch.count = static_cast<std::int64_t>(items_.size());
    batch.status = status.data();
    for (const Item<T>& item : items_) {
      batch.m = std::max(batch.m, item.m);
      batch.n = std::max(batch.n, item.n);
      batch.p = std::max(batch.p, item.p);
    }
    DeviceArray<std::byte> workspace(WorkspaceBytes(plan, batch.m, batch.n, batch.p, batch.count));
    workspace.Fill(0xff);
    *error = RunQr(plan, batch, workspace.data(), nullptr);
    if (*error == cudaSuccess) *error = cudaDeviceSynchronize();
    if (*error != cudaSuccess) return {};
    EXPECT_TRUE(workspace.GuardsIntact() && status.GuardsIntact() && device_runs.GuardsIntact());
    return Results(status.Download());
  }

 private:
  struct Place {
    kernels::Run<T> run;
    std::int64_t a, tau_in, rhs, q, r, reflectors, tau, result, norm;  // offsets
  };

  static std::int64_t Product(int a, int b) { return static_cast<std::int64_t>(a) * b; }
  int QColumns(const Item<T>& item) const {
    if (problem_.q == QMode::kNone) return 0;
    return problem_.q == QMode::kComplete ? item.m : std::min(item.m, item.n);
  }

  void Add(const Item<T>& item) {
    if (places_.empty() || places_.back().run.m != item.m || places_.back().run.n != item.n ||
        places_.back().run.p != item.p || places_.back().run.rcond != item.rcond) {
      Place place{{},        a_.size(),          tau_in_.size(), rhs_.size(),    q_.size(),
                  r_.size(), reflectors_.size(), tau_.size(),    result_.size(), norm_.size()};
      place.run.first = added_;
      place.run.m = item.m;
      place.run.n = item.n;
      place.run.p = item.p;
      place.run.rcond = item.rcond;
      places_.push_back(place);
    }
    ++added_;
    const int k = std::min(item.m, item.n);
    a_.Append(Reordered(item.a, item.m, item.n, problem_.column_major));
    tau_in_.Append(item.tau);
    if (!item.rhs.empty()) {
      rhs_.Append(problem_.right ? Reordered(item.rhs, item.p, item.m, problem_.rhs_column_major)
                                 : Reordered(item.rhs, item.m, item.p, problem_.rhs_column_major));
    }
    q_.AppendPoison(Product(item.m, QColumns(item)));
    if (problem_.op == Op::kFactorize) {
      if (problem_.r) r_.AppendPoison(Product(k, item.n));
      if (problem_.reflectors) {
        reflectors_.AppendPoison(Product(item.m, item.n));
        tau_.AppendPoison(k);
      }
    }
    if (problem_.op == Op::kApplyQ) result_.AppendPoison(Product(item.m, item.p));
    if (problem_.op == Op::kSolve) {
      result_.AppendPoison(Product(item.n, item.p));
      norm_.AppendPoison(item.p);
    }
  }

  kernels::Run<T> Located(const Place& place) const {
    kernels::Run<T> run = place.run;
    run.a = a_.device() + place.a;
    run.tau_in = tau_in_.device() + place.tau_in;
    run.rhs = rhs_.device() + place.rhs;
    run.q = q_.device() + place.q;
    run.r = r_.device() + place.r;
    run.reflectors = reflectors_.device() + place.reflectors;
    run.tau = tau_.device() + place.tau;
    run.result = result_.device() + place.result;
    run.residual_norm = norm_.device() + place.norm;
    return run;
  }

  std::vector<Result<T>> Results(const std::vector<std::uint32_t>& status) {
    for (Operand<T>* operand : {&q_, &r_, &reflectors_, &tau_, &result_, &norm_})
      operand->Download();
    std::vector<Result<T>> results;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const Item<T>& item = items_[i];
      const int k = std::min(item.m, item.n), q_columns = QColumns(item);
      Result<T> result;
      result.status = status[i];
      const auto back = [](std::vector<T> from, int rows, int cols, bool column_major) {
        return Reordered(from, cols, rows, column_major);
      };
      result.q =
          back(q_.Take(Product(item.m, q_columns)), item.m, q_columns, problem_.column_major);
      if (problem_.op == Op::kFactorize && problem_.r)
        result.r = back(r_.Take(Product(k, item.n)), k, item.n, problem_.column_major);
      if (problem_.op == Op::kFactorize && problem_.reflectors) {
        result.reflectors =
            back(reflectors_.Take(Product(item.m, item.n)), item.m, item.n, problem_.column_major);
        result.tau = tau_.Take(k);
      }
      if (problem_.op == Op::kApplyQ) {
        const int rows = problem_.right ? item.p : item.m, cols = problem_.right ? item.m : item.p;
        result.result =
            back(result_.Take(Product(rows, cols)), rows, cols, problem_.rhs_column_major);
      }
      if (problem_.op == Op::kSolve) {
        result.result =
            back(result_.Take(Product(item.n, item.p)), item.n, item.p, problem_.rhs_column_major);
        result.residual_norm = norm_.Take(item.p);
      }
      results.push_back(std::move(result));
    }
    return results;
  }

  const Problem problem_;
  const std::vector<Item<T>> items_;
  std::vector<Place> places_;
  std::int64_t added_ = 0;
  Operand<T> a_, tau_in_, rhs_, q_, r_, reflectors_, tau_, result_, norm_;
};

// What QrBatch answers; throws, which fails the test, where CUDA does not.
template <class T>
std::vector<Result<T>> MustRun(const Problem& problem, const std::vector<Item<T>>& items) {
  cudaError_t error = cudaSuccess;
  const Plan plan = PlanQr(problem, kDtypeOf<T>, ThisDevice());
  auto results = QrBatch<T>(problem, items).Run(plan, &error);
  EXPECT_EQ(error, cudaSuccess) << cudaGetErrorString(error);
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
  return results;
}

template <class T>
bool SameBits(const Result<T>& a, const Result<T>& b) {
  return SameBits(a.q, b.q) && SameBits(a.r, b.r) && SameBits(a.reflectors, b.reflectors) &&
         SameBits(a.tau, b.tau) && SameBits(a.result, b.result) &&
         SameBits(a.residual_norm, b.residual_norm) && a.status == b.status;
}

template <class T>
bool AllNan(const std::vector<T>& x) {
  return std::all_of(x.begin(), x.end(), [](T value) { return std::isnan(value); });
}

}  // namespace factord::kernels::testing
