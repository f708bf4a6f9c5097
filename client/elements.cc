#include "client/elements.h"

#include <charconv>
#include <cstring>
#include <utility>

namespace factord::client {
namespace {

template <typename T>
T Load(int64_t index, absl::string_view data) {
  T value;
  std::memcpy(&value, data.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void Store(int64_t index, T value, std::string* data) {
  std::memcpy(data->data() + index * sizeof(T), &value, sizeof(T));
}

}  // namespace

std::complex<double> GetElement(v1::DType dtype, int64_t index, absl::string_view data) {
  switch (dtype) {
    case v1::DTYPE_F32:
      return Load<float>(index, data);
    case v1::DTYPE_F64:
      return Load<double>(index, data);
    case v1::DTYPE_C64:
      return Load<std::complex<float>>(index, data);
    case v1::DTYPE_C128:
      return Load<std::complex<double>>(index, data);
    default:
      return 0;
  }
}

void SetElement(v1::DType dtype, int64_t index, std::complex<double> value, std::string* data) {
  switch (dtype) {
    case v1::DTYPE_F32:
      return Store(index, static_cast<float>(value.real()), data);
    case v1::DTYPE_F64:
      return Store(index, value.real(), data);
    case v1::DTYPE_C64:
      return Store(index, std::complex<float>(value), data);
    case v1::DTYPE_C128:
      return Store(index, value, data);
    default:
      return;
  }
}

Matrices ConvertTo(v1::DType dtype, Matrices matrices) {
  if (matrices.dtype == dtype) return matrices;
  const int64_t count = static_cast<int64_t>(matrices.data.size()) / DTypeBytes(matrices.dtype);
  std::string data(count * DTypeBytes(dtype), '\0');
  for (int64_t i = 0; i < count; ++i) {
    SetElement(dtype, i, GetElement(matrices.dtype, i, matrices.data), &data);
  }
  matrices.dtype = dtype;
  matrices.data = std::move(data);
  return matrices;
}

std::string RoundTripDouble(double value) {
  char buffer[32];
  const std::to_chars_result result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, result.ptr);
}

}  // namespace factord::client
