// LAPACK libraries, by the C entry points that they share.
#pragma once

#include <complex>
// For lapacke.h, in place of C's complex types.
#define LAPACK_COMPLEX_CUSTOM
#define lapack_complex_float std::complex<float>
#define lapack_complex_double std::complex<double>
#include <lapacke.h>

#include <memory>
#include <string>
#include <tuple>

#include "kernels/problem.h"

namespace factord::bench::cpu {

// LAPACKE_?geqrf_work and its like, of one type.
template <class T>
struct LapackCalls {
  using Geqrf = lapack_int(int layout, lapack_int m, lapack_int n, T* a, lapack_int lda, T* tau,
                           T* work, lapack_int lwork);
  using Orgqr = lapack_int(int layout, lapack_int m, lapack_int n, lapack_int k, T* a,
                           lapack_int lda, const T* tau, T* work, lapack_int lwork);
  using Ormqr = lapack_int(int layout, char side, char trans, lapack_int m, lapack_int n,
                           lapack_int k, const T* a, lapack_int lda, const T* tau, T* c,
                           lapack_int ldc, T* work, lapack_int lwork);
  Geqrf* geqrf;
  Orgqr* orgqr;
  Ormqr* ormqr;
};

struct Lapack {
  std::string name, version;
  void (*set_threads)(int);  // of the library's own, in one call
  std::tuple<LapackCalls<float>, LapackCalls<double>, LapackCalls<std::complex<float>>,
             LapackCalls<std::complex<double>>>
      calls;

  template <class T>
  const LapackCalls<T>& Calls() const {
    return std::get<LapackCalls<T>>(calls);
  }
};

// LAPACKE with the BLAS that is linked, OpenBLAS.
Lapack LinkedLapack();

// MKL's compact calls of one type: as many matrices as `format` says lie interleaved.
template <class T>
struct MklCompactCalls {
  using R = kernels::Real<T>;
  int (*lanes_format)();  // of this CPU
  lapack_int (*get_size)(lapack_int ld, lapack_int columns, int format, lapack_int count);
  void (*pack)(int layout, lapack_int m, lapack_int n, const T* const* a, lapack_int lda, R* packed,
               lapack_int ldp, int format, lapack_int count);
  void (*geqrf)(int layout, lapack_int m, lapack_int n, R* packed, lapack_int ldp, R* tau, R* work,
                lapack_int lwork, lapack_int* info, int format, lapack_int count);
  void (*unpack)(int layout, lapack_int m, lapack_int n, T* const* a, lapack_int lda,
                 const R* packed, lapack_int ldp, int format, lapack_int count);
};

struct Mkl {
  Lapack lapack;
  std::tuple<MklCompactCalls<float>, MklCompactCalls<double>, MklCompactCalls<std::complex<float>>,
             MklCompactCalls<std::complex<double>>>
      compact;
};

// From libmkl_rt's file, its names kept apart from the linked ones. Ends the process where that is
// not to be had.
Mkl LoadMkl(const std::string& path);

}  // namespace factord::bench::cpu
