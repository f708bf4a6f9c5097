#include <limits>

#include "kernels/gels/gels.h"
#include "kernels/householder.h"
#include "kernels/simt/launch.h"
#include "kernels/simt/ptx.h"

namespace factord::kernels {
namespace {

constexpr int kThreads = 32 * kSolveWarps;
// Below 1, to cover the rounding errors of the bounds themselves; a computed inverse at rcond's
// edge has half its digits.
constexpr double kComparisonMargin = 0.5;
constexpr double kInverseMargin = 0.25;

struct Shared {
  double partial[kSolveWarps];
};

__device__ __forceinline__ double WarpSum(double x) {
#pragma unroll
  for (int bit = 16; bit >= 1; bit /= 2) x += __shfl_xor_sync(~0u, x, bit);
  return x;
}
// One matrix's systems, seen by one warp of its block.
template <class T>
struct Triangle {
  const T* r;  // n x n, upper
  int n, ld;
  T* x;  // this warp's solution, n
  int lane;

  __device__ __forceinline__ T at(int i, int j) const {
    return r[static_cast<std::int64_t>(i) * ld + j];
  }

  // x := R^-1 b for a b that is zero from row `rows` on. b(i) gives its entries; all lanes get the
  // same ones.
  template <class B>
  __device__ void SolveUpper(int rows, B b) const {
    for (int i = rows - 1; i >= 0; --i) {
      double sum = 0;
      for (int j = i + 1 + lane; j < rows; j += 32)
        sum += static_cast<double>(at(i, j)) * static_cast<double>(x[j]);
      sum = WarpSum(sum);
      __syncwarp();
      if (lane == 0)
        x[i] = static_cast<T>((static_cast<double>(b(i)) - sum) / static_cast<double>(at(i, i)));
      __syncwarp();
    }
  }

  // ||M^-1||_inf: the largest entry of y, M y = 1.
  __device__ double ComparisonRowSum() const {
    double largest = 0;
    for (int i = n - 1; i >= 0; --i) {
      double sum = 0;
      for (int j = i + 1 + lane; j < n; j += 32) {
        sum += fabs(static_cast<double>(at(i, j))) * static_cast<double>(x[j]);
      }
      sum = (1 + WarpSum(sum)) / fabs(static_cast<double>(at(i, i)));
      __syncwarp();
      if (lane == 0) x[i] = static_cast<T>(sum);
      __syncwarp();
      largest = sum > largest || sum != sum ? sum : largest;
    }
    return largest;
  }

  // ||M^-1||_1: the largest entry of z, M^T z = 1. Row by row: x gathers what the rows above add to
  // each column.
  __device__ double ComparisonColumnSum() const {
    for (int j = lane; j < n; j += 32) x[j] = 1;
    double largest = 0;
    for (int i = 0; i < n; ++i) {
      __syncwarp();
      const double z = static_cast<double>(x[i]) / fabs(static_cast<double>(at(i, i)));
      largest = z > largest || z != z ? z : largest;
      __syncwarp();
      for (int j = i + 1 + lane; j < n; j += 32) {
        x[j] = static_cast<T>(static_cast<double>(x[j]) + fabs(static_cast<double>(at(i, j))) * z);
      }
    }
    __syncwarp();
    return largest;
  }
};

__device__ __forceinline__ double BlockSum(Shared& s, double mine, int warp, int lane) {
  mine = WarpSum(mine);
  if (lane == 0) s.partial[warp] = mine;
  __syncthreads();
  double sum = 0;
  for (int w = 0; w < kSolveWarps; ++w) sum += s.partial[w];
  __syncthreads();  // the places may be used again
  return sum;
}

template <class T>
__device__ double UpperFrobenius(Shared& s, const Triangle<T>& triangle, int warp) {
  double sum = 0;
  for (int i = warp; i < triangle.n; i += kSolveWarps) {
    for (int j = i + triangle.lane; j < triangle.n; j += 32) {
      const double r = static_cast<double>(triangle.at(i, j));
      sum += r * r;
    }
  }
  return sqrt(BlockSum(s, sum, warp, triangle.lane));
}

// The warps share the inverse's columns; each column's sum of squares has its own place in the
// order of the total.
template <class T>
__device__ double InverseFrobenius(Shared& s, const Triangle<T>& triangle, int warp) {
  double sum = 0;
  for (int c = warp; c < triangle.n; c += kSolveWarps) {
    triangle.SolveUpper(c + 1, [c](int i) { return i == c ? T(1) : T(0); });
    for (int i = triangle.lane; i <= c; i += 32) {
      const double x = static_cast<double>(triangle.x[i]);
      sum += x * x;
    }
    __syncwarp();
  }
  return sqrt(BlockSum(s, sum, warp, triangle.lane));
}

template <class T>
__device__ bool IsFullRank(Shared& s, const Triangle<T>& triangle, double rcond, int warp) {
  const double largest = rcond * UpperFrobenius(s, triangle, warp);
  if (warp == 0 || warp == 1) {
    const double sum = warp == 0 ? triangle.ComparisonRowSum() : triangle.ComparisonColumnSum();
    if (triangle.lane == 0) s.partial[warp] = sum;
  }
  __syncthreads();
  const double bound = sqrt(s.partial[0]) * sqrt(s.partial[1]);
  __syncthreads();
  // Written so that a NaN (0 * Inf, from a zero on the diagonal) proves nothing.
  if (largest * bound < kComparisonMargin) return true;
  return largest * InverseFrobenius(s, triangle, warp) < kInverseMargin;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    SolveTriangularKernel(const Problem problem, const Batch<T> batch, const Workspace<T> work,
                          const int b0) {
  auto& s = DynamicShared<Shared>();
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const std::int64_t matrix = blockIdx.x;
  const Run<T>& run = RunOf(batch, matrix);
  const std::int64_t local = matrix - run.first;
  const T* const a = work.a.matrix(matrix);
  const int* const fields = work.a_fields.vector(matrix);
  const int n = run.n;
  const Triangle<T> triangle{
      a, n, work.a.ld,
      work.solutions.vector(matrix) +
          static_cast<std::int64_t>(warp) * (work.solutions.stride / kSolveWarps),
      lane};
  const bool nonfinite = (batch.status[matrix] & kNonfiniteInput) != 0;
  const double eps = sizeof(T) == 4 ? 0x1p-24 : 0x1p-53;
  const double rcond = run.rcond >= 0 ? run.rcond : 2.0 * run.m * eps;
  const bool solvable = !nonfinite && IsFullRank(s, triangle, rcond, warp);
  const Strides to = StridesOf(n, run.p, problem.rhs_column_major);
  T* const result = run.result + local * n * run.p;
  const T nan = std::numeric_limits<T>::quiet_NaN();

  bool finite = true;
  for (int c = warp; c < run.p; c += kSolveWarps) {
    const T* const b = a + b0 + c;
    const int b_exponent = fields[b0 + c];
    if (solvable)
      triangle.SolveUpper(n, [&](int i) { return b[static_cast<std::int64_t>(i) * work.a.ld]; });
    for (int i = lane; i < n; i += 32) {
      // Column i was multiplied by ScaleOf(field), so x by its inverse, and the other way round for
      // b.
      const int exponent = ScaleExponent<T>(fields[i]) - ScaleExponent<T>(b_exponent);
      const T x = solvable ? static_cast<T>(ldexp(triangle.x[i], exponent)) : nan;
      finite &= ExponentField(x) != Ieee<T>::kTopField;
      result[i * to.row + c * to.col] = x;
    }
    __syncwarp();
    double sum = 0;
    for (int i = n + lane; i < run.m; i += 32) {
      const double r = static_cast<double>(b[static_cast<std::int64_t>(i) * work.a.ld]);
      sum += r * r;
    }
    const T norm = static_cast<T>(ldexp(sqrt(WarpSum(sum)), -ScaleExponent<T>(b_exponent)));
    finite &= ExponentField(norm) != Ieee<T>::kTopField;
    if (lane == 0) run.residual_norm[local * run.p + c] = nonfinite ? nan : norm;
  }
  if (nonfinite) return;
  if (!solvable) {
    if (threadIdx.x == 0) atomicOr(&batch.status[matrix], kRankUnproven);
  } else if (!finite) {
    atomicOr(&batch.status[matrix], kResultOutOfRange);
  }
}

}  // namespace

template <class T>
cudaError_t SolveTriangular(const Problem& problem, const Batch<T>& batch, const Workspace<T>& work,
                            int b0, cudaStream_t stream) {
  return Launch(SolveTriangularKernel<T>,
                {.grid = dim3(static_cast<unsigned>(batch.count)),
                 .threads = kThreads,
                 .shared_bytes = sizeof(Shared),
                 .stream = stream},
                problem, batch, work, b0);
}

template cudaError_t SolveTriangular(const Problem&, const Batch<float>&, const Workspace<float>&,
                                     int, cudaStream_t);
template cudaError_t SolveTriangular(const Problem&, const Batch<double>&, const Workspace<double>&,
                                     int, cudaStream_t);

}  // namespace factord::kernels
