#include <algorithm>
#include <cmath>

#include "bench/gpu/residuals.h"

namespace factord::bench {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

__device__ double WarpSum(double x) {
  for (int bit = 16; bit >= 1; bit /= 2) x += __shfl_xor_sync(0xffffffffu, x, bit);
  return x;
}

__device__ double BlockSum(double x) {
  __shared__ double sums[kWarps];
  x = WarpSum(x);
  __syncthreads();
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = x;
  __syncthreads();
  double sum = 0;
  for (int i = 0; i < kWarps; ++i) sum += sums[i];
  return sum;
}

// worst := max(worst, x); the bits of numbers >= 0 are ordered as they are, and NaN's are above.
__device__ void KeepWorst(double* worst, double x) {
  atomicMax(reinterpret_cast<unsigned long long*>(worst),
            static_cast<unsigned long long>(__double_as_longlong(fabs(x))));
}

// Each block: column blockIdx.x of H_1 ... H_n I, all matrices m x n and column-major.
template <class T>
__global__ void ExplicitQ(const T* packed, const T* tau, int m, int n, double* q) {
  extern __shared__ double column[];
  const int j = static_cast<int>(blockIdx.x);
  for (int i = static_cast<int>(threadIdx.x); i < m; i += kThreads) column[i] = i == j ? 1 : 0;
  __syncthreads();
  for (int h = n - 1; h >= 0; --h) {
    const T* v = packed + static_cast<std::size_t>(h) * m;
    double dot = 0;
    for (int i = h + static_cast<int>(threadIdx.x); i < m; i += kThreads)
      dot += (i == h ? 1.0 : static_cast<double>(v[i])) * column[i];
    const double scaled = static_cast<double>(tau[h]) * BlockSum(dot);
    for (int i = h + static_cast<int>(threadIdx.x); i < m; i += kThreads)
      column[i] -= scaled * (i == h ? 1.0 : static_cast<double>(v[i]));
    __syncthreads();
  }
  for (int i = static_cast<int>(threadIdx.x); i < m; i += kThreads)
    q[static_cast<std::size_t>(j) * m + i] = column[i];
}

template <class T>
__global__ void Widen(const T* from, std::size_t size, double* to) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * kThreads;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * kThreads + threadIdx.x; i < size;
       i += step)
    to[i] = static_cast<double>(from[i]);
}

// The products of all columns of q with a vector in shared memory, one a warp at a time, each given
// to use(column, product).
template <class Use>
__device__ void ForEachProduct(const double* q, const double* vector, int m, int n, Use use) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int k = static_cast<int>(threadIdx.x) / 32; k < n; k += kWarps) {
    double dot = 0;
    for (int i = lane; i < m; i += 32) dot += q[static_cast<std::size_t>(k) * m + i] * vector[i];
    use(k, WarpSum(dot));
  }
}

// Each block: column blockIdx.x of R - Q^T A. R is the upper triangle of `r`, column-major with
// leading dimension ldr.
template <class T>
__global__ void Residual(const T* a, const double* q, const T* r, int ldr, int m, int n, double eps,
                         double* worst) {
  extern __shared__ double column[];
  const std::size_t j = blockIdx.x;
  double square = 0;
  for (int i = static_cast<int>(threadIdx.x); i < m; i += kThreads) {
    column[i] = static_cast<double>(a[j * m + i]);
    square += column[i] * column[i];
  }
  const double norm = sqrt(BlockSum(square));
  double error = 0;
  ForEachProduct(q, column, m, n, [&](int k, double product) {
    const double entry = k <= static_cast<int>(j) ? static_cast<double>(r[j * ldr + k]) : 0.0;
    if (threadIdx.x % 32 == 0) error += (entry - product) * (entry - product);
  });
  error = BlockSum(error);
  if (threadIdx.x == 0) KeepWorst(worst, sqrt(error) / (m * eps * norm));
}

// Each block: column blockIdx.x of q - expected.
__global__ void Difference(const double* q, const double* expected, int m, double eps,
                           double* worst) {
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * m;
  double error = 0;
  for (int i = static_cast<int>(threadIdx.x); i < m; i += kThreads) {
    const double difference = q[first + i] - expected[first + i];
    error += difference * difference;
  }
  error = BlockSum(error);
  if (threadIdx.x == 0) KeepWorst(worst, sqrt(error) / (m * eps));
}

// Each block: column blockIdx.x of Q^T Q - I.
__global__ void Orthogonality(const double* q, int m, int n, double eps, double* worst) {
  extern __shared__ double column[];
  const std::size_t j = blockIdx.x;
  for (int i = static_cast<int>(threadIdx.x); i < m; i += kThreads) column[i] = q[j * m + i];
  __syncthreads();
  double sum = 0;
  ForEachProduct(q, column, m, n, [&](int k, double product) {
    if (threadIdx.x % 32 == 0) sum += fabs(product - (k == static_cast<int>(j) ? 1 : 0));
  });
  sum = BlockSum(sum);
  if (threadIdx.x == 0) KeepWorst(worst, sum / (m * eps));
}

// Block: entry (i, j) of R^T R - A^T A, n x n. By rows or by columns.
template <class T>
__global__ void GramError(const T* a, const T* r, int m, int n, bool by_rows, double eps,
                          double* worst) {
  const int i = static_cast<int>(blockIdx.x) / n, j = static_cast<int>(blockIdx.x) % n;
  if (i > j) return;
  const auto dots = [&](const T* x, int rows, bool upper, double(&sums)[3]) {
    const std::size_t row = by_rows ? n : 1, col = by_rows ? 1 : rows;
    for (std::size_t k = threadIdx.x; k < static_cast<std::size_t>(rows); k += kThreads) {
      const double u = upper && k > static_cast<std::size_t>(i) ? 0 : x[k * row + i * col];
      const double v = upper && k > static_cast<std::size_t>(j) ? 0 : x[k * row + j * col];
      sums[0] += u * v;
      sums[1] += u * u;
      sums[2] += v * v;
    }
    for (double& sum : sums) sum = BlockSum(sum);
  };
  double of_a[3] = {}, of_r[3] = {};
  dots(a, m, false, of_a);
  dots(r, n, true, of_r);
  if (threadIdx.x == 0)
    KeepWorst(worst, (of_r[0] - of_a[0]) / (m * eps * sqrt(of_a[1]) * sqrt(of_a[2])));
}

template <class T>
class Checker {
 public:
  Checker(const Case& c, const Operands<T>& operands)
      : c_(c), operands_(operands), q_(Size()), expected_(IsOrgqr() ? Size() : 0), worst_(2) {
    worst_.Fill(0);
  }

  void Add(std::int64_t matrix) {
    const std::size_t at = static_cast<std::size_t>(matrix) * Size();
    const std::size_t tau_at = static_cast<std::size_t>(matrix) * static_cast<std::size_t>(c_.n);
    const T* const in = operands_.in.data() + at;
    const T* const out = operands_.out.data() + at;
    if (c_.operation == Operation::kGeqrf) {
      FormQ(out, operands_.tau.data() + tau_at, q_);
    } else {
      Widen<<<256, kThreads>>>(out, Size(), q_.data());
    }
    if (IsOrgqr()) {
      FormQ(in, operands_.tau_in.data() + tau_at, expected_);
      Difference<<<Grid(), kThreads>>>(q_.data(), expected_.data(), c_.m, Eps(), worst_.data());
    } else {
      const bool packed = c_.operation == Operation::kGeqrf;
      const T* const r =
          packed ? out : operands_.r.data() + tau_at * static_cast<std::size_t>(c_.n);
      Residual<<<Grid(), kThreads, ColumnBytes()>>>(in, q_.data(), r, packed ? c_.m : c_.n, c_.m,
                                                    c_.n, Eps(), worst_.data());
    }
    Orthogonality<<<Grid(), kThreads, ColumnBytes()>>>(q_.data(), c_.m, c_.n, Eps(),
                                                       worst_.data() + 1);
    Check(cudaGetLastError());
  }

  Quality Worst() const {
    double worst[2];
    Check(cudaMemcpy(worst, worst_.data(), sizeof(worst), cudaMemcpyDeviceToHost));
    return {worst[0], worst[1]};
  }

 private:
  bool IsOrgqr() const { return c_.operation == Operation::kOrgqr; }
  std::size_t Size() const {
    return static_cast<std::size_t>(c_.m) * static_cast<std::size_t>(c_.n);
  }
  unsigned Grid() const { return static_cast<unsigned>(c_.n); }
  std::size_t ColumnBytes() const { return static_cast<std::size_t>(c_.m) * sizeof(double); }
  static double Eps() { return sizeof(T) == 4 ? 0x1p-24 : 0x1p-53; }

  void FormQ(const T* packed, const T* tau, const DeviceArray<double>& q) {
    ExplicitQ<<<Grid(), kThreads, ColumnBytes()>>>(packed, tau, c_.m, c_.n, q.data());
  }

  const Case& c_;
  const Operands<T>& operands_;
  DeviceArray<double> q_, expected_, worst_;
};

}  // namespace

template <class T>
Quality QualityOfR(const Case& c, const Operands<T>& operands, bool by_rows) {
  DeviceArray<double> worst(1);
  worst.Fill(0);
  GramError<<<static_cast<unsigned>(c.n * c.n), kThreads>>>(
      operands.in.data(), operands.r.data(), c.m, c.n, by_rows, sizeof(T) == 4 ? 0x1p-24 : 0x1p-53,
      worst.data());
  Check(cudaGetLastError());
  Quality quality{0, NAN};
  Check(cudaMemcpy(&quality.residual, worst.data(), sizeof(double), cudaMemcpyDeviceToHost));
  return quality;
}

template <class T>
Quality QualityOf(const Case& c, const Operands<T>& operands, bool by_rows) {
  if (c.operation == Operation::kR) return QualityOfR(c, operands, by_rows);
  Checker<T> checker(c, operands);
  const std::int64_t samples = std::min<std::int64_t>(c.batch, 8);
  for (std::int64_t i = 0; i < samples; ++i)
    checker.Add(samples == 1 ? 0 : i * (c.batch - 1) / (samples - 1));
  return checker.Worst();
}

template Quality QualityOf(const Case&, const Operands<float>&, bool);
template Quality QualityOf(const Case&, const Operands<double>&, bool);

}  // namespace factord::bench
