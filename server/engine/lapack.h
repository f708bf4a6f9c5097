// The BLAS and LAPACK routines this engine uses, overloaded for float, double and their complex
// types, under LAPACK's names for the real case (orgqr is ungqr for complex, and so on).
// Column-major. No error can occur: the arguments are ours, checked, and no routine here has a
// numerical failure but the singular values'.
//
// Workspaces are the caller's, their sizes in elements from the *_lwork formulas: 64-bit and exact,
// where a workspace query returns a float.
#pragma once

#include <algorithm>
#include <complex>
#include <cstdint>
#include <type_traits>

#include "kernels/problem.h"

namespace factord {

using kernels::kIsComplex;
using kernels::Real;

// eps = 2^-24 or 2^-53.
template <class T>
inline constexpr Real<T> kEps = sizeof(Real<T>) == 4 ? Real<T>(0x1p-24) : Real<T>(0x1p-53);

// Once, before any other call and before threads: one thread a call, for good. Ends the process if
// the library is OpenBLAS's serial build, whose results to concurrent callers are wrong.
void InitializeLapack();

// What does the arithmetic, e.g. "OpenBLAS 0.3.21 Haswell".
const char* LapackName();

namespace lapack {

using Int = std::int64_t;

enum class Trans { kNone, kAdjoint };

// LAPACK blocks geqrf, orgqr and ormqr by 32 (64 at most) columns.
inline Int geqrf_lwork(Int n) { return std::max<Int>(1, n) * 64; }
inline Int orgqr_lwork(Int n) { return std::max<Int>(1, n) * 64; }
inline Int ormqr_lwork(Int n) { return std::max<Int>(1, n) * 64 + 65 * 64; }
inline Int geqp3_lwork(Int n) { return 2 * n + (n + 1) * 64; }
// gesdd with jobz = 'A' and m = n, LAPACK 3.11's documented minimum.
inline Int gesdd_lwork(Int n) { return 4 * n * n + 7 * std::max<Int>(1, n); }
inline Int gesdd_lrwork(Int n) { return std::max<Int>(1, 5 * n * n + 7 * n); }
inline Int gesdd_liwork(Int n) { return std::max<Int>(1, 8 * n); }

// A = Q R.
template <class T>
void geqrf(Int m, Int n, T* A, Int lda, T* tau, T* work);
// The same, column by column. work: n.
template <class T>
void geqr2(Int m, Int n, T* A, Int lda, T* tau, T* work);
// A := the first n columns of H_1 ... H_k, m >= n >= k.
template <class T>
void orgqr(Int m, Int n, Int k, T* A, Int lda, const T* tau, T* work);
// C := Q C or Q^H C, C m x n, Q from the k reflectors in A.
template <class T>
void ormqr(Trans trans, Int m, Int n, Int k, const T* A, Int lda, const T* tau, T* C, Int ldc,
           T* work);
// T of H_1 ... H_k = I - V T V^H, V m x k.
template <class T>
void larft(Int m, Int k, const T* V, Int ldv, const T* tau, T* t, Int ldt);
// A P = Q R with pivoting; jpvt must be zero.
template <class T>
void geqp3(Int m, Int n, T* A, Int lda, std::int32_t* jpvt, T* tau, T* work, Real<T>* rwork);
// A = U diag(s) Vt, all n x n. False: did not converge.
template <class T>
[[nodiscard]] bool gesdd(Int n, T* A, Int lda, Real<T>* s, T* U, Int ldu, T* Vt, Int ldvt, T* work,
                         Real<T>* rwork, std::int32_t* iwork);
// A := A^-1, A upper triangular. False: a zero on the diagonal.
template <class T>
[[nodiscard]] bool trtri(Int n, T* A, Int lda);
// C := alpha op(A) op(B) + beta C.
template <class T>
void gemm(Trans a, Trans b, Int m, Int n, Int k, T alpha, const T* A, Int lda, const T* B, Int ldb,
          T beta, T* C, Int ldc);
// B := op(A) B, A upper triangular, m x m.
template <class T>
void trmm(Trans a, Int m, Int n, const T* A, Int lda, T* B, Int ldb);
// B := op(A)^-1 B, A upper triangular, m x m.
template <class T>
void trsm(Trans a, Int m, Int n, const T* A, Int lda, T* B, Int ldb);
// ||x||_2.
template <class T>
Real<T> nrm2(Int n, const T* x);

}  // namespace lapack
}  // namespace factord
