#include "client/csv.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/elements.h"
#include "client/file_io.h"

namespace factord::client {
namespace {

// One line's fields. Nothing if a quote is not closed, or text follows a closed one.
std::optional<std::vector<std::string>> SplitFields(absl::string_view line) {
  std::vector<std::string> fields;
  while (true) {
    std::string& field = fields.emplace_back();
    const absl::string_view trimmed = absl::StripLeadingAsciiWhitespace(line);
    if (!trimmed.empty() && trimmed[0] == '"') {
      line = trimmed.substr(1);
      while (true) {
        const size_t quote = line.find('"');
        if (quote == absl::string_view::npos) return std::nullopt;
        field.append(line.data(), quote);
        line.remove_prefix(quote + 1);
        if (line.empty() || line[0] != '"') break;
        field.push_back('"');  // two quotes inside are one
        line.remove_prefix(1);
      }
      line = absl::StripLeadingAsciiWhitespace(line);
      if (!line.empty() && line[0] != ',') return std::nullopt;
    } else {
      const size_t comma = std::min(line.find(','), line.size());
      field = std::string(absl::StripAsciiWhitespace(line.substr(0, comma)));
      line.remove_prefix(comma);
    }
    if (line.empty()) return fields;
    line.remove_prefix(1);
  }
}

bool IsHeader(const std::vector<std::string>& fields) {
  return std::any_of(fields.begin(), fields.end(), [](const std::string& field) {
    double ignored;
    return !absl::SimpleAtod(field, &ignored);
  });
}

}  // namespace

absl::StatusOr<CsvTable> ParseCsv(absl::string_view file, absl::string_view contents) {
  CsvTable table;
  table.file = std::string(file);
  bool is_first = true;
  int64_t line_number = 0;
  const auto expected = [&](const auto&... parts) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": line ", line_number, ": expected ", parts...));
  };
  if (contents.substr(0, 3) == "\xef\xbb\xbf") contents.remove_prefix(3);  // a byte order mark
  while (!contents.empty()) {
    const size_t end = std::min(contents.find('\n'), contents.size());
    const absl::string_view line = absl::StripAsciiWhitespace(contents.substr(0, end));
    contents.remove_prefix(std::min(end + 1, contents.size()));
    ++line_number;
    if (line.empty()) continue;

    std::optional<std::vector<std::string>> fields = SplitFields(line);
    if (!fields.has_value()) return expected("every quote closed before the next comma");
    const int64_t count = static_cast<int64_t>(fields->size());
    if (is_first) table.column_count = count;
    if (std::exchange(is_first, false) && IsHeader(*fields)) {
      table.names = *std::move(fields);
      continue;
    }
    if (count != table.column_count) {
      return expected(table.column_count, " fields, as in the first line, not ", count);
    }
    for (int64_t column = 0; column < count; ++column) {
      if (!absl::SimpleAtod((*fields)[column], &table.values.emplace_back())) {
        return expected("a number in column ", column, ", not '", (*fields)[column], "'");
      }
    }
    ++table.row_count;
  }
  if (table.row_count == 0) return expected("at least one row of numbers");
  return table;
}

absl::StatusOr<CsvTable> ReadCsv(const std::string& path) {
  const absl::StatusOr<std::string> contents = ReadFile(path);
  if (!contents.ok()) return contents.status();
  return ParseCsv(path, *contents);
}

absl::StatusOr<int64_t> FindColumn(const CsvTable& table, absl::string_view name_or_number) {
  for (size_t column = 0; column < table.names.size(); ++column) {
    if (table.names[column] == name_or_number) return static_cast<int64_t>(column);
  }
  int64_t number = 0;
  if (absl::SimpleAtoi(name_or_number, &number) && number >= 0 && number < table.column_count) {
    return number;
  }
  const std::string names =
      table.names.empty() ? "" : absl::StrCat(" (", absl::StrJoin(table.names, ", "), ")");
  return absl::InvalidArgumentError(absl::StrCat(table.file, ": no column '", name_or_number,
                                                 "', expected 0..", table.column_count - 1, names));
}

absl::StatusOr<CsvTable> SelectRows(CsvTable table, int64_t begin, int64_t end) {
  if (begin < 0 || begin > end || end > table.row_count) {
    return absl::InvalidArgumentError(absl::StrCat(table.file, ": no rows ", begin, ":", end,
                                                   ", expected some of 0:", table.row_count));
  }
  table.values.erase(table.values.begin() + end * table.column_count, table.values.end());
  table.values.erase(table.values.begin(), table.values.begin() + begin * table.column_count);
  table.row_count = end - begin;
  return table;
}

Matrices ColumnsToMatrix(const CsvTable& table, absl::Span<const int64_t> columns, bool intercept) {
  Matrices matrix;
  matrix.dtype = v1::DTYPE_F64;
  const int64_t n = static_cast<int64_t>(columns.size()) + (intercept ? 1 : 0);
  matrix.dims = {table.row_count, n};
  matrix.data.resize(table.row_count * n * sizeof(double));
  int64_t index = 0;
  for (int64_t row = 0; row < table.row_count; ++row) {
    if (intercept) SetElement(matrix.dtype, index++, 1.0, &matrix.data);
    for (int64_t column : columns) {
      SetElement(matrix.dtype, index++, table.values[row * table.column_count + column],
                 &matrix.data);
    }
  }
  return matrix;
}

}  // namespace factord::client
