#include "client/factorctl/problem_input.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/csv.h"
#include "client/elements.h"
#include "client/factorctl/flags.h"
#include "client/factorctl/matrix_file.h"
#include "client/layout.h"

namespace factord::client {
namespace {

absl::StatusOr<CsvTable> SelectRows(CsvTable table, const std::string& rows) {
  if (rows.empty()) return table;
  const std::vector<std::string> ends = absl::StrSplit(rows, ':');
  int64_t begin = 0;
  int64_t end = table.row_count;
  const bool is_range = ends.size() == 2 &&
                        (ends[0].empty() || absl::SimpleAtoi(ends[0], &begin)) &&
                        (ends[1].empty() || absl::SimpleAtoi(ends[1], &end));
  if (!is_range) return UsageError(absl::StrCat("--rows is '", rows, "', expected BEGIN:END"));
  return SelectRows(std::move(table), begin, end);
}

std::string ColumnName(const CsvTable& table, int64_t column) {
  return table.names.empty() ? absl::StrCat("column ", column) : table.names[column];
}

absl::StatusOr<ProblemInput> ReadCsvProblem(const std::string& path, const ProblemFlags& flags) {
  absl::StatusOr<CsvTable> table = ReadCsv(path);
  if (table.ok()) table = SelectRows(*std::move(table), flags.rows);
  if (!table.ok()) return table.status();
  const absl::StatusOr<int64_t> y = FindColumn(*table, flags.y);
  if (!y.ok()) return y.status();
  std::vector<int64_t> columns;
  for (const std::string& name : flags.x) {
    const absl::StatusOr<int64_t> column = FindColumn(*table, name);
    if (!column.ok()) return column.status();
    columns.push_back(*column);
  }
  for (int64_t column = 0; flags.x.empty() && column < table->column_count; ++column) {
    if (column != *y) columns.push_back(column);
  }

  ProblemInput input;
  input.a = ColumnsToMatrix(*table, columns, flags.intercept);
  input.b = ColumnsToMatrix(*table, {*y}, /*intercept=*/false);
  input.b_is_vector = true;
  if (flags.intercept) input.unknown_names.push_back("intercept");
  for (int64_t column : columns) input.unknown_names.push_back(ColumnName(*table, column));
  return input;
}

absl::StatusOr<ProblemInput> ReadTwoFiles(const std::string& a_path, const std::string& b_path) {
  ProblemInput input;
  absl::StatusOr<Matrices> a = ReadMatrixFile(a_path);
  if (!a.ok()) return a.status();
  absl::StatusOr<Matrices> b = ReadMatrixFile(b_path);
  if (!b.ok()) return b.status();
  if (a->dims.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(a_path, ": expected at least two dims, not ", a->dims.size()));
  }
  input.b_is_vector = b->dims.size() + 1 == a->dims.size();
  if (input.b_is_vector) {
    // Two dims in Fortran's order are here a batch of vectors, not a matrix.
    *b = ToRowMajor(std::move(*b));
    b->dims.push_back(1);
  }
  const bool is_complex = IsComplex(a->dtype) || IsComplex(b->dtype);
  const bool is_double = UnitRoundoff(a->dtype) < 1e-10 || UnitRoundoff(b->dtype) < 1e-10;
  const v1::DType dtype = is_complex ? (is_double ? v1::DTYPE_C128 : v1::DTYPE_C64)
                                     : (is_double ? v1::DTYPE_F64 : v1::DTYPE_F32);
  input.a = ConvertTo(dtype, *std::move(a));
  input.b = ConvertTo(dtype, *std::move(b));
  return input;
}

}  // namespace

absl::StatusOr<ProblemInput> ReadProblem(const std::vector<std::string>& paths,
                                         const ProblemFlags& flags) {
  if (paths.size() == 1 && absl::EndsWithIgnoreCase(paths[0], ".csv")) {
    if (flags.y.empty()) return UsageError("--y is needed: which column of the CSV file is b");
    return ReadCsvProblem(paths[0], flags);
  }
  if (paths.size() != 2) return UsageError("expected the files A and b, or one CSV file and --y");
  if (!flags.y.empty() || !flags.x.empty() || flags.intercept || !flags.rows.empty()) {
    return UsageError("--y, --x, --intercept and --rows need one CSV file");
  }
  return ReadTwoFiles(paths[0], paths[1]);
}

}  // namespace factord::client
