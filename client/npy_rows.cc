#include "client/npy_rows.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "client/layout.h"
#include "client/npy_header.h"

namespace factord::client {
namespace {

// The most that a header of version 1 takes; that of a matrix takes a hundred bytes.
constexpr int64_t kHeaderBytes = 1 << 16;

}  // namespace

NpyRows::NpyRows(std::string path, std::ifstream stream, int64_t bytes)
    : path_(std::move(path)), stream_(std::move(stream)), bytes_(bytes) {}

absl::StatusOr<std::unique_ptr<NpyRows>> NpyRows::Open(const std::string& path) {
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  if (!stream) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": can not be opened"));
  const int64_t bytes = stream.tellg();
  auto rows = absl::WrapUnique(new NpyRows(path, std::move(stream), bytes));
  const absl::Status status = rows->ReadHeader();
  if (!status.ok()) return status;
  return rows;
}

absl::Status NpyRows::ReadHeader() {
  std::string beginning(std::min(bytes_, kHeaderBytes), '\0');
  stream_.seekg(0);
  stream_.read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
  if (!stream_) {
    return absl::ErrnoToStatus(errno, absl::StrCat(path_, ": can not be read"));
  }
  const absl::StatusOr<NpyHeader> header = ParseNpyHeader(path_, beginning);
  if (!header.ok()) return header.status();
  const absl::StatusOr<const NpyType*> type = FindNpyType(path_, header->descr);
  if (!type.ok()) return type.status();
  if (header->shape.size() != 2) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": ", DimsName(header->shape), " has ",
                                                   header->shape.size(), " dims, expected 2"));
  }
  const absl::StatusOr<int64_t> bytes = TensorBytes((*type)->dtype, header->shape);
  if (!bytes.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": ", bytes.status().message()));
  }
  const int64_t file_bytes = *bytes / DTypeBytes((*type)->dtype) * (*type)->file_bytes;
  if (bytes_ - header->data_offset != file_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": byte ", header->data_offset, ": expected ", file_bytes,
                     " bytes for ", DimsName(header->shape), " of '", header->descr, "', but ",
                     bytes_ - header->data_offset, " follow"));
  }
  type_ = *type;
  fortran_order_ = header->fortran_order;
  rows_ = header->shape[0];
  columns_ = header->shape[1];
  data_offset_ = header->data_offset;
  return absl::OkStatus();
}

absl::StatusOr<Matrices> NpyRows::Read(int64_t first, int64_t count) {
  Matrices block{type_->dtype, {count, columns_}, v1::LAYOUT_ROW_MAJOR, ""};
  absl::Status status;
  if (fortran_order_) {
    block.layout = v1::LAYOUT_COLUMN_MAJOR;
    for (int64_t j = 0; j < columns_ && status.ok(); ++j) {
      status = ReadElements(j * rows_ + first, count, &block.data);
    }
  } else {
    status = ReadElements(first * columns_, count * columns_, &block.data);
  }
  if (!status.ok()) return status;
  if (type_->promote != nullptr) block.data = type_->promote(block.data);
  return ToRowMajor(std::move(block));
}

absl::Status NpyRows::ReadElements(int64_t index, int64_t count, std::string* data) {
  const size_t before = data->size();
  data->resize(before + count * type_->file_bytes);
  stream_.seekg(data_offset_ + index * type_->file_bytes);
  stream_.read(data->data() + before, count * type_->file_bytes);
  if (!stream_) {
    return absl::ErrnoToStatus(errno, absl::StrCat(path_, ": can not be read"));
  }
  return absl::OkStatus();
}

}  // namespace factord::client
