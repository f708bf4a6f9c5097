#include <algorithm>

#include "bench/gpu/implementation.h"
#include "bench/gpu/matrices.h"

namespace factord::bench {
namespace {

constexpr unsigned kThreads = 256;

unsigned Blocks(std::size_t elements) {
  return static_cast<unsigned>(std::min<std::size_t>((elements + kThreads - 1) / kThreads, 65'536));
}

__device__ std::uint64_t Mixed(std::uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

__device__ double Uniform(std::uint64_t x) {  // in (0, 1)
  return (static_cast<double>(Mixed(x) >> 12) + 0.5) * 0x1p-52;
}

template <class T>
__global__ void FillNormal(T* to, std::size_t size, std::uint64_t seed) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size;
       i += step) {
    const std::uint64_t at = Mixed(seed) + 2 * i;
    to[i] = static_cast<T>(sqrt(-2 * log(Uniform(at))) * cospi(2 * Uniform(at + 1)));
  }
}

template <class T>
__global__ void CopyUpperKernel(const T* packed, int m, int n, std::size_t size, T* r) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t at = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; at < size;
       at += step) {
    const std::size_t matrix = at / n / n;
    const int j = static_cast<int>(at / n % n), i = static_cast<int>(at % n);
    r[at] = i <= j ? packed[matrix * m * n + static_cast<std::size_t>(j) * m + i] : T(0);
  }
}

template <class T>
__global__ void ReadKernel(const T* from, std::size_t size, T* sums) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  T sum = 0;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size;
       i += step) {
    const float4 four = __ldcs(reinterpret_cast<const float4*>(from) + i);
    sum += four.x + four.y + four.z + four.w;
  }
  if (sum == T(1.25)) sums[0] = sum;  // hardly ever
}

template <class T>
class ReadOnceImplementation final : public Implementation<T> {
 public:
  std::string name() const override { return "read once"; }
  void Prepare(Operands<T>& operands) override { operands.r.Fill(0); }
  void Run(Operands<T>& operands) override {
    constexpr unsigned kBlocksPerMultiprocessor = 16;
    int multiprocessors = 0;
    Check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
    ReadKernel<<<kBlocksPerMultiprocessor* static_cast<unsigned>(multiprocessors), kThreads>>>(
        operands.in.data(), operands.in.bytes() / sizeof(float4), operands.r.data());
    Check(cudaGetLastError());
  }
};

__global__ void DelayKernel(long long cycles) {
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
}

std::size_t Elements(std::int64_t batch, int rows, int cols) {
  return static_cast<std::size_t>(batch) * static_cast<std::size_t>(rows) *
         static_cast<std::size_t>(cols);
}

int BatchesFor(std::size_t bytes) {
  int l2 = 0;
  Check(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, 0));
  const std::size_t wanted = 2 * static_cast<std::size_t>(l2) / bytes + 1;
  return static_cast<int>(std::clamp<std::size_t>(wanted, 4, 16));
}

}  // namespace

template <class T>
Operands<T>::Operands(const Case& c)
    : in(Elements(c.batch, c.m, c.n)),
      tau_in(c.operation == Operation::kOrgqr ? Elements(c.batch, c.n, 1) : 0),
      out(in.size()),
      tau(Elements(c.batch, c.n, 1)),
      r(c.operation == Operation::kQr || c.operation == Operation::kR ? Elements(c.batch, c.n, c.n)
                                                                      : 0) {}

template <class T>
void Operands<T>::PoisonOutputs() {
  for (DeviceArray<T>* array : {&out, &tau, &r}) array->Fill(0xff);
}

template <class T>
std::vector<Operands<T>> RandomBatches(const Case& c) {
  const int count = BatchesFor(Elements(c.batch, c.m, c.n) * sizeof(T));
  std::vector<Operands<T>> batches;
  for (int i = 0; i < count; ++i) {
    Operands<T>& batch = batches.emplace_back(c);
    FillNormal<<<Blocks(batch.in.size()), kThreads>>>(batch.in.data(), batch.in.size(),
                                                      static_cast<std::uint64_t>(i));
    Check(cudaGetLastError());
  }
  if (c.operation != Operation::kOrgqr) return batches;
  // Reflectors of random matrices.
  Case geqrf = c;
  geqrf.operation = Operation::kGeqrf;
  const auto factor = Factord<T>(geqrf);
  for (Operands<T>& batch : batches) {
    factor->Run(batch);
    std::swap(batch.in, batch.out);
    std::swap(batch.tau_in, batch.tau);
  }
  Check(cudaDeviceSynchronize());
  return batches;
}

template <class T>
void CopyUpper(const T* packed, int m, int n, std::int64_t batch, T* r, cudaStream_t stream) {
  const std::size_t size = Elements(batch, n, n);
  CopyUpperKernel<<<Blocks(size), kThreads, 0, stream>>>(packed, m, n, size, r);
  Check(cudaGetLastError());
}

template <class T>
std::unique_ptr<Implementation<T>> ReadOnce(const Case&) {
  return std::make_unique<ReadOnceImplementation<T>>();
}

void Delay() {
  DelayKernel<<<1, 1>>>(200'000);
  Check(cudaGetLastError());
}

template struct Operands<float>;
template struct Operands<double>;
template std::vector<Operands<float>> RandomBatches(const Case&);
template std::vector<Operands<double>> RandomBatches(const Case&);
template std::unique_ptr<Implementation<float>> ReadOnce(const Case&);
template std::unique_ptr<Implementation<double>> ReadOnce(const Case&);
template void CopyUpper(const float*, int, int, std::int64_t, float*, cudaStream_t);
template void CopyUpper(const double*, int, int, std::int64_t, double*, cudaStream_t);

}  // namespace factord::bench
