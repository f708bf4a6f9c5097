#ifndef FACTORD_CLIENT_CSV_H_
#define FACTORD_CLIENT_CSV_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/tensor.h"

namespace factord::client {

// A table of numbers.
struct CsvTable {
  std::string file;                // for messages
  std::vector<std::string> names;  // of the columns; empty without a header
  int64_t column_count = 0;
  int64_t row_count = 0;
  std::vector<double> values;  // row-major
};

// Comma-separated values with '.' as the decimal point; empty lines are skipped; fields may be
// quoted as in RFC 4180, without line breaks inside. The first line is a header if any of its
// fields is not a number. INVALID_ARGUMENT names `file`, the line, the column and what was expected
// there.
absl::StatusOr<CsvTable> ParseCsv(absl::string_view file, absl::string_view contents);
absl::StatusOr<CsvTable> ReadCsv(const std::string& path);

// A column by name, or by number from 0 where no column has such a name. INVALID_ARGUMENT says what
// there is.
absl::StatusOr<int64_t> FindColumn(const CsvTable& table, absl::string_view name_or_number);

// Rows [begin, end). INVALID_ARGUMENT if there are no such rows.
absl::StatusOr<CsvTable> SelectRows(CsvTable table, int64_t begin, int64_t end);

// The columns as a row-major F64 matrix; with `intercept`, after a column of ones.
Matrices ColumnsToMatrix(const CsvTable& table, absl::Span<const int64_t> columns, bool intercept);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_CSV_H_
