// The operations of qr.h on one matrix held by rows, by one thread or by several.
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

template <class T>
class OneMatrix {
 public:
  // `tiles` may be null.
  OneMatrix(const Problem& problem, const Run<T>& run, Scratch scratch, Tiles* tiles)
      : problem_(problem),
        run_(run),
        operands_(problem, run),
        k_(run.k()),
        block_panels_(BlockPanels(run)),
        tiles_(tiles) {
    a_ = Rows<T>::Take(scratch, run.m, run.n);
    tau_ = scratch.Take<R>(std::int64_t{k_} * kParts);
    for (Panel*& panels : panels_) {
      panels = scratch.Take<Panel>(block_panels_);
      for (int p = 0; p < block_panels_; ++p) {
        R* const v = scratch.Take<R>(std::int64_t{run.m} * Qr::kRow);
        if (scratch.counts_only()) continue;
        panels[p].v = v;
      }
    }
    if (problem.op == Op::kFactorize || problem.op == Op::kSolve) power_ = scratch.Take<R>(a_.cols);
    if (problem.sign != Sign::kLapack) sign_ = scratch.Take<R>(Rows<T>::Padded(run.m));
    if (problem.q != QMode::kNone) q_ = Rows<T>::Take(scratch, run.m, operands_.q.cols);
    if (problem.op == Op::kApplyQ || problem.op == Op::kSolve) {
      c_ = Rows<T>::Take(scratch, run.m, run.p);
      c_power_ = scratch.Take<R>(c_.cols);
    }
    if (problem.op == Op::kSolve) gels_.emplace(run, scratch);
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
  using Io = RowsIo<T>;
  using Part = typename Io::Part;
  using Qr = AcrossColumns<T>;
  using Panel = typename Qr::Panel;
  static constexpr int kParts = Rows<T>::kParts;
  // Columns that a thread loads or stores at a time.
  static constexpr int kCopyColumns = std::max(kLanes<R>, 64);

  // A block's strips should find their columns in the cache: from this size on, a matrix does not
  // fit there itself.
  static int BlockPanels(const kernels::Run<T>& run) {
    constexpr std::int64_t kCacheBytes = std::int64_t{2} << 20;
    const std::int64_t bytes = std::int64_t{run.m} * std::max(run.n, run.p) * sizeof(T);
    return bytes <= kCacheBytes ? 1 : 4;
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
      ForTiles(0, a_.cols, kCopyColumns, [&](int c0, int c1) {
        if (!Io::Unscale(a_, c0, c1, power_, /*upper=*/true, sign_)) fits = false;
        if (operands_.r.data != nullptr) {
          Io::template Store<Part::kUpper>(a_, operands_.r.at(index_), c0, c1);
        }
        if (operands_.reflectors.data != nullptr) {
          Io::template Store<Part::kAll>(a_, operands_.reflectors.at(index_), c0, c1);
        }
      });
      fits_ = fits;
    }
    if (operands_.tau_out.data != nullptr) StoreTau();
    if (problem_.q != QMode::kNone) StoreQ();
  }

  void LoadScaled(const Dense<const T>& operand, Rows<T> rows, R* power) {
    const Dense<const T> src = operand.at(index_);
    std::atomic<bool> finite{finite_};
    ForTiles(0, rows.cols, kCopyColumns, [&](int c0, int c1) {
      Io::Load(src, rows, c0, c1);
      if (!Io::Scale(rows, c0, c1, power)) finite = false;
    });
    finite_ = finite;
  }

  // geqrf. While others update what lies right of the next block, the caller factors that.
  void Factor() {
    int set = 0;
    FactorBlock(0, set);
    for (int j = 0; j < k_; j += block_columns(), set = 1 - set) {
      const int begin = j + block_columns();
      if (begin >= run_.n) return;
      const Panel* panels = panels_[set];
      const int count = PanelsOf(j);
      const bool last = begin >= k_;
      const int next =
          last || tiles_ == nullptr ? begin : std::min(begin + block_columns(), a_.cols);
      ForTiles(
          next, a_.cols, Qr::kStripColumns,
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
    for (int i = 0; i < q_.rows; ++i) {
      std::fill_n(q_.at(i, 0), std::int64_t{q_.cols} * kParts, R(0));
      if (i < operands_.q.cols) *q_.at(i, i) = R(1);
    }
    ApplyBlocks<false>(q_, /*identity=*/true);
  }

  // All blocks of reflectors on the columns of c; the next block is made ready meanwhile. If c is
  // the identity, then in the rows that a block acts on columns left of it are still zero, its own
  // still the identity's.
  template <bool kAdjoint>
  void ApplyBlocks(Rows<T> c, bool identity) {
    if (k_ == 0) return;
    const int last = (k_ - 1) / block_columns() * block_columns();
    const int step = kAdjoint ? block_columns() : -block_columns();
    int set = 0;
    LoadBlock(kAdjoint ? 0 : last, set);
    for (int j = kAdjoint ? 0 : last; j >= 0 && j < k_; j += step, set = 1 - set) {
      const Panel* panels = panels_[set];
      const int count = PanelsOf(j);
      ForTiles(
          identity ? std::min(j + count * kPanel, c.cols) : 0, c.cols, Qr::kStripColumns,
          [&](int c0, int c1) { Qr::template Apply<kAdjoint>(panels, count, c, j, c0, c1); },
          [&] {
            if (identity) Qr::ApplyBlockToIdentity(panels, count, c, j);
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
      R* const r = a_.at(i, i);
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
    ForTiles(0, Rows<T>::Padded(k_), kCopyColumns, [&](int c0, int c1) {
      Io::Load(src, a_, c0, c1);
      Io::KeepBelowDiagonal(a_, c0, c1);
      for (int c = c0; c < c1; c += kLanes<R>) {
        if (!Io::IsFinite(Io::Largest(a_, c, 0))) finite = false;
      }
    });
    finite_ = finite;
  }

  void FormQ() {
    LoadReflectors();
    if (!finite_) return StoreNan(operands_.q);
    FormQFromPanels();
    std::atomic<bool> fits{true};
    ForTiles(0, q_.cols, kCopyColumns, [&](int c0, int c1) {
      for (int c = c0; c < c1; c += kLanes<R>) {
        if (!Io::IsFinite(Io::Largest(q_, c, 0))) fits = false;
      }
    });
    fits_ = fits;
    StoreQ();
  }
  void StoreQ() {
    const Dense<T> dst = operands_.q.at(index_);
    ForTiles(0, q_.cols, kCopyColumns, [&](int c0, int c1) {
      if (sign_ != nullptr) Io::SignColumns(q_, c0, c1, sign_);
      Io::template Store<Part::kAll>(q_, dst, c0, c1);
    });
  }

  void ApplyQ() {
    LoadReflectors();
    if (finite_) LoadScaled(operands_.rhs, c_, c_power_);
    if (!finite_) return StoreNan(operands_.result);
    if (problem_.adjoint != problem_.right) {
      ApplyBlocks<true>(c_, /*identity=*/false);
    } else {
      ApplyBlocks<false>(c_, /*identity=*/false);
    }
    const Dense<T> dst = operands_.result.at(index_);
    std::atomic<bool> fits{true};
    ForTiles(0, c_.cols, kCopyColumns, [&](int c0, int c1) {
      if (!Io::Unscale(c_, c0, c1, c_power_, /*upper=*/false, nullptr)) fits = false;
      Io::template Store<Part::kAll>(c_, dst, c0, c1);
    });
    fits_ = fits;
  }

  void Solve() {
    LoadScaled(operands_.a, a_, power_);
    LoadScaled(operands_.rhs, c_, c_power_);
    if (finite_) {
      Factor();
      ApplyBlocks<true>(c_, /*identity=*/false);
      proven_ = gels_->Solve(a_, c_);
    }
    if (!finite_ || !proven_) {
      StoreNan(operands_.result);
      StoreNan(operands_.residual_norm);
      return;
    }
    fits_ = gels_->Store(c_, power_, c_power_, operands_.result.at(index_),
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
  Rows<T> a_, q_, c_;
  R* tau_ = nullptr;  // real parts, then imaginary ones
  // Two sets, for the block in use and the next.
  Panel* panels_[2] = {nullptr, nullptr};
  R* power_ = nullptr;
  R* c_power_ = nullptr;
  R* sign_ = nullptr;
  std::optional<Gels<T>> gels_;
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
