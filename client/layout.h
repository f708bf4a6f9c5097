#ifndef FACTORD_CLIENT_LAYOUT_H_
#define FACTORD_CLIENT_LAYOUT_H_

#include <string>

#include "client/tensor.h"

namespace factord::client {

// The same matrices, each in row-major order; nothing is copied where they are already.
Matrices ToRowMajor(Matrices matrices);

// As ToRowMajor, from an array whose every index runs in Fortran's order, the batch dims' too.
std::string FortranToRowMajor(absl::string_view data, const std::vector<int64_t>& dims,
                              int64_t element_bytes);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_LAYOUT_H_
