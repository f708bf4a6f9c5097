// cuBLAS and cuSOLVER. Both work in place: the input is copied beforehand, untimed.
#include <cublas_v2.h>
#include <cusolverDn.h>

#include <algorithm>
#include <map>
#include <type_traits>

#include "bench/gpu/implementation.h"

namespace factord::bench {
namespace {

void Check(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  std::fprintf(stderr, "cuBLAS: %s\n", cublasGetStatusString(status));
  std::exit(EXIT_FAILURE);
}
void Check(cusolverStatus_t status) {
  if (status == CUSOLVER_STATUS_SUCCESS) return;
  std::fprintf(stderr, "cuSOLVER: status %d\n", static_cast<int>(status));
  std::exit(EXIT_FAILURE);
}
using bench::Check;

// The calls by their types.
struct F32 {
  static constexpr auto kGeqrfBatched = cublasSgeqrfBatched;
  static constexpr auto kGeqrf = cusolverDnSgeqrf;
  static constexpr auto kGeqrfBufferSize = cusolverDnSgeqrf_bufferSize;
  static constexpr auto kOrgqr = cusolverDnSorgqr;
  static constexpr auto kOrgqrBufferSize = cusolverDnSorgqr_bufferSize;
  static constexpr auto kGemm = cublasSgemm;
  static constexpr auto kPotrf = cusolverDnSpotrf;
  static constexpr auto kPotrfBufferSize = cusolverDnSpotrf_bufferSize;
};
struct F64 {
  static constexpr auto kGeqrfBatched = cublasDgeqrfBatched;
  static constexpr auto kGeqrf = cusolverDnDgeqrf;
  static constexpr auto kGeqrfBufferSize = cusolverDnDgeqrf_bufferSize;
  static constexpr auto kOrgqr = cusolverDnDorgqr;
  static constexpr auto kOrgqrBufferSize = cusolverDnDorgqr_bufferSize;
  static constexpr auto kGemm = cublasDgemm;
  static constexpr auto kPotrf = cusolverDnDpotrf;
  static constexpr auto kPotrfBufferSize = cusolverDnDpotrf_bufferSize;
};
template <class T>
using Calls = std::conditional_t<sizeof(T) == 4, F32, F64>;

template <class T>
void CopyInput(Operands<T>& operands) {
  operands.PoisonOutputs();
  Check(cudaMemcpy(operands.out.data(), operands.in.data(), operands.in.bytes(),
                   cudaMemcpyDeviceToDevice));
}

template <class T>
class CublasGeqrfBatched final : public Implementation<T> {
 public:
  explicit CublasGeqrfBatched(const Case& c) : case_(c) { Check(cublasCreate(&handle_)); }
  ~CublasGeqrfBatched() override { Check(cublasDestroy(handle_)); }

  std::string name() const override { return "cuBLAS geqrfBatched"; }

  // A multiprocessor works on one matrix at a time, as slowly as was seen on an H200 at 8 x 2048 x
  // 2048: 19 s.
  double ExpectedSeconds() override {
    const double rounds = static_cast<double>((case_.batch + 131) / 132);
    return 2.2e-9 * rounds * case_.m * case_.n * case_.n;
  }

  void Prepare(Operands<T>& operands) override {
    CopyInput(operands);
    const auto [place, is_new] = pointers_.try_emplace(operands.out.data(), 2 * case_.batch);
    if (!is_new) return;
    std::vector<T*> pointers;
    for (std::int64_t i = 0; i < case_.batch; ++i)
      pointers.push_back(operands.out.data() + i * case_.m * case_.n);
    for (std::int64_t i = 0; i < case_.batch; ++i)
      pointers.push_back(operands.tau.data() + i * case_.n);
    Check(cudaMemcpy(place->second.data(), pointers.data(), place->second.bytes(),
                     cudaMemcpyHostToDevice));
  }
  void Run(Operands<T>& operands) override {
    T** const pointers = pointers_.at(operands.out.data()).data();
    int info = 0;
    Check(Calls<T>::kGeqrfBatched(handle_, case_.m, case_.n, pointers, case_.m,
                                  pointers + case_.batch, &info, static_cast<int>(case_.batch)));
  }

 private:
  const Case case_;
  cublasHandle_t handle_;
  std::map<const T*, DeviceArray<T*>> pointers_;  // to the matrices, then to their taus
};

// A loop over the matrices.
template <class T>
class CusolverLoop final : public Implementation<T> {
 public:
  explicit CusolverLoop(const Case& c) : case_(c), info_(1) {
    Check(cusolverDnCreate(&handle_));
    int geqrf = 0, orgqr = 0;
    DeviceArray<T> none(1);
    Check(Calls<T>::kGeqrfBufferSize(handle_, c.m, c.n, none.data(), c.m, &geqrf));
    Check(
        Calls<T>::kOrgqrBufferSize(handle_, c.m, c.n, c.n, none.data(), c.m, none.data(), &orgqr));
    size_ = std::max(geqrf, orgqr);
    buffer_ = DeviceArray<T>(static_cast<std::size_t>(size_));
  }
  ~CusolverLoop() override { Check(cusolverDnDestroy(handle_)); }

  std::string name() const override {
    switch (case_.operation) {
      case Operation::kGeqrf:
        return "cuSOLVER geqrf";
      case Operation::kOrgqr:
        return "cuSOLVER orgqr";
      case Operation::kQr:
        return "cuSOLVER geqrf + orgqr";
      case Operation::kR:
        break;
    }
    return "cuSOLVER geqrf";
  }

  // From a few matrices, timed.
  double ExpectedSeconds() override {
    Case one = case_;
    one.batch = std::min<std::int64_t>(case_.batch, 4);
    auto operands = std::move(RandomBatches<T>(one).front());
    cudaEvent_t start, stop;
    Check(cudaEventCreate(&start));
    Check(cudaEventCreate(&stop));
    float milliseconds = 0;
    for (int warm_up = 2; warm_up > 0; --warm_up) {
      CopyInput(operands);
      Check(cudaEventRecord(start));
      RunFirst(operands, one.batch);
      Check(cudaEventRecord(stop));
      Check(cudaEventSynchronize(stop));
      Check(cudaEventElapsedTime(&milliseconds, start, stop));
    }
    Check(cudaEventDestroy(start));
    Check(cudaEventDestroy(stop));
    return 1e-3 * milliseconds * static_cast<double>(case_.batch) / static_cast<double>(one.batch);
  }

  void Prepare(Operands<T>& operands) override { CopyInput(operands); }
  void Run(Operands<T>& operands) override { RunFirst(operands, case_.batch); }

 private:
  void RunFirst(Operands<T>& operands, std::int64_t batch) {
    const bool forms_q = case_.operation == Operation::kOrgqr || case_.operation == Operation::kQr;
    const bool wants_r = case_.operation == Operation::kQr || case_.operation == Operation::kR;
    const bool factors = case_.operation != Operation::kOrgqr;
    T* const taus = factors ? operands.tau.data() : operands.tau_in.data();
    for (std::int64_t i = 0; factors && i < batch; ++i) {
      Check(Calls<T>::kGeqrf(handle_, case_.m, case_.n, MatrixOf(operands, i), case_.m,
                             taus + i * case_.n, buffer_.data(), size_, info_.data()));
    }
    if (wants_r)
      CopyUpper(operands.out.data(), case_.m, case_.n, batch, operands.r.data(), nullptr);
    for (std::int64_t i = 0; forms_q && i < batch; ++i) {
      Check(Calls<T>::kOrgqr(handle_, case_.m, case_.n, case_.n, MatrixOf(operands, i), case_.m,
                             taus + i * case_.n, buffer_.data(), size_, info_.data()));
    }
  }
  T* MatrixOf(Operands<T>& operands, std::int64_t i) const {
    return operands.out.data() + i * case_.m * case_.n;
  }

  const Case case_;
  cusolverDnHandle_t handle_;
  int size_ = 0;
  DeviceArray<T> buffer_;
  DeviceArray<int> info_;
};

// R = chol(A^T A), of one matrix by rows: fast, and wrong by the square of A's condition number.
template <class T>
class GramCholesky final : public Implementation<T> {
 public:
  explicit GramCholesky(const Case& c) : case_(c), info_(1) {
    Check(cublasCreate(&blas_));
    Check(cusolverDnCreate(&solver_));
    DeviceArray<T> none(1);
    Check(
        Calls<T>::kPotrfBufferSize(solver_, CUBLAS_FILL_MODE_LOWER, c.n, none.data(), c.n, &size_));
    buffer_ = DeviceArray<T>(static_cast<std::size_t>(size_));
  }
  ~GramCholesky() override {
    Check(cublasDestroy(blas_));
    Check(cusolverDnDestroy(solver_));
  }
  std::string name() const override { return "GEMM + Cholesky"; }
  bool ByRows() const override { return true; }
  void Prepare(Operands<T>& operands) override { operands.PoisonOutputs(); }
  void Run(Operands<T>& operands) override {
    const int m = case_.m, n = case_.n;
    const T one = 1, zero = 0;
    // By columns A's rows are an n x m matrix, and the lower triangle is R's rows.
    Check(Calls<T>::kGemm(blas_, CUBLAS_OP_N, CUBLAS_OP_T, n, n, m, &one, operands.in.data(), n,
                          operands.in.data(), n, &zero, operands.r.data(), n));
    Check(Calls<T>::kPotrf(solver_, CUBLAS_FILL_MODE_LOWER, n, operands.r.data(), n, buffer_.data(),
                           size_, info_.data()));
  }

 private:
  const Case case_;
  cublasHandle_t blas_;
  cusolverDnHandle_t solver_;
  int size_ = 0;
  DeviceArray<T> buffer_;
  DeviceArray<int> info_;
};

}  // namespace

template <class T>
std::vector<std::unique_ptr<Implementation<T>>> Vendors(const Case& c) {
  std::vector<std::unique_ptr<Implementation<T>>> vendors;
  if (c.operation == Operation::kGeqrf)
    vendors.push_back(std::make_unique<CublasGeqrfBatched<T>>(c));
  vendors.push_back(std::make_unique<CusolverLoop<T>>(c));
  if (c.operation == Operation::kR) vendors.push_back(std::make_unique<GramCholesky<T>>(c));
  return vendors;
}
template std::vector<std::unique_ptr<Implementation<float>>> Vendors(const Case&);
template std::vector<std::unique_ptr<Implementation<double>>> Vendors(const Case&);

}  // namespace factord::bench
