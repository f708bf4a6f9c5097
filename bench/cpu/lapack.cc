#include "bench/cpu/lapack.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

extern "C" {
void openblas_set_num_threads(int threads);
char* openblas_get_config();
}

namespace factord::bench::cpu {
namespace {

class Library {
 public:
  // MKL's names are also OpenBLAS's: its own come first for it, and no one else sees them.
  explicit Library(const std::string& path)
      : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND)) {
    if (handle_ == nullptr) Fail();
  }
  template <class Function>
  void Find(const std::string& name, Function*& function) const {
    function = reinterpret_cast<Function*>(dlsym(handle_, name.c_str()));
    if (function == nullptr) Fail();
  }

 private:
  [[noreturn]] static void Fail() {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(EXIT_FAILURE);
  }
  void* const handle_;
};

// `type`: s, d, c or z; `q`: or for the orthogonal Q of a real matrix, un for a unitary one.
template <class T>
void FindCalls(const Library& library, const std::string& type, const std::string& q, Mkl* mkl) {
  auto& calls = std::get<LapackCalls<T>>(mkl->lapack.calls);
  library.Find("LAPACKE_" + type + "geqrf_work", calls.geqrf);
  library.Find("LAPACKE_" + type + q + "gqr_work", calls.orgqr);
  library.Find("LAPACKE_" + type + q + "mqr_work", calls.ormqr);
  auto& compact = std::get<MklCompactCalls<T>>(mkl->compact);
  library.Find("mkl_get_format_compact", compact.lanes_format);
  library.Find("mkl_" + type + "get_size_compact", compact.get_size);
  library.Find("mkl_" + type + "gepack_compact", compact.pack);
  library.Find("mkl_" + type + "geqrf_compact", compact.geqrf);
  library.Find("mkl_" + type + "geunpack_compact", compact.unpack);
}

std::string VersionOf(const Library& mkl) {
  void (*get_version)(char*, int) = nullptr;
  mkl.Find("MKL_Get_Version_String", get_version);
  char text[200] = {};
  get_version(text, sizeof(text) - 1);
  std::string version = text;
  return version.substr(0, version.find_last_not_of(' ') + 1);
}

}  // namespace

Lapack LinkedLapack() {
  return {
      .name = "LAPACKE",
      .version = openblas_get_config(),
      .set_threads = openblas_set_num_threads,
      .calls = {LapackCalls<float>{LAPACKE_sgeqrf_work, LAPACKE_sorgqr_work, LAPACKE_sormqr_work},
                LapackCalls<double>{LAPACKE_dgeqrf_work, LAPACKE_dorgqr_work, LAPACKE_dormqr_work},
                LapackCalls<std::complex<float>>{LAPACKE_cgeqrf_work, LAPACKE_cungqr_work,
                                                 LAPACKE_cunmqr_work},
                LapackCalls<std::complex<double>>{LAPACKE_zgeqrf_work, LAPACKE_zungqr_work,
                                                  LAPACKE_zunmqr_work}}};
}

Mkl LoadMkl(const std::string& path) {
  // Its threads spin after a call, by default for 200 ms: into the next one's time.
  setenv("KMP_BLOCKTIME", "5", /*replace=*/0);
  const Library library(path);
  int (*set_threading_layer)(int) = nullptr;
  library.Find("MKL_Set_Threading_Layer", set_threading_layer);
  set_threading_layer(0);  // MKL_THREADING_INTEL
  Mkl mkl;
  mkl.lapack.name = "MKL";
  mkl.lapack.version = VersionOf(library);
  library.Find("MKL_Set_Num_Threads", mkl.lapack.set_threads);
  FindCalls<float>(library, "s", "or", &mkl);
  FindCalls<double>(library, "d", "or", &mkl);
  FindCalls<std::complex<float>>(library, "c", "un", &mkl);
  FindCalls<std::complex<double>>(library, "z", "un", &mkl);
  return mkl;
}

}  // namespace factord::bench::cpu
