#include "server/engine/lapack.h"

#include <cstdio>
#include <cstdlib>
#include <limits>

// std::complex has the layout of Fortran's COMPLEX.
#define lapack_complex_float std::complex<float>
#define lapack_complex_double std::complex<double>
#include <cblas.h>
#include <lapacke.h>

// OpenBLAS's own; absent from other libraries.
extern "C" {
__attribute__((weak)) void openblas_set_num_threads(int);
__attribute__((weak)) int openblas_get_parallel(void);
__attribute__((weak)) char* openblas_get_config(void);
}

namespace factord {
namespace {

[[noreturn]] void Die(const char* message) {
  std::fprintf(stderr, "lapack: %s\n", message);
  std::abort();
}

}  // namespace

void InitializeLapack() {
  if (openblas_get_parallel != nullptr && openblas_get_parallel() == 0) {
    Die("this is OpenBLAS's serial build, which is not safe for concurrent callers; install the "
        "pthread build");
  }
  if (openblas_set_num_threads != nullptr) openblas_set_num_threads(1);
}

const char* LapackName() {
  return openblas_get_config != nullptr ? openblas_get_config() : "LAPACK";
}

namespace lapack {
namespace {

// A dimension as LAPACK's 32-bit integer.
lapack_int Int32(Int value) {
  if (value < 0 || value > std::numeric_limits<lapack_int>::max()) {
    Die("a dimension or workspace size exceeds 2^31 - 1");
  }
  return static_cast<lapack_int>(value);
}

// A workspace larger than LAPACK's integer can say is simply not used to its end.
lapack_int Lwork(Int value) {
  return static_cast<lapack_int>(std::min<Int>(value, std::numeric_limits<lapack_int>::max()));
}

void Check(lapack_int info) {
  if (info < 0) Die("an argument is invalid");
}

constexpr int kColumns = LAPACK_COL_MAJOR;

template <class T>
constexpr char Letter(Trans trans) {
  if (trans == Trans::kNone) return 'N';
  return kIsComplex<T> ? 'C' : 'T';
}

template <class T>
constexpr CBLAS_TRANSPOSE Cblas(Trans trans) {
  if (trans == Trans::kNone) return CblasNoTrans;
  return kIsComplex<T> ? CblasConjTrans : CblasTrans;
}

}  // namespace

// What is alike for all four types but for the routine's first letters: t of any routine, q of the
// orthogonal ones.
#define FACTORD_LAPACK_FOR(T, t, q)                                                               \
  template <>                                                                                     \
  void geqrf(Int m, Int n, T* A, Int lda, T* tau, T* work) {                                      \
    Check(LAPACKE_##t##geqrf_work(kColumns, Int32(m), Int32(n), A, Int32(lda), tau, work,         \
                                  Lwork(geqrf_lwork(n))));                                        \
  }                                                                                               \
  template <>                                                                                     \
  void geqr2(Int m, Int n, T* A, Int lda, T* tau, T* work) {                                      \
    Check(LAPACKE_##t##geqr2_work(kColumns, Int32(m), Int32(n), A, Int32(lda), tau, work));       \
  }                                                                                               \
  template <>                                                                                     \
  void orgqr(Int m, Int n, Int k, T* A, Int lda, const T* tau, T* work) {                         \
    Check(LAPACKE_##q##gqr_work(kColumns, Int32(m), Int32(n), Int32(k), A, Int32(lda), tau, work, \
                                Lwork(orgqr_lwork(n))));                                          \
  }                                                                                               \
  template <>                                                                                     \
  void ormqr(Trans trans, Int m, Int n, Int k, const T* A, Int lda, const T* tau, T* C, Int ldc,  \
             T* work) {                                                                           \
    Check(LAPACKE_##q##mqr_work(kColumns, 'L', Letter<T>(trans), Int32(m), Int32(n), Int32(k), A, \
                                Int32(lda), tau, C, Int32(ldc), work, Lwork(ormqr_lwork(n))));    \
  }                                                                                               \
  template <>                                                                                     \
  void larft(Int m, Int k, const T* V, Int ldv, const T* tau, T* t_, Int ldt) {                   \
    Check(LAPACKE_##t##larft_work(kColumns, 'F', 'C', Int32(m), Int32(k), V, Int32(ldv), tau, t_, \
                                  Int32(ldt)));                                                   \
  }                                                                                               \
  template <>                                                                                     \
  bool trtri(Int n, T* A, Int lda) {                                                              \
    return LAPACKE_##t##trtri_work(kColumns, 'U', 'N', Int32(n), A, Int32(lda)) == 0;             \
  }

FACTORD_LAPACK_FOR(float, s, sor)
FACTORD_LAPACK_FOR(double, d, dor)
FACTORD_LAPACK_FOR(std::complex<float>, c, cun)
FACTORD_LAPACK_FOR(std::complex<double>, z, zun)
#undef FACTORD_LAPACK_FOR

// CBLAS takes complex scalars by address.
#define FACTORD_BLAS_FOR(T, t, nrm, scalar)                                                    \
  template <>                                                                                  \
  void gemm(Trans a, Trans b, Int m, Int n, Int k, T alpha, const T* A, Int lda, const T* B,   \
            Int ldb, T beta, T* C, Int ldc) {                                                  \
    cblas_##t##gemm(CblasColMajor, Cblas<T>(a), Cblas<T>(b), Int32(m), Int32(n), Int32(k),     \
                    scalar alpha, A, Int32(lda), B, Int32(ldb), scalar beta, C, Int32(ldc));   \
  }                                                                                            \
  template <>                                                                                  \
  void trmm(Trans a, Int m, Int n, const T* A, Int lda, T* B, Int ldb) {                       \
    const T one = 1;                                                                           \
    cblas_##t##trmm(CblasColMajor, CblasLeft, CblasUpper, Cblas<T>(a), CblasNonUnit, Int32(m), \
                    Int32(n), scalar one, A, Int32(lda), B, Int32(ldb));                       \
  }                                                                                            \
  template <>                                                                                  \
  void trsm(Trans a, Int m, Int n, const T* A, Int lda, T* B, Int ldb) {                       \
    const T one = 1;                                                                           \
    cblas_##t##trsm(CblasColMajor, CblasLeft, CblasUpper, Cblas<T>(a), CblasNonUnit, Int32(m), \
                    Int32(n), scalar one, A, Int32(lda), B, Int32(ldb));                       \
  }                                                                                            \
  template <>                                                                                  \
  Real<T> nrm2(Int n, const T* x) {                                                            \
    return cblas_##nrm##nrm2(Int32(n), x, 1);                                                  \
  }

FACTORD_BLAS_FOR(float, s, s, )
FACTORD_BLAS_FOR(double, d, d, )
FACTORD_BLAS_FOR(std::complex<float>, c, sc, &)
FACTORD_BLAS_FOR(std::complex<double>, z, dz, &)
#undef FACTORD_BLAS_FOR

template <>
void geqp3(Int m, Int n, double* A, Int lda, std::int32_t* jpvt, double* tau, double* work,
           double*) {
  Check(LAPACKE_dgeqp3_work(kColumns, Int32(m), Int32(n), A, Int32(lda), jpvt, tau, work,
                            Lwork(geqp3_lwork(n))));
}
template <>
void geqp3(Int m, Int n, std::complex<double>* A, Int lda, std::int32_t* jpvt,
           std::complex<double>* tau, std::complex<double>* work, double* rwork) {
  Check(LAPACKE_zgeqp3_work(kColumns, Int32(m), Int32(n), A, Int32(lda), jpvt, tau, work,
                            Lwork(geqp3_lwork(n)), rwork));
}

template <>
bool gesdd(Int n, double* A, Int lda, double* s, double* U, Int ldu, double* Vt, Int ldvt,
           double* work, double*, std::int32_t* iwork) {
  const lapack_int info =
      LAPACKE_dgesdd_work(kColumns, 'A', Int32(n), Int32(n), A, Int32(lda), s, U, Int32(ldu), Vt,
                          Int32(ldvt), work, Lwork(gesdd_lwork(n)), iwork);
  Check(info);
  return info == 0;
}
template <>
bool gesdd(Int n, std::complex<double>* A, Int lda, double* s, std::complex<double>* U, Int ldu,
           std::complex<double>* Vt, Int ldvt, std::complex<double>* work, double* rwork,
           std::int32_t* iwork) {
  const lapack_int info =
      LAPACKE_zgesdd_work(kColumns, 'A', Int32(n), Int32(n), A, Int32(lda), s, U, Int32(ldu), Vt,
                          Int32(ldvt), work, Lwork(gesdd_lwork(n)), rwork, iwork);
  Check(info);
  return info == 0;
}

}  // namespace lapack
}  // namespace factord
