#include "client/npy.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/file_io.h"
#include "client/layout.h"
#include "client/npy_header.h"

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

// One of NumPy's types and what becomes of it.
struct NpyType {
  absl::string_view code;  // without the byte order
  int64_t file_bytes;
  v1::DType dtype;
  std::string (*promote)(absl::string_view);  // null: the bytes are right as they are
};

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

// Null: not one that can be factorized.
const NpyType* FindType(absl::string_view descr) {
  if (descr.empty()) return nullptr;
  for (const NpyType& type : kTypes) {
    if (descr.substr(1) != type.code) continue;
    const bool has_native_order = descr[0] == '<' || descr[0] == '=' || descr[0] == '|';
    return has_native_order || type.file_bytes == 1 ? &type : nullptr;
  }
  return nullptr;
}

absl::string_view Descr(v1::DType dtype) {
  for (const NpyType& type : kTypes) {
    if (type.dtype == dtype) return type.code;
  }
  return "";
}

}  // namespace

absl::StatusOr<Matrices> ParseNpy(absl::string_view file, absl::string_view contents) {
  absl::StatusOr<NpyHeader> header = ParseNpyHeader(file, contents);
  if (!header.ok()) return header.status();
  const NpyType* type = FindType(header->descr);
  if (type == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        file, ": the type is '", header->descr,
        "', expected '<f4', '<f8', '<c8', '<c16' or little-endian integers or booleans"));
  }

  // Count in the promoted type: what must fit in memory. The file's own bytes are then fewer, or as
  // many.
  const absl::StatusOr<int64_t> bytes = TensorBytes(type->dtype, header->shape);
  if (!bytes.ok())
    return absl::InvalidArgumentError(absl::StrCat(file, ": ", bytes.status().message()));
  const int64_t file_bytes = *bytes / DTypeBytes(type->dtype) * type->file_bytes;
  const int64_t data_bytes = static_cast<int64_t>(contents.size()) - header->data_offset;
  if (data_bytes != file_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        file, ": byte ", header->data_offset, ": expected ", file_bytes, " bytes for ",
        DimsName(header->shape), " of '", header->descr, "', but ", data_bytes, " follow"));
  }

  Matrices result;
  result.dtype = type->dtype;
  const absl::string_view data = contents.substr(header->data_offset);
  result.data = type->promote != nullptr ? type->promote(data) : std::string(data);
  if (header->fortran_order && header->shape.size() == 2) {
    result.layout = v1::LAYOUT_COLUMN_MAJOR;
  } else if (header->fortran_order && header->shape.size() > 2) {
    result.data = FortranToRowMajor(result.data, header->shape, DTypeBytes(result.dtype));
  }
  result.dims = std::move(header->shape);
  return result;
}

absl::StatusOr<Matrices> ReadNpy(const std::string& path) {
  const absl::StatusOr<std::string> contents = ReadFile(path);
  if (!contents.ok()) return contents.status();
  return ParseNpy(path, *contents);
}

std::string FormatNpy(const Matrices& matrices) {
  if (matrices.layout == v1::LAYOUT_COLUMN_MAJOR && matrices.dims.size() > 2) {
    return FormatNpy(ToRowMajor(matrices));
  }
  const bool is_fortran = matrices.layout == v1::LAYOUT_COLUMN_MAJOR;
  std::string header = absl::StrCat("{'descr': '<", Descr(matrices.dtype),
                                    "', 'fortran_order': ", is_fortran ? "True" : "False",
                                    ", 'shape': (", absl::StrJoin(matrices.dims, ", "),
                                    matrices.dims.size() == 1 ? ",), }" : "), }");
  // NumPy aligns the data to 64 bytes, so that they can be mapped.
  while ((10 + header.size() + 1) % 64 != 0) header.push_back(' ');
  header.push_back('\n');
  const char prefix[] = {'\x93',
                         'N',
                         'U',
                         'M',
                         'P',
                         'Y',
                         1,
                         0,
                         static_cast<char>(header.size() & 0xff),
                         static_cast<char>(header.size() >> 8)};
  return absl::StrCat(absl::string_view(prefix, sizeof(prefix)), header, matrices.data);
}

absl::Status WriteNpy(const std::string& path, const Matrices& matrices) {
  return WriteFile(path, FormatNpy(matrices));
}

}  // namespace factord::client
