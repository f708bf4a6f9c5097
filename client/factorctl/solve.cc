#include <algorithm>
#include <complex>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/elements.h"
#include "client/factorctl/commands.h"
#include "client/factorctl/flags.h"
#include "client/factorctl/json.h"
#include "client/factorctl/matrix_file.h"
#include "client/factorctl/problem_input.h"
#include "client/factorctl/progress.h"
#include "client/factorctl/report.h"
#include "client/factorctl/server_flags.h"
#include "client/factord_client.h"
#include "client/layout.h"

namespace factord::client {
namespace {

struct Arguments {
  ServerFlags server;
  RunFlags run;
  ProblemFlags problem;
  std::string out;
  std::optional<double> rcond;
  int64_t show = 10;
};

std::string FormatElement(v1::DType dtype, int64_t index, const std::string& data) {
  const std::complex<double> value = GetElement(dtype, index, data);
  return IsComplex(dtype) ? absl::StrFormat("%.6g%+.6gi", value.real(), value.imag())
                          : absl::StrFormat("%.6g", value.real());
}

void PrintText(const Arguments& arguments, const ProblemInput& input, const SolveResult& result,
               absl::Duration latency, std::ostream& out) {
  const LeastSquaresResult& solution = result.solutions[0];
  const BatchShape shape = ShapeOf(solution.x.dims);  // n x nrhs
  out << "A: " << DimsName(input.a.dims) << ", b: " << DimsName(input.b.dims) << " "
      << std::string(DTypeName(input.a.dtype)) << "\n";
  const int64_t shown = std::min(shape.batch_count, arguments.show);
  for (int64_t matrix = 0; matrix < shown; ++matrix) {
    out << "matrix " << matrix << ": rank " << solution.rank[matrix] << ", residual norm";
    for (int64_t j = 0; j < std::min(shape.n, arguments.show); ++j) {
      out << " "
          << FormatElement(solution.residual_norm.dtype, matrix * shape.n + j,
                           solution.residual_norm.data);
    }
    out << "\n";
    for (int64_t i = 0; i < std::min(shape.m, arguments.show); ++i) {
      const std::string name = static_cast<int64_t>(input.unknown_names.size()) == shape.m
                                   ? input.unknown_names[i]
                                   : absl::StrCat("x[", i, "]");
      out << "  " << name << " =";
      for (int64_t j = 0; j < std::min(shape.n, arguments.show); ++j) {
        out << " "
            << FormatElement(solution.x.dtype, ElementIndex(solution.x.layout, shape, matrix, i, j),
                             solution.x.data);
      }
      out << "\n";
    }
    if (shape.m > arguments.show) {
      out << "  and " << shape.m - arguments.show << " more unknowns\n";
    }
  }
  if (shape.batch_count > shown) out << "and " << shape.batch_count - shown << " more matrices\n";
  out << FormatStatuses(solution.statuses) << FormatReport(result.report, latency);
}

// A real number, or [real, imaginary].
void WriteElement(v1::DType dtype, int64_t index, const std::string& data, JsonWriter* json) {
  const std::complex<double> value = GetElement(dtype, index, data);
  if (!IsComplex(dtype)) {
    json->Double(value.real());
    return;
  }
  json->BeginArray().Double(value.real()).Double(value.imag()).EndArray();
}

void PrintJson(const Arguments& arguments, const ProblemInput& input, const SolveResult& result,
               absl::Duration latency, std::ostream& out) {
  const LeastSquaresResult& solution = result.solutions[0];
  const BatchShape shape = ShapeOf(solution.x.dims);
  JsonWriter json;
  json.BeginObject();
  json.Key("unknowns").BeginArray();
  for (const std::string& name : input.unknown_names) json.String(name);
  json.EndArray();
  json.Key("matrices").BeginArray();
  for (int64_t matrix = 0; matrix < std::min(shape.batch_count, arguments.show); ++matrix) {
    json.BeginObject();
    json.Key("index").Int(matrix);
    json.Key("rank").Int(solution.rank[matrix]);
    json.Key("residual_norm").BeginArray();
    for (int64_t j = 0; j < shape.n; ++j) {
      WriteElement(solution.residual_norm.dtype, matrix * shape.n + j, solution.residual_norm.data,
                   &json);
    }
    json.EndArray();
    json.Key("x").BeginArray();  // by rows: n of nrhs each
    for (int64_t i = 0; i < shape.m; ++i) {
      json.BeginArray();
      for (int64_t j = 0; j < shape.n; ++j) {
        WriteElement(solution.x.dtype, ElementIndex(solution.x.layout, shape, matrix, i, j),
                     solution.x.data, &json);
      }
      json.EndArray();
    }
    json.EndArray();
    json.EndObject();
  }
  json.EndArray();
  WriteStatuses(solution.statuses, &json);
  WriteReport(result.report, latency, &json);
  json.EndObject();
  out << json.Take();
}

absl::Status WriteX(const std::string& path, const Matrices& x, bool b_is_vector) {
  if (path.empty()) return absl::OkStatus();
  if (!b_is_vector) return WriteMatrixFile(path, x);
  Matrices vector = ToRowMajor(x);
  vector.dims.pop_back();
  return WriteMatrixFile(path, vector);
}

void RegisterFlags(Arguments* arguments, FlagSet* flags) {
  flags->String("y", "NAME|INDEX", &arguments->problem.y,
                "CSV: the column that is b, by name or by number from 0.");
  flags->Strings("x", "NAME|INDEX,...", &arguments->problem.x,
                 "CSV: the columns that are A, in this order; none: all but --y.");
  flags->Bool("intercept", &arguments->problem.intercept, "CSV: put a column of ones before A.");
  flags->String("rows", "BEGIN:END", &arguments->problem.rows,
                "CSV: only these rows of numbers, counted from 0, END excluded; none: all.");
  flags->OptionalDouble(
      "rcond", "2 max(m, n) eps", &arguments->rcond,
      "Singular values at or below rcond times the largest count as 0. In [0, 1).");
  flags->String("out", "FILE", &arguments->out, "Write x to FILE (.npy or .mtx).");
  flags->Int("show", &arguments->show, "Show the first N matrices, unknowns and right-hand sides.");
  arguments->run.Register(flags);
  arguments->server.Register(flags);
}

}  // namespace

absl::Status RunSolve(const std::vector<std::string>& words, Terminal* terminal) {
  Arguments arguments;
  FlagSet flags("solve", "A b | DATA.csv --y=NAME",
                "Least squares: the x that minimizes ||b - A x||, the shortest one where there are "
                "several.\nA (..., m, n) and b (..., m, nrhs or ..., m) are .npy, .mtx or .csv "
                "files, or columns of one\nCSV file. Prints rank, residual norm and x.");
  RegisterFlags(&arguments, &flags);
  const absl::StatusOr<std::vector<std::string>> paths = flags.Parse(words);
  if (!paths.ok()) return paths.status();
  if (flags.HelpWanted()) {
    terminal->out << flags.Help();
    return absl::OkStatus();
  }
  if (arguments.show < 0) return UsageError("--show must be at least 0");
  absl::Status status = CheckOutputPath(arguments.out);
  if (!status.ok()) return status;
  const absl::StatusOr<ProblemInput> input = ReadProblem(*paths, arguments.problem);
  if (!input.ok()) return input.status();
  absl::StatusOr<std::unique_ptr<Client>> client = arguments.server.Connect();
  if (!client.ok()) return client.status();

  const absl::Time start = absl::Now();
  absl::StatusOr<SolveResult> result;
  {
    Progress progress(terminal->err, terminal->err_is_tty && !arguments.server.json);
    CallOptions call;
    call.run = arguments.run.ToRunOptions();
    call.progress = [&](int64_t done, int64_t total) { progress.Update(done, total); };
    result = (*client)->Solve({{input->a.View(), input->b.View()}}, arguments.rcond, call);
  }
  const absl::Duration latency = absl::Now() - start;
  if (!result.ok()) return result.status();
  status = WriteX(arguments.out, result->solutions[0].x, input->b_is_vector);
  if (!status.ok()) return status;

  if (arguments.server.json) {
    PrintJson(arguments, *input, *result, latency, terminal->out);
  } else {
    PrintText(arguments, *input, *result, latency, terminal->out);
  }
  return absl::OkStatus();
}

}  // namespace factord::client
