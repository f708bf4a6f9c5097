// Bit for bit: what the kernels promise of batches, padding and placement.
#pragma once

#include <cstring>
#include <vector>

namespace factord::kernels::testing {

template <class T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return false;
  return a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

}  // namespace factord::kernels::testing
