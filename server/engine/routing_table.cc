#include "server/engine/routing_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "server/core/status_macros.h"

namespace factord {
namespace {

// Times are interpolated a unit of work, so that what rows do not have (the columns of C, a
// complete Q) counts by its flops and bytes. A matrix is worth some flops even if it is tiny.
constexpr double kFlopsPerMatrix = 200;
constexpr double kFlopsPerByte = 4;

// Rows that have a say, and how far apart they are: a doubling of the size counts as 1, of the
// aspect and of the count less, as times vary less with them.
constexpr std::size_t kNeighbours = 8;
constexpr double kAspectWeight = 0.5;
constexpr double kCountWeight = 0.5;
// A row this near decides alone.
constexpr double kSameDistance = 1e-9;
// Of the slopes, next to the squared distances.
constexpr double kRidge = 0.05;

using Features = std::array<double, 3>;

constexpr absl::string_view kNotMeasured = "-";
constexpr absl::string_view kFields[] = {"op", "dtype", "outputs", "m",
                                         "n",  "batch", "cpu_us",  "gpu_us"};

double UnitsOf(const Spec& spec, std::int64_t count) {
  std::int64_t bytes = 0;
  for (Operand operand : InputsOf(spec)) bytes += MatrixBytes(spec, operand);
  for (Operand operand : OutputsOf(spec)) bytes += MatrixBytes(spec, operand);
  const double a_matrix =
      FlopsOf(spec) + kFlopsPerByte * static_cast<double>(bytes) + kFlopsPerMatrix;
  return a_matrix * static_cast<double>(count);
}

Features FeaturesOf(const Spec& spec, std::int64_t count) {
  const auto m = static_cast<double>(spec.m), n = static_cast<double>(spec.n);
  return {std::log2(UnitsOf(spec, 1)) / 3, kAspectWeight * std::log2(m / n),
          kCountWeight * std::log2(static_cast<double>(count))};
}

// A row, seen from the shape that is asked for.
struct Neighbour {
  double value = 0;
  Features offset{};
  double distance2 = 0;
};

// The plane through the neighbours' values, each weighted by its nearness, at the origin: weighted
// least squares, by elimination. A little is added to the slopes' diagonal, so that what the
// neighbours do not tell, they do not change.
double ValueHere(std::span<const Neighbour> neighbours) {
  constexpr std::size_t kUnknowns = std::tuple_size_v<Features> + 1;  // the value, then slopes
  double a[kUnknowns][kUnknowns + 1] = {};                            // the last column: b
  double weights = 0;
  for (const Neighbour& neighbour : neighbours) {
    const double weight = 1 / (neighbour.distance2 + kSameDistance);
    double x[kUnknowns + 1] = {1};
    std::copy(neighbour.offset.begin(), neighbour.offset.end(), x + 1);
    x[kUnknowns] = neighbour.value;
    for (std::size_t i = 0; i < kUnknowns; ++i) {
      for (std::size_t j = 0; j <= kUnknowns; ++j) a[i][j] += weight * x[i] * x[j];
    }
    weights += weight * (neighbour.distance2 > kSameDistance);
  }
  for (std::size_t i = 1; i < kUnknowns; ++i) a[i][i] += kRidge * weights + kSameDistance;
  // Eliminate from the last unknown on: what is left is the first one's equation.
  for (std::size_t k = kUnknowns - 1; k > 0; --k) {
    for (std::size_t i = 0; i < k; ++i) {
      const double factor = a[i][k] / a[k][k];
      for (std::size_t j = 0; j <= kUnknowns; ++j) a[i][j] -= factor * a[k][j];
    }
  }
  return a[0][kUnknowns] / a[0][0];
}

template <typename Enum>
absl::StatusOr<Enum> ParseName(absl::string_view word, int values) {
  for (int i = 0; i < values; ++i) {
    if (word == Name(static_cast<Enum>(i))) return static_cast<Enum>(i);
  }
  return absl::InvalidArgumentError(absl::StrCat("\"", word, "\" is unknown"));
}

absl::StatusOr<bool> ParseOutputs(absl::string_view word) {
  if (word == "q") return true;
  if (word == "factors") return false;
  return absl::InvalidArgumentError(absl::StrCat("\"", word, "\" is neither q nor factors"));
}

absl::StatusOr<std::int64_t> ParseCount(absl::string_view word) {
  std::int64_t value = 0;
  if (absl::SimpleAtoi(word, &value) && value >= 1) return value;
  return absl::InvalidArgumentError(
      absl::StrCat("\"", word, "\" is not a whole number of at least 1"));
}

absl::StatusOr<double> ParseMicroseconds(absl::string_view word) {
  double value = 0;
  if (absl::SimpleAtod(word, &value) && value > 0 && std::isfinite(value)) return value;
  return absl::InvalidArgumentError(absl::StrCat("\"", word, "\" is not a positive time"));
}

// One line's words, turned into a row field by field; an error names the field.
class RowParser {
 public:
  explicit RowParser(std::vector<absl::string_view> words) : words_(std::move(words)) {}

  absl::StatusOr<RoutingRow> Parse() {
    if (words_.size() != std::size(kFields)) {
      return absl::InvalidArgumentError(
          absl::StrCat("a row has ", std::size(kFields), " fields, this one has ", words_.size()));
    }
    RoutingRow row;
    RETURN_IF_ERROR(Next(row.op, [](auto word) { return ParseName<Op>(word, kOps); }));
    RETURN_IF_ERROR(Next(row.dtype, [](auto word) { return ParseName<DType>(word, kDTypes); }));
    RETURN_IF_ERROR(Next(row.with_q, ParseOutputs));
    for (std::int64_t* size : {&row.m, &row.n, &row.batch})
      RETURN_IF_ERROR(Next(*size, ParseCount));
    RETURN_IF_ERROR(Next(row.cpu_us, ParseMicroseconds));
    if (words_[field_] != kNotMeasured) RETURN_IF_ERROR(Next(row.gpu_us, ParseMicroseconds));
    return row;
  }

 private:
  template <typename T, typename Parser>
  absl::Status Next(T& value, Parser parse) {
    const auto parsed = parse(words_[field_]);
    if (!parsed.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(kFields[field_], ": ", parsed.status().message()));
    }
    value = *parsed;
    ++field_;
    return absl::OkStatus();
  }

  std::vector<absl::string_view> words_;
  std::size_t field_ = 0;
};

// "key: value" into the header; each key once.
class HeaderParser {
 public:
  absl::Status Take(absl::string_view line) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    const absl::string_view key = absl::StripAsciiWhitespace(parts.first);
    const absl::string_view value = absl::StripAsciiWhitespace(parts.second);
    const absl::Status status = Set(key, value);
    if (status.ok()) return status;
    return absl::InvalidArgumentError(absl::StrCat(key, ": ", status.message()));
  }

  absl::StatusOr<RoutingHeader> Finish() const {
    for (absl::string_view key : {"device", "cpu", "threads", "source"}) {
      if (!Has(key)) return absl::InvalidArgumentError(absl::StrCat(key, ": is not set"));
    }
    return header_;
  }

 private:
  bool Has(absl::string_view key) const {
    return std::find(seen_.begin(), seen_.end(), key) != seen_.end();
  }

  absl::Status Set(absl::string_view key, absl::string_view value) {
    if (Has(key)) return absl::InvalidArgumentError("is set twice");
    seen_.emplace_back(key);
    if (value.empty()) return absl::InvalidArgumentError("is empty");
    if (key == "threads") {
      if (absl::SimpleAtoi(value, &header_.threads) && header_.threads >= 1) {
        return absl::OkStatus();
      }
      return absl::InvalidArgumentError(
          absl::StrCat("\"", value, "\" is not a whole number of at least 1"));
    }
    if (key == "source") {
      header_.measured = value == "measured";
      if (header_.measured || value == "estimated") return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat("\"", value, "\" is neither measured nor estimated"));
    }
    for (const auto& [name, field] : {std::pair("device", &header_.device),
                                      {"cpu", &header_.cpu},
                                      {"cpu_engine", &header_.cpu_engine},
                                      {"driver", &header_.driver},
                                      {"cuda", &header_.cuda},
                                      {"date", &header_.date}}) {
      if (key != name) continue;
      *field = std::string(value);
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError("is no header of a routing table");
  }

  RoutingHeader header_;
  std::vector<std::string> seen_;
};

}  // namespace

Spec SpecOf(const RoutingRow& row) {
  Spec spec;
  spec.op = row.op;
  spec.dtype = row.dtype;
  spec.m = row.m;
  spec.n = row.n;
  spec.q = row.with_q ? QMode::kReduced : QMode::kNone;
  spec.r = row.op == Op::kFactorize;
  spec.p = row.op == Op::kSolve ? 1 : row.op == Op::kApplyQ ? row.n : 0;
  return spec;
}

bool WithQ(const Spec& spec) { return spec.q != QMode::kNone; }

RoutingTable::RoutingTable(RoutingHeader header, std::vector<RoutingRow> rows)
    : header_(std::move(header)), rows_(std::move(rows)) {
  for (const RoutingRow& row : rows_) {
    const Spec spec = SpecOf(row);
    const double units = UnitsOf(spec, row.batch);
    constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
    points_[ClassOf(row.op, row.dtype, row.with_q)].push_back(
        {FeaturesOf(spec, row.batch),
         {std::log2(row.cpu_us / units),
          row.gpu_us > 0 ? std::log2(row.gpu_us / units) : kUnknown}});
  }
}

std::size_t RoutingTable::ClassOf(Op op, DType dtype, bool with_q) {
  return (static_cast<std::size_t>(op) * kDTypes + static_cast<std::size_t>(dtype)) * 2 + with_q;
}

std::optional<absl::Duration> RoutingTable::Predict(const Spec& spec, std::int64_t count,
                                                    Backend backend) const {
  const Features here = FeaturesOf(spec, count);
  std::array<Neighbour, kNeighbours> nearest;
  std::size_t found = 0;
  for (const Point& point : points_[ClassOf(spec.op, spec.dtype, WithQ(spec))]) {
    Neighbour neighbour{.value = point.log_us_a_unit[static_cast<std::size_t>(backend)]};
    if (std::isnan(neighbour.value)) continue;
    for (std::size_t i = 0; i < here.size(); ++i) {
      neighbour.offset[i] = point.at[i] - here[i];
      neighbour.distance2 += neighbour.offset[i] * neighbour.offset[i];
    }
    if (found == kNeighbours && neighbour.distance2 >= nearest[found - 1].distance2) continue;
    // Into its place; among equally near ones the earlier row comes first.
    std::size_t place = found < kNeighbours ? found++ : found - 1;
    for (; place > 0 && nearest[place - 1].distance2 > neighbour.distance2; --place)
      nearest[place] = nearest[place - 1];
    nearest[place] = neighbour;
  }
  if (found == 0) return std::nullopt;
  const double log_us_a_unit = ValueHere(std::span(nearest).first(found));
  return absl::Microseconds(std::exp2(log_us_a_unit) * UnitsOf(spec, count));
}

absl::StatusOr<RoutingTable> RoutingTable::Parse(absl::string_view text, absl::string_view name) {
  HeaderParser header;
  std::vector<RoutingRow> rows;
  int number = 0;
  const auto fault = [&](const absl::Status& status) {
    return absl::InvalidArgumentError(absl::StrCat(name, ":", number, ": ", status.message()));
  };
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    if (line.find(':') != absl::string_view::npos) {
      if (const absl::Status status = header.Take(line); !status.ok()) return fault(status);
      continue;
    }
    RowParser parser(absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty()));
    const absl::StatusOr<RoutingRow> row = parser.Parse();
    if (!row.ok()) return fault(row.status());
    rows.push_back(*row);
  }
  const absl::StatusOr<RoutingHeader> finished = header.Finish();
  if (!finished.ok()) return fault(finished.status());
  return RoutingTable(*finished, std::move(rows));
}

std::string RoutingTable::ToText() const {
  std::string text;
  const auto line = [&text](absl::string_view key, absl::string_view value) {
    if (!value.empty()) absl::StrAppend(&text, key, ": ", value, "\n");
  };
  line("device", header_.device);
  line("cpu", header_.cpu);
  line("threads", absl::StrCat(header_.threads));
  line("cpu_engine", header_.cpu_engine);
  line("driver", header_.driver);
  line("cuda", header_.cuda);
  line("date", header_.date);
  line("source", header_.measured ? "measured" : "estimated");
  absl::StrAppend(&text, "# op dtype outputs m n batch cpu_us gpu_us\n");
  for (const RoutingRow& row : rows_) {
    absl::StrAppend(&text, Name(row.op), " ", Name(row.dtype), " ", row.with_q ? "q" : "factors",
                    " ", row.m, " ", row.n, " ", row.batch, absl::StrFormat(" %.4g ", row.cpu_us),
                    row.gpu_us > 0 ? absl::StrFormat("%.4g", row.gpu_us) : kNotMeasured, "\n");
  }
  return text;
}

}  // namespace factord
