#include "client/npy.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/file_io.h"
#include "client/layout.h"
#include "client/npy_header.h"
#include "client/npy_type.h"

namespace factord::client {
absl::StatusOr<Matrices> ParseNpy(absl::string_view file, absl::string_view contents) {
  absl::StatusOr<NpyHeader> header = ParseNpyHeader(file, contents);
  if (!header.ok()) return header.status();
  const absl::StatusOr<const NpyType*> found = FindNpyType(file, header->descr);
  if (!found.ok()) return found.status();
  const NpyType* type = *found;

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
  std::string header = absl::StrCat("{'descr': '", NpyDescr(matrices.dtype),
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
