// MKL's compact geqrf, a block of matrices at a time that stays in the L2 cache.
#include <algorithm>

#include "bench/cpu/implementation.h"
#include "bench/cpu/workers.h"

namespace factord::bench::cpu {
namespace {

constexpr int kLayout = LAPACK_COL_MAJOR;
constexpr std::int64_t kBlockBytes = 256 << 10;
constexpr std::int64_t kLanes = 16;  // the most that any type and instruction set has

template <class T>
class MklCompactImplementation final : public Implementation<T> {
 public:
  MklCompactImplementation(const Case& c, const Inputs<T>& inputs, const Mkl& mkl, int threads)
      : case_(c),
        lapack_(mkl.lapack),
        calls_(std::get<MklCompactCalls<T>>(mkl.compact)),
        format_(calls_.lanes_format()),
        block_(BlockOf(c)),
        inputs_(inputs),
        a_(Like(inputs.a)),
        tau_(c.count(), c.k(), 1),
        workers_(threads) {
    const auto count = static_cast<lapack_int>(block_);
    const auto buffer = [&](int rows, int cols) {
      return Array<R>(calls_.get_size(rows, cols, format_, count) /
                      static_cast<std::int64_t>(sizeof(R)));
    };
    for (int worker = 0; worker < threads; ++worker) {
      Buffers& buffers = buffers_.emplace_back();
      buffers.a = buffer(c.m, c.n);
      buffers.tau = buffer(c.k(), 1);
      R size;
      lapack_int info;
      calls_.geqrf(kLayout, c.m, c.n, buffers.a.data(), c.m, buffers.tau.data(), &size, -1, &info,
                   format_, count);
      buffers.work = Array<R>(static_cast<std::int64_t>(size));
    }
    for (std::int64_t i = 0; i < c.count(); ++i) {
      a_pointers_.push_back(a_[i]);
      tau_pointers_.push_back(tau_[i]);
    }
  }

  std::string name() const override { return "MKL compact"; }

  void Prepare() override {
    lapack_.set_threads(1);
    Copy(inputs_.a, a_);
  }

  void Run() override {
    workers_.Split(case_.count(), block_, [&](int worker, std::int64_t first, std::int64_t last) {
      for (; first < last; first += block_)
        RunBlock(buffers_[worker], first, static_cast<lapack_int>(std::min(block_, last - first)));
    });
  }

  std::vector<const Matrices<T>*> Results() const override { return {&a_, &tau_}; }

 private:
  using R = kernels::Real<T>;
  struct Buffers {
    Array<R> a, tau, work;
  };

  static std::int64_t BlockOf(const Case& c) {
    const std::int64_t bytes = std::int64_t{c.m} * c.n * sizeof(T);
    return std::max<std::int64_t>(kBlockBytes / bytes / kLanes, 1) * kLanes;
  }

  void RunBlock(Buffers& buffers, std::int64_t first, lapack_int count) {
    const int m = case_.m, n = case_.n, k = case_.k();
    R *const a = buffers.a.data(), *const tau = buffers.tau.data();
    lapack_int info;
    calls_.pack(kLayout, m, n, &a_pointers_[first], m, a, m, format_, count);
    calls_.geqrf(kLayout, m, n, a, m, tau, buffers.work.data(),
                 static_cast<lapack_int>(buffers.work.size()), &info, format_, count);
    calls_.unpack(kLayout, m, n, &a_pointers_[first], m, a, m, format_, count);
    calls_.unpack(kLayout, k, 1, &tau_pointers_[first], k, tau, k, format_, count);
  }

  const Case case_;
  const Lapack& lapack_;
  const MklCompactCalls<T>& calls_;
  const int format_;
  const std::int64_t block_;
  const Inputs<T>& inputs_;
  Matrices<T> a_, tau_;
  std::vector<T*> a_pointers_, tau_pointers_;
  std::vector<Buffers> buffers_;
  Workers workers_;
};

}  // namespace

template <class T>
std::unique_ptr<Implementation<T>> MklCompact(const Case& c, const Inputs<T>& inputs,
                                              const Mkl& mkl, int threads) {
  return std::make_unique<MklCompactImplementation<T>>(c, inputs, mkl, threads);
}

#define FACTORD_INSTANTIATE(T)                                                          \
  template std::unique_ptr<Implementation<T>> MklCompact(const Case&, const Inputs<T>&, \
                                                         const Mkl&, int);
FACTORD_INSTANTIATE(float)
FACTORD_INSTANTIATE(double)
FACTORD_INSTANTIATE(std::complex<float>)
FACTORD_INSTANTIATE(std::complex<double>)
#undef FACTORD_INSTANTIATE

}  // namespace factord::bench::cpu
