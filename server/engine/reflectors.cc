#include "server/engine/reflectors.h"

#include <algorithm>
#include <complex>

namespace factord {
namespace {

using lapack::Trans;

// Measured with OpenBLAS 0.3.21 (Haswell kernels), one thread, f32, us a matrix, LAPACK's geqrf /
// panels of 16 / of 32:
//   32^2 7.3/7.4/7.6   64^2 25/21/25   128^2 120/68/82   256^2 411/315/350   512^2 2240/2000/2050
//   5000x64 1038/720/866 (f64 alike: 512^2 4320/4170/4170)
// and Q costs half of orgqr, because T is there already.
constexpr std::int64_t kBlockedFrom = 32;
constexpr std::int64_t kNarrowPanel = 16;
constexpr std::int64_t kWidePanel = 32;
constexpr std::int64_t kWidePanelFrom = 512;

// Columns a thread updates at a time: wide enough for gemm to run at speed, narrow enough to share.
constexpr std::int64_t kTile = 128;

// Fewer columns right of the square block than this are left to geqrf.
constexpr std::int64_t kWideRest = 16;

std::int64_t PanelWidth(std::int64_t k) {
  if (k < kBlockedFrom) return 0;
  return k < kWidePanelFrom ? kNarrowPanel : kWidePanel;
}

}  // namespace

bool IsBlocked(std::int64_t m, std::int64_t n) { return PanelWidth(std::min(m, n)) > 0; }

template <class T>
Reflectors<T>::Reflectors(std::int64_t m, std::int64_t n, Workspace& workspace)
    : A_(workspace.TakeMatrix<T>(m, n)), nb_(PanelWidth(std::min(m, n))) {
  tau_ = workspace.Take<T>(k());
  t_ = workspace.Take<T>(nb_ * k());
  saved_ = workspace.Take<T>(nb_ * k());
}

template <class T>
typename Reflectors<T>::Panel Reflectors<T>::PanelAt(std::int64_t p) const {
  const std::int64_t j = p * nb_;
  const std::int64_t jb = std::min(nb_, k() - j);
  return {j, A_.block(j, j, m() - j, jb), {t_ + j * nb_, jb, jb, nb_}};
}

template <class T>
void Reflectors<T>::Factor(const Team& team) {
  if (k() == 0) return;
  if (nb_ > 0) {
    FactorBlocked(team);
  } else {
    FactorSmall(team);
  }
}

template <class T>
void Reflectors<T>::FactorBlocked(const Team& team) {
  const std::int64_t square = std::min(m(), n());
  for (std::int64_t p = 0; p < panels(); ++p) {
    const Panel panel = PanelAt(p);
    const std::int64_t jb = panel.V.n;
    {
      const Workspace::Scope scope(team.workspace());
      T* work = team.workspace().Take<T>(jb);
      lapack::geqr2(panel.V.m, jb, panel.V.data, panel.V.ld, tau_ + panel.j, work);
    }
    lapack::larft(panel.V.m, jb, panel.V.data, panel.V.ld, tau_ + panel.j, panel.t.data,
                  panel.t.ld);
    MakeExplicit(panel);
    team.ForTiles(panel.j + jb, square, kTile,
                  [&](std::int64_t first, std::int64_t cols, Workspace& scratch) {
                    ApplyPanel(panel, Trans::kAdjoint, A_.block(panel.j, first, panel.V.m, cols),
                               scratch);
                  });
  }
  if (n() > square) Apply(Trans::kAdjoint, A_.from(0, square), team);
}

template <class T>
void Reflectors<T>::FactorSmall(const Team& team) {
  const bool product = n() - m() >= kWideRest;
  const std::int64_t cols = product ? m() : n();
  Workspace& workspace = team.workspace();
  const Workspace::Scope scope(workspace);
  T* work = workspace.Take<T>(lapack::geqrf_lwork(cols));
  lapack::geqrf(m(), cols, A_.data, A_.ld, tau_, work);
  if (!product) return;
  // The rest as if the square block were one panel.
  Reflectors square = *this;
  square.nb_ = m();
  square.A_.n = m();
  square.t_ = workspace.Take<T>(m() * m());
  square.saved_ = workspace.Take<T>(m() * m());
  square.Prepare(team);
  square.Apply(Trans::kAdjoint, A_.from(0, m()), team);
  square.Restore();
}

template <class T>
void Reflectors<T>::Prepare(const Team& team) {
  if (nb_ == 0) return;
  team.For(panels(), [&](std::int64_t p, Workspace&) {
    const Panel panel = PanelAt(p);
    lapack::larft(panel.V.m, panel.V.n, panel.V.data, panel.V.ld, tau_ + panel.j, panel.t.data,
                  panel.t.ld);
    MakeExplicit(panel);
  });
}

template <class T>
void Reflectors<T>::MakeExplicit(const Panel& panel) {
  T* saved = Saved(panel.j);
  for (std::int64_t c = 0; c < panel.V.n; ++c) {
    T* column = panel.V.col(c);
    std::copy(column, column + c + 1, saved + c * nb_);
    std::fill(column, column + c, T(0));
    column[c] = T(1);
  }
}

template <class T>
void Reflectors<T>::CopyTriangle(MatrixView<T> R) const {
  for (std::int64_t c = 0; c < k(); ++c) {
    std::copy(A_.col(c), A_.col(c) + c + 1, R.col(c));
    std::fill(R.col(c) + c + 1, R.col(c) + k(), T(0));
    if (nb_ == 0) continue;
    const std::int64_t j = c / nb_ * nb_;  // its panel
    const T* saved = Saved(j) + (c - j) * nb_;
    std::copy(saved, saved + (c - j) + 1, R.col(c) + j);
  }
}

template <class T>
void Reflectors<T>::Restore() {
  if (nb_ == 0) return;
  for (std::int64_t p = 0; p < panels(); ++p) {
    const Panel panel = PanelAt(p);
    const T* saved = Saved(panel.j);
    for (std::int64_t c = 0; c < panel.V.n; ++c) {
      std::copy(saved + c * nb_, saved + c * nb_ + c + 1, panel.V.col(c));
    }
  }
}

template <class T>
void Reflectors<T>::ApplyPanel(const Panel& panel, Trans trans, MatrixView<T> C,
                               Workspace& scratch) {
  if (C.n == 0) return;
  const MatrixView<T>& V = panel.V;
  const Workspace::Scope scope(scratch);
  const MatrixView<T> W = scratch.TakeMatrix<T>(V.n, C.n);  // (jb, cols)
  // W := V^H C;  W := op(T) W;  C := C - V W
  lapack::gemm(Trans::kAdjoint, Trans::kNone, V.n, C.n, V.m, T(1), V.data, V.ld, C.data, C.ld, T(0),
               W.data, W.ld);
  lapack::trmm(trans, V.n, C.n, panel.t.data, panel.t.ld, W.data, W.ld);
  lapack::gemm(Trans::kNone, Trans::kNone, V.m, C.n, V.n, T(-1), V.data, V.ld, W.data, W.ld, T(1),
               C.data, C.ld);
}

template <class T>
void Reflectors<T>::ApplyPanels(Trans trans, MatrixView<T> C, Workspace& scratch) const {
  const std::int64_t count = panels();
  for (std::int64_t i = 0; i < count; ++i) {
    const Panel panel = PanelAt(trans == Trans::kAdjoint ? i : count - 1 - i);
    ApplyPanel(panel, trans, C.from(panel.j, 0), scratch);
  }
}

template <class T>
void Reflectors<T>::Apply(Trans trans, MatrixView<T> C, const Team& team) const {
  if (k() == 0 || C.n == 0) return;
  if (nb_ == 0) {
    const Workspace::Scope scope(team.workspace());
    T* work = team.workspace().template Take<T>(lapack::ormqr_lwork(C.n));
    lapack::ormqr(trans, m(), C.n, k(), A_.data, A_.ld, tau_, C.data, C.ld, work);
    return;
  }
  team.ForTiles(0, C.n, kTile, [&](std::int64_t first, std::int64_t cols, Workspace& scratch) {
    ApplyPanels(trans, C.columns(first, cols), scratch);
  });
}

template <class T>
void Reflectors<T>::Form(MatrixView<T> Q, const Team& team) const {
  if (nb_ == 0) {
    for (std::int64_t j = 0; j < std::min(k(), Q.n); ++j) {
      std::copy(A_.col(j) + j + 1, A_.col(j) + m(), Q.col(j) + j + 1);
    }
    if (Q.n == 0) return;
    const Workspace::Scope scope(team.workspace());
    T* work = team.workspace().template Take<T>(lapack::orgqr_lwork(Q.n));
    lapack::orgqr(m(), Q.n, k(), Q.data, Q.ld, tau_, work);
    return;
  }
  team.ForTiles(0, Q.n, kTile, [&](std::int64_t first, std::int64_t cols, Workspace& scratch) {
    const std::int64_t end = first + cols;
    for (std::int64_t c = first; c < end; ++c) {
      std::fill(Q.col(c), Q.col(c) + m(), T(0));
      Q(c, c) = T(1);
    }
    // Columns left of a panel are still zero in the rows it acts on.
    for (std::int64_t p = panels() - 1; p >= 0; --p) {
      const Panel panel = PanelAt(p);
      const std::int64_t c = std::max(first, panel.j);
      if (c < end)
        ApplyPanel(panel, Trans::kNone, Q.block(panel.j, c, panel.V.m, end - c), scratch);
    }
  });
}

template class Reflectors<float>;
template class Reflectors<double>;
template class Reflectors<std::complex<float>>;
template class Reflectors<std::complex<double>>;

}  // namespace factord
