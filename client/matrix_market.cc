#include "client/matrix_market.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/elements.h"
#include "client/file_io.h"

namespace factord::client {
namespace {

using Words = std::vector<absl::string_view>;

enum class Field { kReal, kInteger, kPattern, kComplex };
enum class Symmetry { kGeneral, kSymmetric, kSkewSymmetric, kHermitian };

// The first line.
struct Banner {
  bool is_coordinate = false;
  Field field = Field::kReal;
  Symmetry symmetry = Symmetry::kGeneral;
};

// Hands out the lines that hold something, split into words, and knows where it is.
class LineReader {
 public:
  LineReader(absl::string_view file, absl::string_view contents) : file_(file), rest_(contents) {}

  bool NextLine(absl::string_view* line) {
    if (rest_.empty()) return false;
    const size_t end = std::min(rest_.find('\n'), rest_.size());
    *line = absl::StripAsciiWhitespace(rest_.substr(0, end));
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    ++line_;
    return true;
  }

  // Skips comments and empty lines. False at the file's end.
  bool NextWords(Words* words) {
    absl::string_view line;
    while (NextLine(&line)) {
      if (line.empty() || line[0] == '%') continue;
      *words = absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
      return true;
    }
    return false;
  }

  template <typename... Parts>
  absl::Status Expected(const Parts&... parts) const {
    return absl::InvalidArgumentError(
        absl::StrCat(file_, ": line ", line_, ": expected ", parts...));
  }

 private:
  const absl::string_view file_;
  absl::string_view rest_;
  int64_t line_ = 0;
};

absl::Status ParseBanner(LineReader* reader, Banner* banner) {
  absl::string_view line;
  reader->NextLine(&line);
  // The keywords may be written in any case.
  const std::string lower = absl::AsciiStrToLower(line);
  const Words words = absl::StrSplit(lower, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  if (words.size() != 5 || words[0] != "%%matrixmarket" || words[1] != "matrix") {
    return reader->Expected("'%%MatrixMarket matrix FORMAT FIELD SYMMETRY'");
  }
  banner->is_coordinate = words[2] == "coordinate";
  if (!banner->is_coordinate && words[2] != "array") {
    return reader->Expected("coordinate or array, not '", words[2], "'");
  }
  if (words[3] == "real" || words[3] == "double") {
    banner->field = Field::kReal;
  } else if (words[3] == "integer") {
    banner->field = Field::kInteger;
  } else if (words[3] == "complex") {
    banner->field = Field::kComplex;
  } else if (words[3] == "pattern" && banner->is_coordinate) {
    banner->field = Field::kPattern;
  } else {
    return reader->Expected("real, integer, complex or (coordinate only) pattern, not '", words[3],
                            "'");
  }
  if (words[4] == "general") {
    banner->symmetry = Symmetry::kGeneral;
  } else if (words[4] == "symmetric") {
    banner->symmetry = Symmetry::kSymmetric;
  } else if (words[4] == "skew-symmetric" && banner->field != Field::kPattern) {
    banner->symmetry = Symmetry::kSkewSymmetric;
  } else if (words[4] == "hermitian" && banner->field == Field::kComplex) {
    banner->symmetry = Symmetry::kHermitian;
  } else {
    return reader->Expected("general, symmetric, skew-symmetric (not pattern) or hermitian ",
                            "(complex only), not '", words[4], "'");
  }
  return absl::OkStatus();
}

// The numbers of one entry, which start at words[first] and must end the line.
absl::Status ParseValue(const LineReader& reader, const Banner& banner, const Words& words,
                        size_t first, std::complex<double>* value) {
  const size_t count = banner.field == Field::kComplex   ? 2
                       : banner.field == Field::kPattern ? 0
                                                         : 1;
  if (words.size() != first + count) {
    return reader.Expected(first + count, " numbers, not ", words.size());
  }
  double parts[2] = {1, 0};
  for (size_t i = 0; i < count; ++i) {
    if (!absl::SimpleAtod(words[first + i], &parts[i])) {
      return reader.Expected("a number, not '", words[first + i], "'");
    }
  }
  *value = {parts[0], parts[1]};
  return absl::OkStatus();
}

// A dense column-major matrix being filled.
class DenseMatrix {
 public:
  DenseMatrix(const Banner& banner, int64_t m, int64_t n)
      : banner_(banner), m_(m), values_(static_cast<size_t>(m * n)) {
    result_.dtype = banner.field == Field::kComplex ? v1::DTYPE_C128 : v1::DTYPE_F64;
    result_.dims = {m, n};
    result_.layout = v1::LAYOUT_COLUMN_MAJOR;
  }

  // Adds to A(i, j) and to its mirror image.
  void Add(int64_t i, int64_t j, std::complex<double> value) {
    values_[i + j * m_] += value;
    if (i == j) return;
    switch (banner_.symmetry) {
      case Symmetry::kGeneral:
        return;
      case Symmetry::kSymmetric:
        values_[j + i * m_] += value;
        return;
      case Symmetry::kSkewSymmetric:
        values_[j + i * m_] -= value;
        return;
      case Symmetry::kHermitian:
        values_[j + i * m_] += std::conj(value);
        return;
    }
  }

  Matrices Take() {
    result_.data.resize(values_.size() * DTypeBytes(result_.dtype));
    for (size_t i = 0; i < values_.size(); ++i) {
      SetElement(result_.dtype, static_cast<int64_t>(i), values_[i], &result_.data);
    }
    return std::move(result_);
  }

 private:
  const Banner banner_;
  const int64_t m_;
  std::vector<std::complex<double>> values_;
  Matrices result_;
};

absl::Status ParseCoordinates(LineReader* reader, const Banner& banner, int64_t m, int64_t n,
                              int64_t count, DenseMatrix* matrix) {
  Words words;
  for (int64_t entry = 0; entry < count; ++entry) {
    if (!reader->NextWords(&words)) {
      return reader->Expected(count, " entries, but the file ends after ", entry);
    }
    int64_t i = 0;
    int64_t j = 0;
    if (words.size() < 2 || !absl::SimpleAtoi(words[0], &i) || !absl::SimpleAtoi(words[1], &j)) {
      return reader->Expected("a row and a column number");
    }
    if (i < 1 || i > m || j < 1 || j > n) {
      return reader->Expected("a row in 1..", m, " and a column in 1..", n, ", not ", i, " ", j);
    }
    if (banner.symmetry != Symmetry::kGeneral && i < j) {
      return reader->Expected("only the lower triangle of a matrix with symmetry, not ", i, " ", j);
    }
    std::complex<double> value;
    const absl::Status status = ParseValue(*reader, banner, words, 2, &value);
    if (!status.ok()) return status;
    if (banner.symmetry == Symmetry::kSkewSymmetric && i == j && value != 0.0) {
      return reader->Expected("a zero diagonal of a skew-symmetric matrix");
    }
    matrix->Add(i - 1, j - 1, value);
  }
  return absl::OkStatus();
}

absl::Status ParseArray(LineReader* reader, const Banner& banner, int64_t m, int64_t n,
                        DenseMatrix* matrix) {
  Words words;
  for (int64_t j = 0; j < n; ++j) {
    // With symmetry the file has the lower triangle only, skew-symmetric without the diagonal.
    const int64_t first = banner.symmetry == Symmetry::kGeneral         ? 0
                          : banner.symmetry == Symmetry::kSkewSymmetric ? j + 1
                                                                        : j;
    for (int64_t i = first; i < m; ++i) {
      if (!reader->NextWords(&words)) {
        return reader->Expected("an entry for row ", i + 1, ", column ", j + 1,
                                ", but the file ends");
      }
      std::complex<double> value;
      const absl::Status status = ParseValue(*reader, banner, words, 0, &value);
      if (!status.ok()) return status;
      matrix->Add(i, j, value);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Matrices> ParseMatrixMarket(absl::string_view file, absl::string_view contents) {
  LineReader reader(file, contents);
  Banner banner;
  absl::Status status = ParseBanner(&reader, &banner);
  if (!status.ok()) return status;

  const size_t size_count = banner.is_coordinate ? 3 : 2;
  Words words;
  int64_t sizes[3] = {0, 0, 0};
  bool has_sizes = reader.NextWords(&words) && words.size() == size_count;
  for (size_t i = 0; has_sizes && i < size_count; ++i) {
    has_sizes = absl::SimpleAtoi(words[i], &sizes[i]) && sizes[i] >= 0;
  }
  if (!has_sizes) {
    return reader.Expected(banner.is_coordinate ? "rows, columns and entries" : "rows and columns");
  }
  const auto [m, n, count] = sizes;
  if (banner.symmetry != Symmetry::kGeneral && m != n) {
    return reader.Expected("a square matrix, not ", m, "x", n);
  }
  const absl::StatusOr<int64_t> bytes = TensorBytes(v1::DTYPE_C128, {m, n});
  if (!bytes.ok() || *bytes > kMaxDenseBytes) {
    return reader.Expected("at most ", kMaxDenseBytes / 16, " elements as a dense matrix, not ", m,
                           "x", n);
  }

  DenseMatrix matrix(banner, m, n);
  status = banner.is_coordinate ? ParseCoordinates(&reader, banner, m, n, count, &matrix)
                                : ParseArray(&reader, banner, m, n, &matrix);
  if (!status.ok()) return status;
  if (reader.NextWords(&words)) return reader.Expected("the file's end");
  return matrix.Take();
}

absl::StatusOr<Matrices> ReadMatrixMarket(const std::string& path) {
  const absl::StatusOr<std::string> contents = ReadFile(path);
  if (!contents.ok()) return contents.status();
  return ParseMatrixMarket(path, *contents);
}

absl::StatusOr<std::string> FormatMatrixMarket(const Matrices& matrix) {
  if (matrix.dims.empty()) return absl::InvalidArgumentError("a scalar is not a matrix");
  // One dim: a column, as for NumPy's solvers.
  std::vector<int64_t> dims = matrix.dims;
  if (dims.size() == 1) dims.push_back(1);
  const BatchShape shape = ShapeOf(dims);
  if (shape.batch_count != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a Matrix Market file holds one matrix, and there are ", shape.batch_count));
  }
  const bool is_complex = IsComplex(matrix.dtype);
  std::string text = absl::StrCat("%%MatrixMarket matrix array ", is_complex ? "complex" : "real",
                                  " general\n", shape.m, " ", shape.n, "\n");
  for (int64_t j = 0; j < shape.n; ++j) {
    for (int64_t i = 0; i < shape.m; ++i) {
      const std::complex<double> value =
          GetElement(matrix.dtype, ElementIndex(matrix.layout, shape, 0, i, j), matrix.data);
      absl::StrAppend(&text, RoundTripDouble(value.real()));
      if (is_complex) absl::StrAppend(&text, " ", RoundTripDouble(value.imag()));
      text.push_back('\n');
    }
  }
  return text;
}

absl::Status WriteMatrixMarket(const std::string& path, const Matrices& matrix) {
  const absl::StatusOr<std::string> text = FormatMatrixMarket(matrix);
  if (!text.ok()) {
    return absl::Status(text.status().code(), absl::StrCat(path, ": ", text.status().message()));
  }
  return WriteFile(path, *text);
}

}  // namespace factord::client
