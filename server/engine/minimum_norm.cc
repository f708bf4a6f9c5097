#include "server/engine/minimum_norm.h"

#include <algorithm>
#include <cmath>

#include "server/engine/lapack.h"

namespace factord {
namespace {

using lapack::Trans;

// The largest weight is 2^kTopWeight: far from overflow when squared, and leaving 1,500 binades
// below it.
constexpr std::int32_t kTopWeight = 500;

// G = P R Pi^T, of the rows of G in decreasing order of their norms.
template <class W>
struct SortedQr {
  MatrixView<W> G;  // R and the reflectors, rows sorted
  W* tau;
  std::int64_t* row;     // sorted row i was row[i]
  std::int32_t* column;  // pivoted column j was column[j] - 1
  std::int64_t
      rank;  // leading nonzero diagonal entries: fewer than columns only if weights underflowed

  SortedQr(MatrixView<const W> unsorted, Workspace& workspace)
      : G(workspace.TakeMatrix<W>(unsorted.m, unsorted.n)),
        tau(workspace.Take<W>(unsorted.n)),
        row(workspace.Take<std::int64_t>(unsorted.m)),
        column(workspace.Take<std::int32_t>(unsorted.n)),
        rank(0) {
    const std::int64_t m = G.m, n = G.n;
    const Workspace::Scope scope(workspace);
    double* norm = workspace.Take<double>(m);
    for (std::int64_t i = 0; i < m; ++i) {
      row[i] = i;
      norm[i] = 0;
      for (std::int64_t j = 0; j < n; ++j) norm[i] = std::max(norm[i], std::abs(unsorted(i, j)));
    }
    std::stable_sort(row, row + m,
                     [norm](std::int64_t a, std::int64_t b) { return norm[a] > norm[b]; });
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i < m; ++i) G(i, j) = unsorted(row[i], j);
    }
    std::fill(column, column + n, 0);
    W* work = workspace.Take<W>(lapack::geqp3_lwork(n));
    double* rwork = workspace.Take<double>(2 * n);
    if (n > 0) lapack::geqp3(m, n, G.data, G.ld, column, tau, work, rwork);
    while (rank < n && G(rank, rank) != W(0)) ++rank;
  }

  // C := op(P) C, C in sorted rows.
  void Apply(Trans trans, MatrixView<W> C, Workspace& workspace) const {
    if (C.n == 0 || G.n == 0) return;
    const Workspace::Scope scope(workspace);
    W* work = workspace.Take<W>(lapack::ormqr_lwork(C.n));
    lapack::ormqr(trans, G.m, C.n, G.n, G.data, G.ld, tau, C.data, C.ld, work);
  }
  // C := op(R)^-1 C on the leading rank rows.
  void Solve(Trans trans, MatrixView<W> C) const {
    if (C.n > 0 && rank > 0) lapack::trsm(trans, rank, C.n, G.data, G.ld, C.data, C.ld);
  }
};

template <class W>
MatrixView<W> Weighted(MatrixView<const W> V, const std::int32_t* e, int sign, std::int32_t top,
                       Workspace& workspace) {
  const MatrixView<W> S = workspace.TakeMatrix<W>(V.m, V.n);
  for (std::int64_t i = 0; i < V.m; ++i) {
    const double weight = std::ldexp(1.0, sign * e[i] - top + kTopWeight);
    for (std::int64_t j = 0; j < V.n; ++j) S(i, j) = V(i, j) * weight;
  }
  return S;
}

template <class W>
MatrixView<const W> Const(MatrixView<W> A) {
  return {A.data, A.m, A.n, A.ld};
}

template <class W>
std::int32_t RangeForm(MatrixView<const W> V_r, MatrixView<const W> d, const std::int32_t* e,
                       MatrixView<W> x, Workspace& workspace) {
  const std::int32_t top = *std::max_element(e, e + V_r.m);
  const SortedQr<W> qr(Const(Weighted(V_r, e, +1, top, workspace)), workspace);
  const MatrixView<W> y = workspace.TakeMatrix<W>(x.m, x.n);
  for (std::int64_t c = 0; c < x.n; ++c) {
    std::fill(y.col(c), y.col(c) + y.m, W(0));
    for (std::int64_t j = 0; j < qr.rank; ++j) y(j, c) = d(qr.column[j] - 1, c);
  }
  qr.Solve(Trans::kAdjoint, y);
  qr.Apply(Trans::kNone, y, workspace);
  for (std::int64_t c = 0; c < x.n; ++c) {
    for (std::int64_t i = 0; i < x.m; ++i) x(qr.row[i], c) = y(i, c);
  }
  return kTopWeight - top;
}

template <class W>
std::int32_t NullForm(MatrixView<const W> V_r, MatrixView<const W> V_0, MatrixView<const W> d,
                      const std::int32_t* e, MatrixView<W> x, Workspace& workspace) {
  const std::int64_t n = x.m, p = x.n;
  const std::int32_t top = -*std::min_element(e, e + n);
  const SortedQr<W> qr(Const(Weighted(V_0, e, -1, top, workspace)), workspace);
  // x := y = V_r d
  if (p > 0) {
    lapack::gemm(Trans::kNone, Trans::kNone, n, p, V_r.n, W(1), V_r.data, V_r.ld, d.data, d.ld,
                 W(0), x.data, x.ld);
  }
  const MatrixView<W> g = workspace.TakeMatrix<W>(n, p);
  const auto weight = [&](std::int64_t i) { return std::ldexp(1.0, -e[i] - top + kTopWeight); };
  for (std::int64_t c = 0; c < p; ++c) {
    for (std::int64_t i = 0; i < n; ++i) g(i, c) = x(qr.row[i], c) * weight(qr.row[i]);
  }
  qr.Apply(Trans::kAdjoint, g, workspace);
  qr.Solve(Trans::kNone, g);
  // x := x - V_0 z, z in the pivoted order
  const MatrixView<W> z = workspace.TakeMatrix<W>(V_0.n, p);
  for (std::int64_t c = 0; c < p; ++c) {
    for (std::int64_t j = 0; j < V_0.n; ++j) z(qr.column[j] - 1, c) = j < qr.rank ? g(j, c) : W(0);
  }
  if (p > 0) {
    lapack::gemm(Trans::kNone, Trans::kNone, n, p, V_0.n, W(-1), V_0.data, V_0.ld, z.data, z.ld,
                 W(1), x.data, x.ld);
  }
  for (std::int64_t c = 0; c < p; ++c) {
    for (std::int64_t i = 0; i < n; ++i) x(i, c) *= weight(i);
  }
  return top - kTopWeight;
}

}  // namespace

template <class W>
std::int32_t MinimumNorm(MatrixView<const W> V_r, MatrixView<const W> V_0, MatrixView<const W> d,
                         const std::int32_t* e, MatrixView<W> x, Workspace& workspace) {
  const Workspace::Scope scope(workspace);
  return UsesRangeForm(V_r.m, V_r.n) ? RangeForm(V_r, d, e, x, workspace)
                                     : NullForm(V_r, V_0, d, e, x, workspace);
}

template std::int32_t MinimumNorm(MatrixView<const double>, MatrixView<const double>,
                                  MatrixView<const double>, const std::int32_t*, MatrixView<double>,
                                  Workspace&);
template std::int32_t MinimumNorm(MatrixView<const std::complex<double>>,
                                  MatrixView<const std::complex<double>>,
                                  MatrixView<const std::complex<double>>, const std::int32_t*,
                                  MatrixView<std::complex<double>>, Workspace&);

}  // namespace factord
