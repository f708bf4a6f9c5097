#include <algorithm>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/csv.h"
#include "client/elements.h"
#include "client/factorctl/commands.h"
#include "client/factorctl/flags.h"
#include "client/factorctl/json.h"
#include "client/factorctl/matrix_file.h"
#include "client/factorctl/progress.h"
#include "client/factorctl/report.h"
#include "client/factorctl/row_file.h"
#include "client/factorctl/server_flags.h"
#include "client/factord_client.h"

namespace factord::client {
namespace {

constexpr int64_t kBlockBytes = int64_t{1} << 20;

struct Arguments {
  ServerFlags server;
  RunFlags run;
  std::string y;
  bool intercept = false;
  std::optional<double> rcond;
  std::string out;
  std::string out_r;
  int64_t show = 10;
};

// How a row of a file becomes one of (A b): a one in front where wanted, b moved to the end.
struct RowOrder {
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  int64_t columns = 0;       // of the files
  std::optional<int64_t> y;  // the column that is b
  bool intercept = false;
  std::vector<std::string> unknown_names;  // of the columns of A

  int64_t n() const { return static_cast<int64_t>(unknown_names.size()); }
  int64_t nrhs() const { return y.has_value() ? 1 : 0; }
};

absl::StatusOr<RowOrder> OrderOf(const RowFile& file, const Arguments& arguments) {
  RowOrder order;
  order.dtype = file.dtype;
  order.columns = file.columns;
  order.intercept = arguments.intercept;
  if (!arguments.y.empty()) {
    CsvTable table;
    table.file = file.path;
    table.names = file.names;
    table.column_count = file.columns;
    const absl::StatusOr<int64_t> y = FindColumn(table, arguments.y);
    if (!y.ok()) return y.status();
    order.y = *y;
  }
  if (order.intercept) order.unknown_names.push_back("intercept");
  for (int64_t column = 0; column < file.columns; ++column) {
    if (order.y == column) continue;
    order.unknown_names.push_back(file.names.empty() ? absl::StrCat("x[", column, "]")
                                                     : file.names[column]);
  }
  return order;
}

absl::Status CheckFits(const RowFile& file, const RowOrder& order) {
  if (file.columns == order.columns && file.dtype == order.dtype) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(file.path, ": ", file.columns, " columns of ", DTypeName(file.dtype),
                   ", the files before it have ", order.columns, " of ", DTypeName(order.dtype)));
}

// The block's rows as those of (A b).
std::string Arrange(const RowOrder& order, const Matrices& block) {
  if (!order.intercept && !order.y.has_value()) return block.data;
  const int64_t bytes = DTypeBytes(order.dtype);
  std::string one(bytes, '\0');
  SetElement(order.dtype, 0, 1.0, &one);
  std::string rows;
  rows.reserve(block.dims[0] * (order.n() + order.nrhs()) * bytes);
  for (int64_t i = 0; i < block.dims[0]; ++i) {
    const absl::string_view row =
        absl::string_view(block.data).substr(i * order.columns * bytes, order.columns * bytes);
    if (order.intercept) absl::StrAppend(&rows, one);
    const int64_t y = order.y.value_or(order.columns) * bytes;
    absl::StrAppend(&rows, row.substr(0, y));
    if (order.y.has_value()) {
      absl::StrAppend(&rows, row.substr(y + bytes), row.substr(y, bytes));
    }
  }
  return rows;
}

absl::Status SendFile(const RowFile& file, const RowOrder& order, RowReducer* reducer,
                      const std::function<void(double)>& progress) {
  const int64_t row_bytes = std::max<int64_t>(1, file.columns * DTypeBytes(file.dtype));
  const int64_t block_rows = std::max<int64_t>(1, kBlockBytes / row_bytes);
  for (int64_t first = 0; first < file.rows; first += block_rows) {
    const absl::StatusOr<Matrices> block =
        file.read(first, std::min(block_rows, file.rows - first));
    if (!block.ok()) return block.status();
    const absl::Status status = reducer->Add(Arrange(order, *block));
    if (!status.ok()) return status;
    progress(static_cast<double>(first) / static_cast<double>(file.rows));
  }
  return absl::OkStatus();
}

// `first`: the first of `paths`, open. The others are opened one after another.
absl::Status SendFiles(const std::vector<std::string>& paths, RowFile first, const RowOrder& order,
                       RowReducer* reducer, Progress* progress) {
  RowFile file = std::move(first);
  for (size_t i = 0; i < paths.size(); ++i) {
    if (i > 0) {
      absl::StatusOr<RowFile> opened = OpenRowFile(paths[i]);
      if (!opened.ok()) return opened.status();
      file = *std::move(opened);
    }
    absl::Status status = CheckFits(file, order);
    if (!status.ok()) return status;
    status = SendFile(file, order, reducer, [&](double part) {
      const double done = static_cast<double>(i) + part;
      progress->Update(static_cast<int64_t>(1000 * done),
                       static_cast<int64_t>(1000 * paths.size()));
    });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

v1::ReduceRowsStart StartOf(const RowOrder& order, const Arguments& arguments) {
  v1::ReduceRowsStart start;
  start.set_dtype(order.dtype);
  start.set_n(order.n());
  start.set_nrhs(order.nrhs());
  start.set_solve(order.y.has_value());
  start.set_standard_errors(order.y.has_value() && !IsComplex(order.dtype));
  if (arguments.rcond.has_value()) start.set_rcond(*arguments.rcond);
  return start;
}

// The first n rows and columns of R of (A b).
Matrices ROfA(const RowReduction& result, int64_t n) {
  const Matrices& r = result.reduced.r;
  const BatchShape shape = ShapeOf(r.dims);
  const int64_t bytes = DTypeBytes(r.dtype);
  Matrices r_of_a{r.dtype, {std::min(shape.m, n), n}, v1::LAYOUT_ROW_MAJOR, ""};
  for (int64_t i = 0; i < r_of_a.dims[0]; ++i) {
    r_of_a.data.append(r.data, i * shape.n * bytes, n * bytes);
  }
  return r_of_a;
}

absl::Status WriteOutputs(const Arguments& arguments, const RowOrder& order,
                          const RowReduction& result) {
  if (!arguments.out_r.empty()) {
    const absl::Status status = WriteMatrixFile(arguments.out_r, ROfA(result, order.n()));
    if (!status.ok()) return status;
  }
  if (arguments.out.empty()) return absl::OkStatus();
  Matrices x = *result.x;
  x.dims.pop_back();  // there is one right-hand side: a vector
  return WriteMatrixFile(arguments.out, x);
}

std::string FormatElement(const Matrices& matrices, int64_t index) {
  const std::complex<double> value = GetElement(matrices.dtype, index, matrices.data);
  return IsComplex(matrices.dtype) ? absl::StrFormat("%.6g%+.6gi", value.real(), value.imag())
                                   : absl::StrFormat("%.6g", value.real());
}

std::string FormatDiagonal(const Matrices& r, int64_t show) {
  const BatchShape shape = ShapeOf(r.dims);
  const int64_t k = std::min(shape.m, shape.n);
  std::string text = absl::StrCat("R: ", DimsName(r.dims), ", its diagonal");
  for (int64_t i = 0; i < std::min(k, show); ++i) {
    absl::StrAppend(&text, " ", FormatElement(r, i * shape.n + i));
  }
  return absl::StrCat(text, k > show ? " ...\n" : "\n");
}

void PrintText(const Arguments& arguments, const RowOrder& order, const RowReduction& result,
               absl::Duration latency, std::ostream& out) {
  out << "A: " << DimsName({result.reduced.rows, order.n()}) << " "
      << std::string(DTypeName(order.dtype)) << "\n"
      << FormatDiagonal(ROfA(result, order.n()), arguments.show);
  if (result.x.has_value()) {
    out << "rank " << result.rank << ", residual norm " << FormatElement(*result.residual_norm, 0)
        << "\n";
    for (int64_t i = 0; i < std::min(order.n(), arguments.show); ++i) {
      out << "  " << order.unknown_names[i] << " = " << FormatElement(*result.x, i);
      if (result.standard_errors.has_value()) {
        out << " +- " << FormatElement(*result.standard_errors, i);
      }
      out << "\n";
    }
    if (order.n() > arguments.show) {
      out << "  and " << order.n() - arguments.show << " more unknowns\n";
    }
  }
  if (result.code != v1::MATRIX_CODE_UNSPECIFIED) out << MatrixCodeName(result.code) << "\n";
  for (const v1::RowRange& range : result.nonfinite) {
    out << "  rows " << range.first() << " to " << range.first() + range.count() - 1 << "\n";
  }
  out << FormatReport(result.report, latency);
}

// A real number, or [real, imaginary].
void WriteElement(const Matrices& matrices, int64_t index, JsonWriter* json) {
  const std::complex<double> value = GetElement(matrices.dtype, index, matrices.data);
  if (!IsComplex(matrices.dtype)) {
    json->Double(value.real());
    return;
  }
  json->BeginArray().Double(value.real()).Double(value.imag()).EndArray();
}

void WriteVector(absl::string_view key, const std::optional<Matrices>& vector, JsonWriter* json) {
  if (!vector.has_value()) return;
  json->Key(key).BeginArray();
  for (int64_t i = 0; i < vector->dims[0]; ++i) WriteElement(*vector, i, json);
  json->EndArray();
}

void PrintJson(const RowOrder& order, const RowReduction& result, absl::Duration latency,
               std::ostream& out) {
  JsonWriter json;
  json.BeginObject();
  json.Key("rows").Int(result.reduced.rows);
  json.Key("unknowns").BeginArray();
  for (const std::string& name : order.unknown_names) json.String(name);
  json.EndArray();
  const Matrices r = ROfA(result, order.n());
  json.Key("r").BeginArray();
  for (int64_t i = 0; i < r.dims[0]; ++i) {
    json.BeginArray();
    for (int64_t j = 0; j < r.dims[1]; ++j) WriteElement(r, i * r.dims[1] + j, &json);
    json.EndArray();
  }
  json.EndArray();
  if (result.x.has_value()) {
    json.Key("rank").Int(result.rank);
    json.Key("residual_norm");
    WriteElement(*result.residual_norm, 0, &json);
  }
  WriteVector("x", result.x, &json);
  WriteVector("standard_errors", result.standard_errors, &json);
  json.Key("code");
  result.code == v1::MATRIX_CODE_UNSPECIFIED ? json.Null()
                                             : json.String(MatrixCodeName(result.code));
  json.Key("nonfinite").BeginArray();
  for (const v1::RowRange& range : result.nonfinite) {
    json.BeginObject().Key("first").Int(range.first()).Key("count").Int(range.count()).EndObject();
  }
  json.EndArray();
  WriteReport(result.report, latency, &json);
  json.EndObject();
  out << json.Take();
}

void RegisterFlags(Arguments* arguments, FlagSet* flags) {
  flags->String("y", "NAME|INDEX", &arguments->y,
                "The column that is b, by name (CSV) or by number from 0; none: only R is wanted.");
  flags->Bool("intercept", &arguments->intercept, "Put a column of ones before A.");
  flags->OptionalDouble(
      "rcond", "2 max(m, n) eps", &arguments->rcond,
      "Singular values at or below rcond times the largest count as 0. In [0, 1).");
  flags->String("out", "FILE", &arguments->out, "Write x to FILE (.npy or .mtx).");
  flags->String("out_r", "FILE", &arguments->out_r, "Write R of A to FILE (.npy or .mtx).");
  flags->Int("show", &arguments->show, "Show the first N unknowns and elements of R's diagonal.");
  arguments->run.Register(flags);
  arguments->server.Register(flags);
}

absl::Status Check(const Arguments& arguments, const std::vector<std::string>& paths) {
  if (paths.empty()) return UsageError("expected files with the rows of A");
  if (arguments.show < 0) return UsageError("--show must be at least 0");
  if (arguments.y.empty() && !arguments.out.empty()) {
    return UsageError("--out is for x, which needs --y");
  }
  for (const std::string& path : {arguments.out, arguments.out_r}) {
    const absl::Status status = CheckOutputPath(path);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunReduce(const std::vector<std::string>& words, Terminal* terminal) {
  Arguments arguments;
  FlagSet flags("reduce", "ROWS... [--y=NAME]",
                "R of a matrix of any height, and least squares with it: the x that minimizes ||b "
                "- A x||.\nThe files, .npy, .csv or .mtx, have the rows of A one after another; "
                ".npy files are read in pieces,\nso that memory does not depend on their size. "
                "Prints R's diagonal; with --y rank, residual norm and\nx with its standard "
                "errors. --timeout is for all rows together.");
  RegisterFlags(&arguments, &flags);
  const absl::StatusOr<std::vector<std::string>> paths = flags.Parse(words);
  if (!paths.ok()) return paths.status();
  if (flags.HelpWanted()) {
    terminal->out << flags.Help();
    return absl::OkStatus();
  }
  absl::Status status = Check(arguments, *paths);
  if (!status.ok()) return status;
  absl::StatusOr<RowFile> first = OpenRowFile(paths->front());
  if (!first.ok()) return first.status();
  const absl::StatusOr<RowOrder> order = OrderOf(*first, arguments);
  if (!order.ok()) return order.status();
  absl::StatusOr<std::unique_ptr<Client>> client = arguments.server.Connect();
  if (!client.ok()) return client.status();

  const absl::Time start = absl::Now();
  CallOptions call;
  call.run = arguments.run.ToRunOptions();
  const absl::StatusOr<std::unique_ptr<RowReducer>> reducer =
      (*client)->ReduceRows(StartOf(*order, arguments), call);
  if (!reducer.ok()) return reducer.status();
  {
    Progress progress(terminal->err, terminal->err_is_tty && !arguments.server.json);
    status = SendFiles(*paths, *std::move(first), *order, reducer->get(), &progress);
    if (!status.ok()) return status;
  }
  const absl::StatusOr<RowReduction> result = (*reducer)->Finish();
  if (!result.ok()) return result.status();
  const absl::Duration latency = absl::Now() - start;
  status = WriteOutputs(arguments, *order, *result);
  if (!status.ok()) return status;

  if (arguments.server.json) {
    PrintJson(*order, *result, latency, terminal->out);
  } else {
    PrintText(arguments, *order, *result, latency, terminal->out);
  }
  return absl::OkStatus();
}

}  // namespace factord::client
