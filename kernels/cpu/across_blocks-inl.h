// R alone of one tall matrix of real numbers, read once, by TSQR: blocks of rows, each reduced to
// its R by itself, and then the R of
//
//   [ A's first n rows ]
//   [ R of block 1     ]    whose signs are those of A's own R, as LAPACK's geqrf has them: on the
//   [ ...              ]    rows that are left as they are its reflectors do what A's would, since
//   [ R of block b     ]    below them an orthogonal matrix makes no difference.
//
// (Demmel, Grigori, Hoemmen, Langou: Communication-optimal parallel and sequential QR, 2012.) A
// block's height is a matter of the type and of n, so that R's bits do not depend on who reduces
// which. A block's lanes have a triangle each, see lane_triangles-inl.h; these are combined across
// rows, and so are the blocks'.
#if defined(FACTORD_KERNELS_CPU_ACROSS_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FACTORD_KERNELS_CPU_ACROSS_BLOCKS_INL_H_
#undef FACTORD_KERNELS_CPU_ACROSS_BLOCKS_INL_H_
#else
#define FACTORD_KERNELS_CPU_ACROSS_BLOCKS_INL_H_
#endif

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/across_rows-inl.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/lane_triangles-inl.h"
#include "kernels/cpu/one_matrix-inl.h"
#include "kernels/cpu/operands.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/tiles.h"

HWY_BEFORE_NAMESPACE();
namespace factord::kernels::cpu::HWY_NAMESPACE {

// R: float or double. m >= n.
template <class R>
class AcrossBlocks {
 public:
  // `tiles` may be null.
  AcrossBlocks(const Problem& problem, const kernels::Run<R>& run, Scratch scratch, Tiles* tiles)
      : operands_(problem, run),
        n_(run.n),
        height_(BlockRows<R>(run.n)),
        blocks_(static_cast<int>((std::int64_t{run.m} - run.n + height_ - 1) / height_)),
        tiles_(tiles),
        stack_(Dense<R>::Of(scratch.Take<R>(std::int64_t{blocks_ + 1} * n_ * n_),
                            (blocks_ + 1) * n_, n_, /*column_major=*/true)),
        r_(Dense<R>::Of(scratch.Take<R>(std::int64_t{n_} * n_), n_, n_, /*column_major=*/true)),
        powers_(scratch.Take<R>(std::int64_t{blocks_ + 1} * n_)),
        root_problem_({.r = true, .sign = problem.sign, .column_major = true}),
        root_run_({.m = stack_.rows, .n = n_, .a = stack_.data, .r = r_.data}),
        root_(root_problem_, root_run_, scratch, tiles) {}
  std::size_t scratch_bytes() const { return root_.scratch_bytes(); }

  void Run(std::int64_t i, std::uint32_t* status) {
    index_ = i;
    finite_ = CopyTop();
    ForBlocks();
    if (!finite_) {
      FillNan(operands_.r.at(i));
      *status = kNonfiniteInput;
      return;
    }
    ShareScales();
    root_.Run(0, status);
    if (!Store()) *status |= kResultOutOfRange;
  }

 private:
  using Way = AcrossRows<R>;
  using Triangles = LaneTriangles<R, kMostBlockColumns>;
  static constexpr int kL = kLanes<R>;

  // Of block b, or with b = -1 of A's first rows: by what each column was multiplied.
  R* PowersOf(int b) const { return powers_ + (b + 1) * std::int64_t{n_}; }
  R* Entry(int b, int j, int k) const { return stack_.data + stack_.IndexOf((b + 1) * n_ + j, k); }

  // A's first n rows, scaled. False: a NaN or an Inf is among them.
  bool CopyTop() {
    const Dense<const R> a = operands_.a.at(index_);
    bool finite = true;
    for (int k = 0; k < n_; ++k) {
      int field = 0;
      for (int j = 0; j < n_; ++j) field = std::max(field, ExponentField(a.data[a.IndexOf(j, k)]));
      finite &= field != Ieee<R>::kTopField;
      const R power = PowersOf(-1)[k] = kernels::ScaleOf<R>(field);
      for (int j = 0; j < n_; ++j) *Entry(-1, j, k) = a.data[a.IndexOf(j, k)] * power;
    }
    return finite;
  }

  void ForBlocks() {
    if (tiles_ == nullptr) {
      for (int b = 0; b < blocks_; ++b) ReduceBlock(b);
      return;
    }
    const auto reduce = [](void* blocks, std::int64_t b) {
      static_cast<AcrossBlocks*>(blocks)->ReduceBlock(static_cast<int>(b));
    };
    tiles_->Open(blocks_, reduce, this);
    tiles_->Finish();
  }
  void ReduceBlock(int b) {
    const Dense<const R> a = operands_.a.at(index_);
    const std::int64_t first = n_ + std::int64_t{b} * height_;
    const int end = static_cast<int>(std::min<std::int64_t>(first + height_, a.rows));
    Triangles triangles(n_);
    if (triangles.Fold(a, static_cast<int>(first), end)) {
      CombineLanes(triangles, b);
    } else {
      finite_ = false;
    }
  }
  // Row j of lane l's triangle is row j kL + l of what is factored.
  void CombineLanes(const Triangles& triangles, int b) {
    HWY_ALIGN R memory[kMostBlockColumns * (kMostBlockColumns + 2) * std::max(kL, kPanel)];
    Scratch scratch(reinterpret_cast<std::byte*>(memory));
    const Rows<R> held = Way::Take(scratch, n_ * kL, n_);
    for (int k = 0; k < n_; ++k) {
      std::fill_n(held.at(k, 0), held.cols, R(0));
      for (int j = 0; j <= k; ++j) hn::Store(triangles.At(j, k), Full<R>(), held.at(k, j * kL));
      PowersOf(b)[k] = triangles.power(k);
    }
    typename Way::Panel panel;
    R tau[kMostBlockColumns];
    for (int j = 0; j < n_; j += kPanel) {
      Way::FactorBlock(held, n_, j, 1, n_, &panel, tau);
      if (j + kPanel < n_) Way::template Apply<true>(&panel, 1, held, j, j + kPanel, n_);
    }
    for (int k = 0; k < n_; ++k) {
      for (int j = 0; j < n_; ++j) *Entry(b, j, k) = j <= k ? *held.at(k, j) : R(0);
    }
  }

  // Every column times the least of its powers everywhere.
  void ShareScales() {
    for (int k = 0; k < n_; ++k) {
      R least = PowersOf(-1)[k];
      for (int b = 0; b < blocks_; ++b) least = std::min(least, PowersOf(b)[k]);
      for (int b = -1; b < blocks_; ++b) {
        const R ratio = RatioOfPowers(least, PowersOf(b)[k]);
        for (int j = 0; j < n_; ++j) *Entry(b, j, k) *= ratio;
      }
      PowersOf(-1)[k] = least;
    }
  }

  // False: an entry overflowed.
  bool Store() {
    const Dense<R> dst = operands_.r.at(index_);
    bool fits = true;
    for (int k = 0; k < n_; ++k) {
      const R back = R(1) / PowersOf(-1)[k];  // exactly
      for (int j = 0; j < n_; ++j) {
        const R x = r_.data[r_.IndexOf(j, k)] * back;
        dst.data[dst.IndexOf(j, k)] = x;
        fits &= ExponentField(x) != Ieee<R>::kTopField;
      }
    }
    return fits;
  }

  const Operands<R> operands_;
  const int n_;
  const int height_;
  const int blocks_;
  Tiles* const tiles_;
  const Dense<R> stack_, r_;
  R* const powers_;
  const Problem root_problem_;
  const kernels::Run<R> root_run_;
  OneMatrix<R, AcrossRows> root_;
  std::int64_t index_ = 0;  // of the matrix in work
  std::atomic<bool> finite_{true};
};

}  // namespace factord::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FACTORD_KERNELS_CPU_ACROSS_BLOCKS_INL_H_
