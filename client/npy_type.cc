#include "client/npy_type.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace factord::client {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "both files and wire are little-endian");

template <typename Integer>
std::string PromoteToF64(absl::string_view data) {
  std::string result(data.size() / sizeof(Integer) * sizeof(double), '\0');
  for (size_t i = 0; i < data.size() / sizeof(Integer); ++i) {
    Integer integer;
    std::memcpy(&integer, data.data() + i * sizeof(Integer), sizeof(Integer));
    const double real = static_cast<double>(integer);
    std::memcpy(result.data() + i * sizeof(double), &real, sizeof(double));
  }
  return result;
}

constexpr NpyType kTypes[] = {
    {"f4", 4, v1::DTYPE_F32, nullptr},
    {"f8", 8, v1::DTYPE_F64, nullptr},
    {"c8", 8, v1::DTYPE_C64, nullptr},
    {"c16", 16, v1::DTYPE_C128, nullptr},
    {"b1", 1, v1::DTYPE_F64, PromoteToF64<uint8_t>},
    {"i1", 1, v1::DTYPE_F64, PromoteToF64<int8_t>},
    {"u1", 1, v1::DTYPE_F64, PromoteToF64<uint8_t>},
    {"i2", 2, v1::DTYPE_F64, PromoteToF64<int16_t>},
    {"u2", 2, v1::DTYPE_F64, PromoteToF64<uint16_t>},
    {"i4", 4, v1::DTYPE_F64, PromoteToF64<int32_t>},
    {"u4", 4, v1::DTYPE_F64, PromoteToF64<uint32_t>},
    {"i8", 8, v1::DTYPE_F64, PromoteToF64<int64_t>},
    {"u8", 8, v1::DTYPE_F64, PromoteToF64<uint64_t>},
};

}  // namespace

absl::StatusOr<const NpyType*> FindNpyType(absl::string_view file, absl::string_view descr) {
  for (const NpyType& type : kTypes) {
    if (descr.empty() || descr.substr(1) != type.code) continue;
    const bool has_native_order = descr[0] == '<' || descr[0] == '=' || descr[0] == '|';
    if (has_native_order || type.file_bytes == 1) return &type;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      file, ": the type is '", descr,
      "', expected '<f4', '<f8', '<c8', '<c16' or little-endian integers or booleans"));
}

std::string NpyDescr(v1::DType dtype) {
  for (const NpyType& type : kTypes) {
    if (type.dtype == dtype) return absl::StrCat("<", type.code);
  }
  return "";
}

}  // namespace factord::client
