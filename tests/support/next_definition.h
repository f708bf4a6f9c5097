// The library's own definition of a function that the executable defines too.
#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace factord {

template <typename Function>
Function* NextDefinition(const std::string& symbol) {
  void* const found = dlsym(RTLD_NEXT, symbol.c_str());
  if (found == nullptr) {
    std::fprintf(stderr, "no library has %s\n", symbol.c_str());
    std::abort();
  }
  return reinterpret_cast<Function*>(found);
}

}  // namespace factord
