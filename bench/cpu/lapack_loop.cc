// A loop of LAPACKE's calls over the matrices. They work in place: the input is copied beforehand,
// untimed.
#include <algorithm>

#include "bench/cpu/implementation.h"
#include "bench/cpu/workers.h"

namespace factord::bench::cpu {
namespace {

constexpr int kLayout = LAPACK_COL_MAJOR;

template <class T>
constexpr char kAdjoint = 'C';
template <>
constexpr char kAdjoint<float> = 'T';
template <>
constexpr char kAdjoint<double> = 'T';

// Of one matrix, with workspace of the size that the library asks for.
template <class T>
class Calls {
 public:
  Calls(const LapackCalls<T>& calls, int m, int n)
      : calls_(calls), m_(m), n_(n), k_(std::min(m, n)) {
    T geqrf, orgqr, ormqr, none{};
    calls_.geqrf(kLayout, m_, n_, &none, m_, &none, &geqrf, -1);
    calls_.orgqr(kLayout, m_, k_, k_, &none, m_, &none, &orgqr, -1);
    calls_.ormqr(kLayout, 'L', kAdjoint<T>, m_, n_, k_, &none, m_, &none, &none, m_, &ormqr, -1);
    size_ = static_cast<int>(std::max({std::real(geqrf), std::real(orgqr), std::real(ormqr)}));
    work_ = Array<T>(size_);
  }

  void Geqrf(T* a, T* tau) { calls_.geqrf(kLayout, m_, n_, a, m_, tau, work_.data(), size_); }
  void Orgqr(T* a, const T* tau) {
    calls_.orgqr(kLayout, m_, k_, k_, a, m_, tau, work_.data(), size_);
  }
  void Ormqr(const T* a, const T* tau, T* c) {
    calls_.ormqr(kLayout, 'L', kAdjoint<T>, m_, n_, k_, a, m_, tau, c, m_, work_.data(), size_);
  }

 private:
  const LapackCalls<T>& calls_;
  const int m_, n_, k_;
  int size_;
  Array<T> work_;
};

// r (k x n): the upper triangle of a (m x n), above zeros.
template <class T>
void CopyR(const T* a, int m, int n, T* r) {
  const int k = std::min(m, n);
  for (int j = 0; j < n; ++j) {
    const int rows = std::min(j + 1, k);
    T* const end = std::copy_n(a + std::int64_t{j} * m, rows, r + std::int64_t{j} * k);
    std::fill_n(end, k - rows, T{});
  }
}

template <class T>
class LapackLoopImplementation final : public Implementation<T> {
 public:
  LapackLoopImplementation(const Case& c, const Inputs<T>& inputs, const Lapack& lapack,
                           int threads)
      : case_(c),
        lapack_(lapack),
        inputs_(inputs),
        threads_(threads),
        a_(Like(inputs.a)),
        tau_(c.count(), c.k(), 1),
        c_(Like(inputs.c)),
        r_(c.operation == Operation::kQr ? c.count() : 0, c.k(), c.n),
        workers_(c.alone ? 1 : threads) {
    for (int worker = 0; worker < workers_.threads(); ++worker)
      calls_.emplace_back(lapack.Calls<T>(), c.m, c.n);
  }

  std::string name() const override {
    return lapack_.name + (threads_ < case_.threads ? " 1 thread" : "");
  }

  void Prepare() override {
    lapack_.set_threads(case_.alone ? threads_ : 1);
    Copy(inputs_.a, a_);
    Copy(inputs_.c, c_);
    if (inputs_.tau.count > 0) Copy(inputs_.tau, tau_);
  }

  void Run() override {
    workers_.Split(case_.count(), 1, [&](int worker, std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) RunOne(calls_[worker], i);
    });
  }

  std::vector<const Matrices<T>*> Results() const override {
    switch (case_.operation) {
      case Operation::kGeqrf:
        return {&a_, &tau_};
      case Operation::kOrgqr:
        return {&a_};
      case Operation::kOrmqr:
        return {&c_};
      case Operation::kQr:
        break;
    }
    return {&a_, &r_};  // Q: the first k columns
  }

 private:
  void RunOne(Calls<T>& calls, std::int64_t i) {
    switch (case_.operation) {
      case Operation::kGeqrf:
        return calls.Geqrf(a_[i], tau_[i]);
      case Operation::kOrgqr:
        return calls.Orgqr(a_[i], tau_[i]);
      case Operation::kOrmqr:
        return calls.Ormqr(a_[i], tau_[i], c_[i]);
      case Operation::kQr:
        break;
    }
    calls.Geqrf(a_[i], tau_[i]);
    CopyR(a_[i], case_.m, case_.n, r_[i]);
    calls.Orgqr(a_[i], tau_[i]);
  }

  const Case case_;
  const Lapack& lapack_;
  const Inputs<T>& inputs_;
  const int threads_;
  Matrices<T> a_, tau_, c_, r_;
  std::vector<Calls<T>> calls_;
  Workers workers_;
};

}  // namespace

template <class T>
std::unique_ptr<Implementation<T>> LapackLoop(const Case& c, const Inputs<T>& inputs,
                                              const Lapack& lapack, int threads) {
  return std::make_unique<LapackLoopImplementation<T>>(c, inputs, lapack, threads);
}

template <class T>
Inputs<T> InputsOf(const Case& c, const Lapack& lapack) {
  Inputs<T> inputs;
  inputs.a = RandomMatrices<T>(c.count(), c.m, c.n);
  if (c.operation == Operation::kGeqrf || c.operation == Operation::kQr) return inputs;
  if (c.operation == Operation::kOrmqr) {
    inputs.c = Like(inputs.a);
    Copy(inputs.a, inputs.c);
  }
  inputs.tau = Matrices<T>(c.count(), c.k(), 1);
  lapack.set_threads(1);
  Calls<T> calls(lapack.Calls<T>(), c.m, c.n);
  for (std::int64_t i = 0; i < c.count(); ++i) calls.Geqrf(inputs.a[i], inputs.tau[i]);
  return inputs;
}

#define FACTORD_INSTANTIATE(T)                                                          \
  template std::unique_ptr<Implementation<T>> LapackLoop(const Case&, const Inputs<T>&, \
                                                         const Lapack&, int);           \
  template Inputs<T> InputsOf(const Case&, const Lapack&);
FACTORD_INSTANTIATE(float)
FACTORD_INSTANTIATE(double)
FACTORD_INSTANTIATE(std::complex<float>)
FACTORD_INSTANTIATE(std::complex<double>)
#undef FACTORD_INSTANTIATE

}  // namespace factord::bench::cpu
