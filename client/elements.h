#ifndef FACTORD_CLIENT_ELEMENTS_H_
#define FACTORD_CLIENT_ELEMENTS_H_

#include <complex>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "client/tensor.h"

namespace factord::client {

// Where A(i, j) of matrix `batch` lies, in elements.
inline int64_t ElementIndex(v1::Layout layout, const BatchShape& shape, int64_t batch, int64_t i,
                            int64_t j) {
  const int64_t within = layout == v1::LAYOUT_COLUMN_MAJOR ? i + j * shape.m : i * shape.n + j;
  return batch * shape.m * shape.n + within;
}

// Element `index` of any type, widened; for a real type the imaginary part is 0. No bounds are
// checked.
std::complex<double> GetElement(v1::DType dtype, int64_t index, absl::string_view data);

// The inverse: rounds to the type; for a real type the imaginary part is dropped.
void SetElement(v1::DType dtype, int64_t index, std::complex<double> value, std::string* data);

// The same matrices in another type, each element rounded to it.
Matrices ConvertTo(v1::DType dtype, Matrices matrices);

// The shortest decimal that reads back as the same double. "nan", "inf", "-inf" where it is not
// finite.
std::string RoundTripDouble(double value);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_ELEMENTS_H_
