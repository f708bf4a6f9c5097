#include "client/factorctl/row_file.h"

#include <memory>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/csv.h"
#include "client/factorctl/matrix_file.h"
#include "client/layout.h"
#include "client/npy_rows.h"

namespace factord::client {
namespace {

absl::StatusOr<RowFile> OpenNpy(const std::string& path) {
  absl::StatusOr<std::unique_ptr<NpyRows>> opened = NpyRows::Open(path);
  if (!opened.ok()) return opened.status();
  const std::shared_ptr<NpyRows> npy = *std::move(opened);
  return RowFile{
      path,        npy->dtype(),
      npy->rows(), npy->columns(),
      {},          [npy](int64_t first, int64_t count) { return npy->Read(first, count); }};
}

absl::StatusOr<RowFile> InMemory(const std::string& path, std::vector<std::string> names,
                                 absl::StatusOr<Matrices> matrix) {
  if (!matrix.ok()) return matrix.status();
  if (matrix->dims.size() != 2) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", DimsName(matrix->dims), " has ",
                                                   matrix->dims.size(), " dims, expected 2"));
  }
  const auto rows = std::make_shared<const Matrices>(ToRowMajor(*std::move(matrix)));
  const int64_t row_bytes = rows->dims[1] * DTypeBytes(rows->dtype);
  return RowFile{path,
                 rows->dtype,
                 rows->dims[0],
                 rows->dims[1],
                 std::move(names),
                 [rows, row_bytes](int64_t first, int64_t count) {
                   return Matrices{rows->dtype,
                                   {count, rows->dims[1]},
                                   v1::LAYOUT_ROW_MAJOR,
                                   rows->data.substr(first * row_bytes, count * row_bytes)};
                 }};
}

absl::StatusOr<RowFile> OpenCsv(const std::string& path) {
  absl::StatusOr<CsvTable> table = ReadCsv(path);
  if (!table.ok()) return table.status();
  std::vector<int64_t> columns(table->column_count);
  std::iota(columns.begin(), columns.end(), 0);
  Matrices matrix = ColumnsToMatrix(*table, columns, /*intercept=*/false);
  return InMemory(path, std::move(table->names), std::move(matrix));
}

}  // namespace

absl::StatusOr<RowFile> OpenRowFile(const std::string& path) {
  if (absl::EndsWithIgnoreCase(path, ".npy")) return OpenNpy(path);
  if (absl::EndsWithIgnoreCase(path, ".csv")) return OpenCsv(path);
  return InMemory(path, {}, ReadMatrixFile(path));
}

}  // namespace factord::client
