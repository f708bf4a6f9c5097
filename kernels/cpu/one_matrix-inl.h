// The operations of qr.h on one matrix, by one thread or by several. Way: AcrossColumns or
// AcrossRows; which one is a matter of the shape.
#if defined(FACTORD_KERNELS_CPU_ONE_MATRIX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FACTORD_KERNELS_CPU_ONE_MATRIX_INL_H_
#undef FACTORD_KERNELS_CPU_ONE_MATRIX_INL_H_
#else
#define FACTORD_KERNELS_CPU_ONE_MATRIX_INL_H_
#endif

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "kernels/cpu/across_columns-inl.h"
#include "kernels/cpu/gels-inl.h"
#include "kernels/cpu/operands.h"
#include "kernels/cpu/rows_io-inl.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/tiles.h"

HWY_BEFORE_NAMESPACE();
namespace factord::kernels::cpu::HWY_NAMESPACE {

template <class T, template <class> class Way>
class OneMatrix {
 public:
  // `tiles` may be null.
  OneMatrix(const Problem& problem, const Run<T>& run, Scratch scratch, Tiles* tiles)
      : problem_(problem),
        run_(run),
        operands_(problem, run),
        k_(run.k()),
        block_panels_(BlockPanels(run, tiles != nullptr)),
        tiles_(tiles) {
    a_ = Qr::Take(scratch, run.m, run.n);
    tau_ = scratch.Take<R>(std::int64_t{k_} * kParts);
    for (Panel*& panels : panels_) {
      panels = scratch.Take<Panel>(block_panels_);
      for (int p = 0; p < block_panels_; ++p) {
        Qr::TakePanel(scratch, run.m, scratch.counts_only() ? nullptr : &panels[p]);
      }
    }
    if (problem.op == Op::kFactorize || problem.op == Op::kSolve)
      power_ = scratch.Take<R>(Rows<T>::Padded(run.n));
    if (problem.sign != Sign::kLapack) sign_ = scratch.Take<R>(Rows<T>::Padded(run.m));
    if (problem.q != QMode::kNone) q_ = Qr::Take(scratch, run.m, operands_.q.cols);
    if (problem.op == Op::kApplyQ || problem.op == Op::kSolve) {
      c_ = Qr::Take(scratch, run.m, run.p);
      c_power_ = scratch.Take<R>(Rows<T>::Padded(run.p));
    }
    if (problem.op == Op::kSolve) {
      gels_.emplace(run, scratch);
      r_ = Rows<T>::Take(scratch, run.n, run.n);
      x_ = Rows<T>::Take(scratch, run.n, run.p);
      squares_ = scratch.Take<R>(run.p);
    }
    used_ = scratch.used();
  }
  std::size_t scratch_bytes() const { return used_; }

  void Run(std::int64_t i, std::uint32_t* status) {
    index_ = i;
    finite_ = fits_ = proven_ = true;
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
    *status = StatusOf(finite_, proven_, fits_);
  }

 private:
  using R = Real<T>;
  using Qr = Way<T>;
  using Held = typename Qr::Held;
  using Panel = typename Qr::Panel;
  static constexpr int kParts = Rows<T>::kParts;
  static constexpr int kCopyColumns = Qr::kCopyColumns;

  // A block's strips should find their columns in the cache: from this size on, a matrix does not
  // fit there itself. Threads that share one want few and long loops.
  static int BlockPanels(const kernels::Run<T>& run, bool shared) {
    constexpr std::int64_t kCacheBytes = std::int64_t{2} << 20;
    const std::int64_t bytes = std::int64_t{run.m} * std::max(run.n, run.p) * sizeof(T);
    return bytes <= kCacheBytes && !shared ? 1 : 4;
  }
  int block_columns() const { return block_panels_ * kPanel; }

  // body(c0, c1) for tiles that cover columns [begin, end), the first perhaps narrower than the
  // others; in another thread perhaps, until Finish.
  template <class Body>
  struct Loop {
    const Body& body;
    int begin, end, width;
    int count() const { return (end - begin + width - 1) / width; }
    void operator()(std::int64_t tile) const {
      const int c1 = end - static_cast<int>(count() - 1 - tile) * width;
      body(std::max(begin, c1 - width), c1);
    }
    static void Call(void* loop, std::int64_t tile) { (*static_cast<Loop*>(loop))(tile); }
  };
  template <class Body, class Meanwhile>
  void ForTiles(int begin, int end, int width, const Body& body, const Meanwhile& meanwhile) {
    Loop<Body> loop{body, begin, end, width};
    if (tiles_ == nullptr) {
      if (begin < end) body(begin, end);
      meanwhile();
      return;
    }
    tiles_->Open(loop.count(), &Loop<Body>::Call, &loop);
    meanwhile();
    tiles_->Finish();
  }
  template <class Body>
  void ForTiles(int begin, int end, int width, const Body& body) {
    ForTiles(begin, end, width, body, [] {});
  }

  void Factorize() {
    LoadScaled(operands_.a, a_, power_);
    if (!finite_) {
      StoreNan(operands_.q);
      StoreNan(operands_.r);
      StoreNan(operands_.reflectors);
      StoreNan(operands_.tau_out);
      return;
    }
    Factor();
    if (problem_.q != QMode::kNone) FormQFromPanels();
    if (problem_.sign != Sign::kLapack) ChooseSigns();
    if (problem_.r || problem_.reflectors) {
      std::atomic<bool> fits{true};
      ForTiles(0, Qr::Columns(a_, run_.n), kCopyColumns, [&](int c0, int c1) {
        if (!Qr::Unscale(a_, c0, c1, power_, /*upper=*/true, sign_)) fits = false;
        if (operands_.r.data != nullptr) {
          Qr::Store(a_, operands_.r.at(index_), c0, c1, /*upper=*/true);
        }
        if (operands_.reflectors.data != nullptr) {
          Qr::Store(a_, operands_.reflectors.at(index_), c0, c1, /*upper=*/false);
        }
      });
      fits_ = fits;
    }
    if (operands_.tau_out.data != nullptr) StoreTau();
    if (problem_.q != QMode::kNone) StoreQ();
  }

  void LoadScaled(const Dense<const T>& operand, Held held, R* power) {
    const Dense<const T> src = operand.at(index_);
    std::atomic<bool> finite{finite_};
    ForTiles(0, Qr::Columns(held, src.cols), kCopyColumns, [&](int c0, int c1) {
      Qr::Load(src, held, c0, c1);
      if (!Qr::Scale(held, c0, c1, power)) finite = false;
    });
    finite_ = finite;
  }

  // geqrf. While others update what lies right of the next block, the caller factors that.
  void Factor() {
    const int columns = Qr::Columns(a_, run_.n);
    int set = 0;
    FactorBlock(0, set);
    for (int j = 0; j < k_; j += block_columns(), set = 1 - set) {
      const Panel* panels = panels_[set];
      const int count = PanelsOf(j), begin = j + count * kPanel;
      if (begin >= run_.n) return;
      const bool last = begin >= k_;
      const int next =
          last || tiles_ == nullptr ? begin : std::min(begin + block_columns(), columns);
      ForTiles(
          next, columns, Qr::kStripColumns,
          [&](int c0, int c1) { Qr::template Apply<true>(panels, count, a_, j, c0, c1); },
          [&] {
            if (next > begin) Qr::template Apply<true>(panels, count, a_, j, begin, next);
            if (!last) FactorBlock(begin, 1 - set);
          });
    }
  }
  void FactorBlock(int j, int set) {
    if (j < k_) Qr::FactorBlock(a_, run_.n, j, PanelsOf(j), k_, panels_[set], tau_);
  }
  // Of the block that begins in column j.
  int PanelsOf(int j) const { return std::min(block_panels_, (k_ - j + kPanel - 1) / kPanel); }

  // orgqr.
  void FormQFromPanels() {
    Qr::SetIdentity(q_, operands_.q.cols);
    ApplyBlocks<false>(q_, operands_.q.cols, /*identity=*/true);
  }

  // All blocks of reflectors on the columns of c; the next block is made ready meanwhile. If c is
  // the identity, then in the rows that a block acts on columns left of it are still zero, its own
  // still the identity's.
  template <bool kAdjoint>
  void ApplyBlocks(Held c, int cols, bool identity) {
    if (k_ == 0) return;
    const int columns = Qr::Columns(c, cols);
    const int last = (k_ - 1) / block_columns() * block_columns();
    const int step = kAdjoint ? block_columns() : -block_columns();
    int set = 0;
    LoadBlock(kAdjoint ? 0 : last, set);
    for (int j = kAdjoint ? 0 : last; j >= 0 && j < k_; j += step, set = 1 - set) {
      const Panel* panels = panels_[set];
      const int count = PanelsOf(j);
      ForTiles(
          identity ? std::min(j + count * kPanel, columns) : 0, columns, Qr::kStripColumns,
          [&](int c0, int c1) { Qr::template Apply<kAdjoint>(panels, count, c, j, c0, c1); },
          [&] {
            if (identity) Qr::ApplyBlockToIdentity(panels, count, c, cols, j);
            LoadBlock(j + step, 1 - set);
          });
    }
  }
  void LoadBlock(int j, int set) {
    if (j >= 0 && j < k_) Qr::LoadBlock(a_, j, PanelsOf(j), k_, panels_[set], tau_);
  }

  // Of each column of Q and row of R: -1 or +1.
  void ChooseSigns() {
    bool negative_determinant = false;
    std::fill_n(sign_, Rows<T>::Padded(run_.m), R(1));
    for (int i = 0; i < k_; ++i) {
      R* const r = Qr::Entry(a_, i, i);
      if (*r == R(0)) *r = R(0);  // -0 becomes +0
      const bool flips = *r < R(0);
      if (flips) sign_[i] = R(-1);
      // Each H_i but the identity is a reflection, of determinant -1.
      const bool reflects = tau_[i] != R(0) || (kParts == 2 && tau_[(kParts - 1) * k_ + i] != R(0));
      negative_determinant ^= flips ^ reflects;
    }
    if (problem_.sign == Sign::kSpecialOrthogonal && negative_determinant) {
      sign_[run_.m - 1] = -sign_[run_.m - 1];
    }
  }

  void StoreTau() {
    auto* const tau = reinterpret_cast<R*>(operands_.tau_out.at(index_).data);
    for (int i = 0; i < k_; ++i) {
      for (int part = 0; part < kParts; ++part) tau[i * kParts + part] = tau_[part * k_ + i];
    }
  }

  // False in finite_: a NaN or an Inf in tau or in V. What stands on and above the diagonal does
  // not count.
  void LoadReflectors() {
    const auto* const tau = reinterpret_cast<const R*>(operands_.tau.at(index_).data);
    for (int i = 0; i < k_; ++i) {
      for (int part = 0; part < kParts; ++part) {
        tau_[part * k_ + i] = tau[i * kParts + part];
        if (!std::isfinite(tau[i * kParts + part])) finite_ = false;
      }
    }
    const Dense<const T> src = operands_.a.at(index_);
    std::atomic<bool> finite{finite_};
    ForTiles(0, VColumns(), kCopyColumns, [&](int c0, int c1) {
      Qr::Load(src, a_, c0, c1);
      Qr::KeepBelowDiagonal(a_, c0, c1);
      if (!Qr::IsFinite(a_, c0, c1)) finite = false;
    });
    finite_ = finite;
  }

  int VColumns() const { return std::min(Qr::Columns(a_, run_.n), Rows<T>::Padded(k_)); }

  void FormQ() {
    LoadReflectors();
    if (!finite_) return StoreNan(operands_.q);
    FormQFromPanels();
    std::atomic<bool> fits{true};
    ForTiles(0, Qr::Columns(q_, operands_.q.cols), kCopyColumns, [&](int c0, int c1) {
      if (!Qr::IsFinite(q_, c0, c1)) fits = false;
    });
    fits_ = fits;
    StoreQ();
  }
  void StoreQ() {
    const Dense<T> dst = operands_.q.at(index_);
    ForTiles(0, Qr::Columns(q_, operands_.q.cols), kCopyColumns, [&](int c0, int c1) {
      if (sign_ != nullptr) Qr::SignColumns(q_, c0, c1, sign_);
      Qr::Store(q_, dst, c0, c1, /*upper=*/false);
    });
  }

  void ApplyQ() {
    LoadReflectors();
    if (finite_) LoadScaled(operands_.rhs, c_, c_power_);
    if (!finite_) return StoreNan(operands_.result);
    if (problem_.adjoint != problem_.right) {
      ApplyBlocks<true>(c_, run_.p, /*identity=*/false);
    } else {
      ApplyBlocks<false>(c_, run_.p, /*identity=*/false);
    }
    const Dense<T> dst = operands_.result.at(index_);
    std::atomic<bool> fits{true};
    ForTiles(0, Qr::Columns(c_, run_.p), kCopyColumns, [&](int c0, int c1) {
      if (!Qr::Unscale(c_, c0, c1, c_power_, /*upper=*/false, nullptr)) fits = false;
      Qr::Store(c_, dst, c0, c1, /*upper=*/false);
    });
    fits_ = fits;
  }

  void Solve() {
    LoadScaled(operands_.a, a_, power_);
    LoadScaled(operands_.rhs, c_, c_power_);
    if (finite_) {
      Factor();
      ApplyBlocks<true>(c_, run_.p, /*identity=*/false);
      x_ = Qr::ByRows(c_, x_);
      proven_ = gels_->Solve(Qr::ByRows(a_, r_), x_);
    }
    if (!finite_ || !proven_) {
      StoreNan(operands_.result);
      StoreNan(operands_.residual_norm);
      return;
    }
    Qr::SquaresBelow(c_, run_.n, run_.p, squares_);
    fits_ = gels_->Store(x_, squares_, power_, c_power_, operands_.result.at(index_),
                         operands_.residual_norm.at(index_));
  }

  template <class U>
  void StoreNan(const Dense<U>& dst) {
    if (dst.data != nullptr) FillNan(dst.at(index_));
  }

  const Problem& problem_;
  const kernels::Run<T>& run_;
  const Operands<T> operands_;
  const int k_;
  const int block_panels_;
  Tiles* const tiles_;
  Held a_, q_, c_;
  R* tau_ = nullptr;  // real parts, then imaginary ones
  // Two sets, for the block in use and the next.
  Panel* panels_[2] = {nullptr, nullptr};
  R* power_ = nullptr;
  R* c_power_ = nullptr;
  R* sign_ = nullptr;
  std::optional<Gels<T>> gels_;
  Rows<T> r_, x_;
  R* squares_ = nullptr;
  std::size_t used_ = 0;

  // The matrix in work.
  std::int64_t index_ = 0;
  bool finite_ = true;
  bool fits_ = true;
  bool proven_ = true;
};

}  // namespace factord::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FACTORD_KERNELS_CPU_ONE_MATRIX_INL_H_
