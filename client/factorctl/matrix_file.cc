#include "client/factorctl/matrix_file.h"

#include <numeric>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/csv.h"
#include "client/factorctl/flags.h"
#include "client/matrix_market.h"
#include "client/npy.h"

namespace factord::client {

absl::StatusOr<Matrices> ReadMatrixFile(const std::string& path) {
  if (absl::EndsWithIgnoreCase(path, ".npy")) return ReadNpy(path);
  if (absl::EndsWithIgnoreCase(path, ".mtx")) return ReadMatrixMarket(path);
  if (absl::EndsWithIgnoreCase(path, ".csv")) {
    const absl::StatusOr<CsvTable> table = ReadCsv(path);
    if (!table.ok()) return table.status();
    std::vector<int64_t> columns(table->column_count);
    std::iota(columns.begin(), columns.end(), 0);
    return ColumnsToMatrix(*table, columns, /*intercept=*/false);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": expected a name that ends in .npy, .mtx or .csv"));
}

absl::Status WriteMatrixFile(const std::string& path, const Matrices& matrices) {
  if (absl::EndsWithIgnoreCase(path, ".mtx")) return WriteMatrixMarket(path, matrices);
  return WriteNpy(path, matrices);
}

absl::Status CheckOutputPath(const std::string& path) {
  if (path.empty() || absl::EndsWithIgnoreCase(path, ".npy") ||
      absl::EndsWithIgnoreCase(path, ".mtx")) {
    return absl::OkStatus();
  }
  return UsageError(absl::StrCat(path, ": expected a name that ends in .npy or .mtx"));
}

}  // namespace factord::client
