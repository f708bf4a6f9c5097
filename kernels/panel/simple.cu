// Panels of any size: LAPACK's geqr2, one block a matrix, columns where they are. The plainest
// kernel, and what the others are compared with.
//
// Lanes are columns, 32 at a time, and warps share out the rows. Rows of zeros add zeros at the end
// of a warp's sum.
#include <cmath>
#include <cstdint>

#include "kernels/householder.h"
#include "kernels/panel/panel.h"
#include "kernels/simt/launch.h"
#include "kernels/simt/ptx.h"

namespace factord::kernels {
namespace {

constexpr int kWarps = 16;
constexpr int kThreads = 32 * kWarps;

template <class T>
struct Shared {
  T warp_sum[kWarps][32];

  // Over the warps, in their order.
  __device__ T Sum(int lane) const {
    T sum = 0;
    for (const auto& of_warp : warp_sum) sum += of_warp[lane];
    return sum;
  }
};

// The columns right of and including a pivot column, below and including its row.
template <class T>
struct Trailing {
  T* a;
  std::int64_t ld;
  int rows, cols;
  __device__ T& operator()(int row, int col) const { return a[row * ld + col]; }
};

// By all threads: shared's sums become a(1:, 0)^T a(1:, q), q the column of the lane.
template <class T>
__device__ void TailProducts(const Trailing<T>& a, int q, int warp, int lane, Shared<T>& shared) {
  T d = 0;
  if (q < a.cols) {
    for (int row = 1 + warp; row < a.rows; row += kWarps) d = std::fma(a(row, 0), a(row, q), d);
  }
  __syncthreads();  // the last ones have been read
  shared.warp_sum[warp][lane] = d;
  __syncthreads();
}

// a_q -= tau (v^T a_q) v with v = [1; scale tail], v^T a_q = a(0, q) + scale s.
template <class T>
__device__ void Update(const Trailing<T>& a, const Reflector<T>& h, int q, T pivot, T s, int warp) {
  const T y = -h.tau * std::fma(h.scale, s, pivot);
  if (warp == 0) a(0, q) = pivot + y;
  for (int row = 1 + warp; row < a.rows; row += kWarps) {
    a(row, q) = std::fma(a(row, 0) * h.scale, y, a(row, q));
  }
}

// Column 0 of `a` and its effect on the others; returns tau.
template <class T>
__device__ T FactorColumn(const Trailing<T>& a, int warp, int lane) {
  auto& shared = DynamicShared<Shared<T>>();
  const T alpha = a(0, 0);
  Reflector<T> h{};
  for (int first = 0; first < a.cols; first += 32) {
    const int q = first + lane;
    const T pivot = q < a.cols ? a(0, q) : T(0);
    TailProducts(a, q, warp, lane, shared);
    if (first == 0) h = Larfg(alpha, shared.Sum(0));
    if (q > 0 && q < a.cols) Update(a, h, q, pivot, shared.Sum(lane), warp);
  }
  __syncthreads();
  for (int row = 1 + static_cast<int>(threadIdx.x); row < a.rows; row += kThreads) {
    a(row, 0) = std::fma(a(row, 0), h.scale, T(0));  // no negative zeros, as below the last row
  }
  if (threadIdx.x == 0) a(0, 0) = h.beta;
  __syncthreads();
  return h.tau;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    SimplePanelKernel(Work<T> a, int j, int nb, WorkVectors<T> tau) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t matrix = blockIdx.x;
  for (int c = j; c < j + nb; ++c) {
    const Trailing<T> trailing{a.matrix(matrix) + static_cast<std::int64_t>(c) * a.ld + c, a.ld,
                               a.rows - c, j + nb - c};
    const T tau_c = trailing.rows > 0 ? FactorColumn(trailing, warp, lane) : T(0);
    if (threadIdx.x == 0) tau.vector(matrix)[c] = tau_c;
  }
}

}  // namespace

template <class T>
cudaError_t FactorPanelSimple(const Work<T>& a, int j, int nb, const WorkVectors<T>& tau,
                              cudaStream_t stream) {
  LaunchConfig config;
  config.grid = dim3(static_cast<unsigned>(a.count));
  config.threads = kThreads;
  config.shared_bytes = sizeof(Shared<T>);
  config.stream = stream;
  return Launch(SimplePanelKernel<T>, config, a, j, nb, tau);
}

template cudaError_t FactorPanelSimple<float>(const Work<float>&, int, int,
                                              const WorkVectors<float>&, cudaStream_t);
template cudaError_t FactorPanelSimple<double>(const Work<double>&, int, int,
                                               const WorkVectors<double>&, cudaStream_t);

}  // namespace factord::kernels
