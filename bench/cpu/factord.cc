// Ours, in place where LAPACK's calls are.
#include "bench/cpu/implementation.h"
#include "bench/cpu/workers.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/qr.h"
#include "kernels/cpu/tiles.h"

namespace factord::bench::cpu {
namespace {

kernels::Problem ProblemOf(const Case& c, bool column_major) {
  kernels::Problem problem;
  problem.m = c.m;
  problem.n = c.n;
  problem.column_major = problem.rhs_column_major = column_major;
  switch (c.operation) {
    case Operation::kGeqrf:
      problem.reflectors = true;
      break;
    case Operation::kOrgqr:
      problem.op = kernels::Op::kFormQ;
      problem.q = kernels::QMode::kReduced;
      break;
    case Operation::kOrmqr:
      problem.op = kernels::Op::kApplyQ;
      problem.adjoint = true;
      problem.p = c.n;
      break;
    case Operation::kQr:
      problem.q = kernels::QMode::kReduced;
      problem.r = true;
      break;
  }
  return problem;
}

template <class T>
class RunQrImplementation final : public Implementation<T> {
 public:
  RunQrImplementation(const Case& c, const Inputs<T>& inputs, int threads)
      : case_(c),
        problem_(ProblemOf(c, inputs.a.column_major)),
        inputs_(inputs),
        a_(Like(inputs.a)),
        tau_in_(Like(inputs.tau)),
        c_(Like(inputs.c)),
        q_(InPlace(c) == nullptr ? c.count() : 0, c.m, c.k(), inputs.a.column_major),
        tau_(c.operation == Operation::kGeqrf ? c.count() : 0, c.k(), 1),
        r_(c.operation == Operation::kQr ? c.count() : 0, c.k(), c.n, inputs.a.column_major),
        status_(static_cast<std::size_t>(c.count())),
        workers_(threads) {
    run_.m = c.m;
    run_.n = c.n;
    run_.p = problem_.p;
    run_.a = a_.values.data();
    run_.tau_in = tau_in_.values.data();
    run_.rhs = c_.values.data();
    run_.tau = tau_.values.data();
    run_.r = r_.values.data();
    T*& out = FormsQ(c) ? run_.q : c.operation == Operation::kGeqrf ? run_.reflectors : run_.result;
    out = Output().values.data();
    for (int worker = 0; worker < threads; ++worker)
      scratch_.emplace_back(static_cast<std::int64_t>(kernels::cpu::ScratchBytes(problem_, run_)));
  }

  std::string name() const override {
    std::string name = "factord";
    if (!problem_.column_major) name += " row-major";
    if (workers_.threads() < case_.threads) name += " 1 thread";
    return name;
  }

  void Prepare() override {
    Copy(inputs_.a, a_);
    Copy(inputs_.tau, tau_in_);
    Copy(inputs_.c, c_);
  }

  void Run() override {
    if (case_.alone) {
      for (std::int64_t i = 0; i < case_.count(); ++i) RunAlone(i);
      return;
    }
    workers_.Split(case_.count(), kernels::cpu::Lanes<T>(),
                   [&](int worker, std::int64_t first, std::int64_t last) {
                     kernels::cpu::RunQr(problem_, run_, first, last - first, &status_[first],
                                         scratch_[worker].data());
                   });
  }

  std::vector<const Matrices<T>*> Results() const override {
    switch (case_.operation) {
      case Operation::kGeqrf:
        return {&Output(), &tau_};
      case Operation::kQr:
        return {&Output(), &r_};
      default:
        return {&Output()};
    }
  }

 private:
  static bool FormsQ(const Case& c) {
    return c.operation == Operation::kOrgqr || c.operation == Operation::kQr;
  }

  // What the result takes the place of, as LAPACK's does; null where it has its own.
  static Matrices<T> RunQrImplementation::*InPlace(const Case& c) {
    if (c.operation == Operation::kOrmqr) return &RunQrImplementation::c_;
    const bool fits =
        c.operation == Operation::kGeqrf || (c.operation == Operation::kOrgqr && c.k() == c.n);
    return fits ? &RunQrImplementation::a_ : nullptr;
  }
  const Matrices<T>& Output() const {
    const auto place = InPlace(case_);
    return place == nullptr ? q_ : this->*place;
  }

  void RunAlone(std::int64_t i) {
    std::byte* const scratch = scratch_[0].data();
    if (workers_.threads() == 1) {
      kernels::cpu::RunQr(problem_, run_, i, 1, &status_[i], scratch);
      return;
    }
    kernels::cpu::Tiles tiles;
    workers_.Run([&](int worker) {
      if (worker != 0) return tiles.Help();
      kernels::cpu::RunQrTogether(problem_, run_, i, &status_[i], scratch, tiles);
      tiles.Close();
    });
  }

  const Case case_;
  const kernels::Problem problem_;
  const Inputs<T>& inputs_;
  Matrices<T> a_, tau_in_, c_, q_, tau_, r_;
  std::vector<std::uint32_t> status_;
  std::vector<Array<std::byte>> scratch_;
  kernels::Run<T> run_;
  Workers workers_;
};

}  // namespace

template <class T>
std::unique_ptr<Implementation<T>> Factord(const Case& c, const Inputs<T>& inputs, int threads) {
  return std::make_unique<RunQrImplementation<T>>(c, inputs, threads);
}

#define FACTORD_INSTANTIATE(T) \
  template std::unique_ptr<Implementation<T>> Factord(const Case&, const Inputs<T>&, int);
FACTORD_INSTANTIATE(float)
FACTORD_INSTANTIATE(double)
FACTORD_INSTANTIATE(std::complex<float>)
FACTORD_INSTANTIATE(std::complex<double>)
#undef FACTORD_INSTANTIATE

}  // namespace factord::bench::cpu
