// In place of vendors.cc where cuBLAS and cuSOLVER are not installed.
#include "bench/gpu/implementation.h"

namespace factord::bench {

template <class T>
std::vector<std::unique_ptr<Implementation<T>>> Vendors(const Case&) {
  return {};
}
template std::vector<std::unique_ptr<Implementation<float>>> Vendors(const Case&);
template std::vector<std::unique_ptr<Implementation<double>>> Vendors(const Case&);

}  // namespace factord::bench
