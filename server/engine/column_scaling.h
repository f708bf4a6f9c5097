// Exact scaling of columns by powers of two, so that LAPACK's sums of squares neither overflow nor
// underflow:
//   A_hat = A diag(2^-e_j), the largest |component| of each column of A_hat in [1, 2) (e_j = 0 for
//   a zero column).
// Entries far below their column's largest one may underflow: they are under eps times the column.
//   A_hat = Q R_hat  =>  A = Q R with R = R_hat diag(2^e_j), rounded once where R is subnormal.
#pragma once

#include <cstdint>

#include "server/engine/lapack.h"
#include "server/engine/strided.h"

namespace factord {

// dst := src diag(2^-e_j), conjugated if `conjugate`; e has src.n entries. False if src holds a NaN
// or an Inf; dst and e are then unspecified.
template <class T>
bool LoadScaled(Strided<const T> src, bool conjugate, MatrixView<T> dst, std::int32_t* e);

// Copies, unscaled.
template <class T>
void LoadPlain(Strided<const T> src, MatrixView<T> dst);
template <class T>
void StorePlain(MatrixView<const T> src, Strided<T> dst);

// Whether every component of n elements is finite.
template <class T>
bool IsFinite(const T* x, std::int64_t n);

// x := 2^e x, n elements, each rounded once; -149 <= e <= 127 (f32) or -1074 <= e <= 1023 (f64).
// False if one became Inf.
template <class T>
bool ScaleColumn(T* x, std::int64_t n, std::int32_t e);

}  // namespace factord
