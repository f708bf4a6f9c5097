// Q in factored form, and the QR factorization that makes it. Two algorithms, chosen by shape
// alone:
//
//   small    LAPACK's geqrf, orgqr and ormqr
//   blocked  panels of nb columns: geqr2, larft, then every tile of columns by itself:
//              W := T^H (V^H C);  C := C - V W          (a tile is a fixed number of columns)
//            so the bits do not depend on how many threads share the tiles.
//
// Flops: factor 2 m n k - (m + n) k^2 + 2/3 k^3; form and apply 4 m k cols - 2 k^2 cols.
#pragma once

#include <cstdint>

#include "server/engine/lapack.h"
#include "server/engine/matrix_view.h"
#include "server/engine/team.h"
#include "server/engine/workspace.h"

namespace factord {

// Whether an m x n matrix takes the blocked algorithm.
bool IsBlocked(std::int64_t m, std::int64_t n);

// Q = H_1 ... H_k, H_i = I - tau_i v_i v_i^H; a view of workspace memory.
template <class T>
class Reflectors {
 public:
  Reflectors(std::int64_t m, std::int64_t n, Workspace& workspace);

  std::int64_t m() const { return A_.m; }
  std::int64_t n() const { return A_.n; }
  std::int64_t k() const { return A_.m < A_.n ? A_.m : A_.n; }
  const MatrixView<T>& A() const { return A_; }
  T* tau() const { return tau_; }

  // A = Q R: on entry A() holds A. Wide: the leading square block, then Q^H times the other
  // columns.
  void Factor(const Team& team);
  // On entry A() and tau() hold somebody's reflectors; what is on and above the diagonal is
  // ignored.
  void Prepare(const Team& team);
  // Between Factor or Prepare and Restore:
  // Q := the first Q.n columns of the m x m matrix; k <= Q.n <= m.
  void Form(MatrixView<T> Q, const Team& team) const;
  // C := Q C or Q^H C.
  void Apply(lapack::Trans trans, MatrixView<T> C, const Team& team) const;
  // R := the upper triangle of R's leading k x k block, zeros below. Before Restore.
  void CopyTriangle(MatrixView<T> R) const;
  // After all Form and Apply: A() holds R on and above its diagonal, V below.
  void Restore();

 private:
  // I - V T V^H, V ((m - j) x jb) with explicit ones and zeros.
  struct Panel {
    std::int64_t j = 0;
    MatrixView<T> V;
    MatrixView<T> t;
  };
  Panel PanelAt(std::int64_t p) const;
  std::int64_t panels() const { return (k() + nb_ - 1) / nb_; }
  T* Saved(std::int64_t j) const { return saved_ + j * nb_; }
  // Saves what stands on and above the diagonal of V's top block and writes ones and zeros over it.
  void MakeExplicit(const Panel& panel);
  // C := (I - V op(T) V^H) C, C ((m - j) x any).
  static void ApplyPanel(const Panel& panel, lapack::Trans trans, MatrixView<T> C,
                         Workspace& scratch);
  void ApplyPanels(lapack::Trans trans, MatrixView<T> C, Workspace& scratch) const;
  void FactorBlocked(const Team& team);
  void FactorSmall(const Team& team);

  MatrixView<T> A_;
  T* tau_ = nullptr;
  std::int64_t nb_ = 0;  // 0: small
  T* t_ = nullptr;       // T of each panel, nb x jb, one after the other
  T* saved_ = nullptr;   // likewise R's diagonal blocks
};

}  // namespace factord
