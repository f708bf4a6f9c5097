// The operations of qr.h on one group of matrices, a lane each.
#if defined(FACTORD_KERNELS_CPU_MATRIX_GROUP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FACTORD_KERNELS_CPU_MATRIX_GROUP_INL_H_
#undef FACTORD_KERNELS_CPU_MATRIX_GROUP_INL_H_
#else
#define FACTORD_KERNELS_CPU_MATRIX_GROUP_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "hwy/cache_control.h"
#include "kernels/cpu/across_matrices-inl.h"
#include "kernels/cpu/gels-inl.h"
#include "kernels/cpu/lanes_io-inl.h"
#include "kernels/cpu/operands.h"
#include "kernels/cpu/scratch.h"

HWY_BEFORE_NAMESPACE();
namespace factord::kernels::cpu::HWY_NAMESPACE {

template <class T>
class MatrixGroup {
 public:
  static constexpr int kL = kLanes<Real<T>>;

  MatrixGroup(const Problem& problem, const Run<T>& run, Scratch scratch)
      : problem_(problem), run_(run), operands_(problem, run), k_(run.k()) {
    a_ = Block::Take(scratch, run.m, run.n);
    v_ = Block::Take(scratch, run.m, kPanel);
    tau_ = scratch.Take<N>(k_);
    if (problem.op == Op::kFactorize || problem.op == Op::kSolve) power_ = scratch.Take<V>(run.n);
    if (problem.sign != Sign::kLapack) sign_ = scratch.Take<V>(run.m);
    if (problem.q != QMode::kNone) q_ = Block::Take(scratch, run.m, operands_.q.cols);
    if (problem.op == Op::kApplyQ || problem.op == Op::kSolve) {
      c_ = Block::Take(scratch, run.m, run.p);
      c_power_ = scratch.Take<V>(run.p);
    }
    if (problem.op == Op::kSolve) {
      gels_.emplace(run, scratch);
      one_r_ = Rows<T>::Take(scratch, run.n, run.n);
      one_x_ = Rows<T>::Take(scratch, run.n, run.p);
      squares_ = scratch.Take<V>(run.p);
      one_squares_ = scratch.Take<R>(run.p);
      one_power_ = scratch.Take<R>(run.n);
      one_c_power_ = scratch.Take<R>(run.p);
    }
    used_ = scratch.used();
  }
  std::size_t scratch_bytes() const { return used_; }

  // Asks for the matrices of the next group while this one's are at work: those of tiny ones come
  // from memory in an order that the hardware does not foresee. Larger ones only push each other
  // out of the first cache.
  void Prefetch(std::int64_t first, int count) const {
    constexpr std::size_t kLine = 64, kMostBytes = 8 << 10;
    const Dense<const T> a = operands_.a.at(first);
    const std::size_t bytes = static_cast<std::size_t>(a.size() * count) * sizeof(T);
    if (bytes > kMostBytes) return;
    for (std::size_t at = 0; at < bytes; at += kLine) {
      hwy::Prefetch(reinterpret_cast<const std::byte*>(a.data) + at);
    }
  }

  // 1 <= count <= kL.
  void Run(std::int64_t first, int count, std::uint32_t* status) {
    first_ = first;
    count_ = count;
    nonfinite_ = overflow_ = unproven_ = 0;
    switch (problem_.op) {
      case Op::kFactorize:
        Factorize();
        break;
      case Op::kFormQ:
        FormQ();
        break;
      case Op::kApplyQ:
        ApplyQ();
        break;
      case Op::kSolve:
        Solve();
        break;
    }
    for (int l = 0; l < count; ++l) {
      const auto is_clear = [l](std::uint32_t bits) { return (bits >> l & 1) == 0; };
      status[l] = StatusOf(is_clear(nonfinite_), is_clear(unproven_), is_clear(overflow_));
    }
  }

 private:
  using R = Real<T>;
  using D = Full<R>;
  using A = Numbers<T, D>;
  using N = typename A::N;
  using V = typename A::V;
  using Block = LanesBlock<T>;
  using Io = LanesIo<T>;
  using Qr = AcrossMatrices<T>;
  using M = hn::Mask<D>;

  // What Scatter takes: entry (i, j) of every lane's matrix.
  struct Entries {
    Block block;
    HWY_INLINE N operator()(int i, int j) const { return block.Get(i, j); }
  };
  struct UpperTriangle {
    Block block;
    HWY_INLINE N operator()(int i, int j) const { return i > j ? A::Zero() : block.Get(i, j); }
  };
  struct Vector {
    const N* x;
    HWY_INLINE N operator()(int i, int) const { return x[i]; }
  };
  struct SignedColumns {
    Block block;
    const V* sign;
    HWY_INLINE N operator()(int i, int j) const {
      return sign == nullptr ? block.Get(i, j) : A::Times(block.Get(i, j), sign[j]);
    }
  };

  void Factorize() {
    Io::Gather(operands_.a.at(first_), count_, a_);
    nonfinite_ = Io::Nonfinite(Io::Scale(a_, power_));
    Qr::Factor(a_, tau_, v_);
    if (problem_.q != QMode::kNone) Qr::FormQ(a_, tau_, k_, q_, v_);
    if (problem_.sign != Sign::kLapack) ChooseSigns();
    if (problem_.r || problem_.reflectors) {
      overflow_ = Io::Nonfinite(Io::Unscale(a_, power_, /*upper=*/true, sign_));
    }
    Store(UpperTriangle{a_}, operands_.r);
    Store(Entries{a_}, operands_.reflectors);
    Store(Vector{tau_}, operands_.tau_out);
    Store(SignedColumns{q_, sign_}, operands_.q);
  }

  // Of each column of Q and row of R: -1 or +1.
  void ChooseSigns() {
    const V zero = hn::Zero(D()), plus = hn::Set(D(), R(1)), minus = hn::Set(D(), R(-1));
    M negative_determinant = hn::Lt(plus, zero);
    for (int i = 0; i < run_.m; ++i) {
      sign_[i] = plus;
      if (i >= k_) continue;
      const N r = a_.Get(i, i);
      a_.Put(i, i, A::Select(hn::Eq(r.re, zero), A::Zero(), r));  // -0 becomes +0
      const M flips = hn::Lt(r.re, zero);
      sign_[i] = hn::IfThenElse(flips, minus, plus);
      // Each H_i but the identity is a reflection, of determinant -1.
      const auto reflects = hn::RebindMask(D(), hn::Gt(A::Magnitude(tau_[i]), Io::None()));
      negative_determinant = hn::Xor(negative_determinant, hn::Xor(flips, reflects));
    }
    if (problem_.sign == Sign::kSpecialOrthogonal) {
      V& last = sign_[run_.m - 1];
      last = hn::IfThenElse(negative_determinant, hn::Neg(last), last);
    }
  }

  // A NaN or an Inf above V does not count.
  void LoadReflectors() {
    Io::Gather(operands_.a.at(first_), count_, a_);
    Io::Gather(operands_.tau.at(first_), count_, {reinterpret_cast<R*>(tau_), k_, 1, k_});
    auto largest = Io::None();
    for (int j = 0; j < k_; ++j) {
      largest = Io::Larger(largest, A::Magnitude(tau_[j]));
      for (int i = j + 1; i < run_.m; ++i) {
        largest = Io::Larger(largest, A::Magnitude(a_.Get(i, j)));
      }
    }
    nonfinite_ = Io::Nonfinite(largest);
  }

  void FormQ() {
    LoadReflectors();
    Qr::FormQ(a_, tau_, k_, q_, v_);
    overflow_ = Io::Nonfinite(Largest(q_));
    Store(Entries{q_}, operands_.q);
  }
  static auto Largest(Block block) {
    auto largest = Io::None();
    for (int j = 0; j < block.cols; ++j) {
      for (int i = 0; i < block.rows; ++i) {
        largest = Io::Larger(largest, A::Magnitude(block.Get(i, j)));
      }
    }
    return largest;
  }

  void ApplyQ() {
    LoadReflectors();
    Io::Gather(operands_.rhs.at(first_), count_, c_);
    nonfinite_ |= Io::Nonfinite(Io::Scale(c_, c_power_));
    Qr::ApplyQ(a_, tau_, k_, problem_.adjoint != problem_.right, c_, v_);
    overflow_ = Io::Nonfinite(Io::Unscale(c_, c_power_, /*upper=*/false, nullptr));
    Store(Entries{c_}, operands_.result);
  }

  void Solve() {
    Io::Gather(operands_.a.at(first_), count_, a_);
    nonfinite_ = Io::Nonfinite(Io::Scale(a_, power_));
    Io::Gather(operands_.rhs.at(first_), count_, c_);
    nonfinite_ |= Io::Nonfinite(Io::Scale(c_, c_power_));
    Qr::Factor(a_, tau_, v_);
    Qr::ApplyQ(a_, tau_, k_, /*adjoint=*/true, c_, v_);
    SquaresBelow();
    for (int l = 0; l < count_; ++l) SolveOne(l);
  }
  void SquaresBelow() {
    for (int j = 0; j < run_.p; ++j) {
      squares_[j] = hn::Zero(D());
      for (int i = run_.n; i < run_.m;) {
        N sum = A::Zero();
        for (const int end = std::min(run_.m, i + kSquaresRun); i < end; ++i) {
          sum = A::ConjMultiplyAdd(c_.Get(i, j), c_.Get(i, j), sum);
        }
        squares_[j] = hn::Add(squares_[j], sum.re);
      }
    }
  }
  // The end of lane l's problem, by itself.
  void SolveOne(int l) {
    const std::uint32_t bit = std::uint32_t{1} << l;
    const auto x = operands_.result.at(first_ + l);
    const auto residual_norm = operands_.residual_norm.at(first_ + l);
    if ((nonfinite_ & bit) == 0) {
      TakeLane(a_, l, one_r_);
      TakeLane(c_, l, one_x_);
      TakeLane(squares_, l, run_.p, one_squares_);
      TakeLane(power_, l, run_.n, one_power_);
      TakeLane(c_power_, l, run_.p, one_c_power_);
      if (gels_->Solve(one_r_, one_x_)) {
        const bool fits =
            gels_->Store(one_x_, one_squares_, one_power_, one_c_power_, x, residual_norm);
        if (!fits) overflow_ |= bit;
        return;
      }
      unproven_ |= bit;
    }
    FillNan(x);
    FillNan(residual_norm);
  }
  static void TakeLane(Block from, int l, Rows<T> to) {
    for (int i = 0; i < to.rows; ++i) {
      std::fill_n(to.at(i, 0), std::int64_t{to.cols} * A::kParts, R(0));
      for (int j = 0; j < from.cols; ++j) {
        for (int part = 0; part < A::kParts; ++part) {
          *(to.at(i, j) + part * to.plane) = from.at(i, j)[part * kL + l];
        }
      }
    }
  }
  static void TakeLane(const V* from, int l, int count, R* to) {
    for (int i = 0; i < count; ++i) to[i] = reinterpret_cast<const R*>(from + i)[l];
  }

  template <class Source>
  void Store(const Source& source, const Dense<T>& dst) {
    if (dst.data == nullptr) return;
    Io::Scatter(source, dst.at(first_), count_);
    for (int l = 0; l < count_; ++l) {
      if (nonfinite_ >> l & 1) FillNan(dst.at(first_ + l));
    }
  }

  const Problem& problem_;
  const kernels::Run<T>& run_;
  const Operands<T> operands_;
  const int k_;
  Block a_, v_, q_, c_;
  N* tau_ = nullptr;
  V* power_ = nullptr;
  V* c_power_ = nullptr;
  V* sign_ = nullptr;
  // kSolve: one lane's problem.
  std::optional<Gels<T>> gels_;
  Rows<T> one_r_, one_x_;
  V* squares_ = nullptr;
  R* one_squares_ = nullptr;
  R* one_power_ = nullptr;
  R* one_c_power_ = nullptr;
  std::size_t used_ = 0;

  // The group in work.
  std::int64_t first_ = 0;
  int count_ = 0;
  std::uint32_t nonfinite_ = 0, unproven_ = 0, overflow_ = 0;  // bits, a lane each
};

}  // namespace factord::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FACTORD_KERNELS_CPU_MATRIX_GROUP_INL_H_
