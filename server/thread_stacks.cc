// civetweb, which serves the metrics, gives its threads 100 KiB of stack and can't be told
// otherwise. glibc takes the thread-local storage of all libraries out of it, and the CUDA
// runtime's 4 KiB, aligned to 4 KiB, are those that a scrape then lacks: it ends in a segmentation
// fault. So a stack asked for in this program is at least this large. Part of the executable, where
// the dynamic linker finds it first.
#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <cstddef>

namespace {
constexpr std::size_t kLeastStackBytes = 256 << 10;
}

extern "C" int pthread_attr_setstacksize(pthread_attr_t* attr, std::size_t size) noexcept {
  using Function = int (*)(pthread_attr_t*, std::size_t);
  static const auto libc =
      reinterpret_cast<Function>(dlsym(RTLD_NEXT, "pthread_attr_setstacksize"));
  return libc(attr, std::max(size, kLeastStackBytes));
}
