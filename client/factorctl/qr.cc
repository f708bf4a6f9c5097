#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/factorctl/commands.h"
#include "client/factorctl/flags.h"
#include "client/factorctl/json.h"
#include "client/factorctl/matrix_file.h"
#include "client/factorctl/progress.h"
#include "client/factorctl/qr_residuals.h"
#include "client/factorctl/report.h"
#include "client/factorctl/server_flags.h"
#include "client/factord_client.h"

namespace factord::client {
namespace {

enum class Check { kAuto, kAlways, kNever };

// Some seconds of work for this plain code.
constexpr double kAutoCheckFlops = 2e10;

struct Arguments {
  ServerFlags server;
  RunFlags run;
  QrFlags qr;
  std::string out_q;
  std::string out_r;
  std::string out_reflectors;
  std::string out_tau;
  Check check = Check::kAuto;
  int64_t show = 10;
};

absl::Status CheckOutputs(const Arguments& arguments) {
  const v1::QrOptions qr = arguments.qr.ToQrOptions();
  const struct {
    const std::string& path;
    absl::string_view flag;
    bool is_computed;
  } outputs[] = {
      {arguments.out_q, "--out_q", qr.q() != v1::Q_MODE_UNSPECIFIED},
      {arguments.out_r, "--out_r", qr.r()},
      {arguments.out_reflectors, "--out_reflectors", qr.reflectors()},
      {arguments.out_tau, "--out_tau", qr.reflectors()},
  };
  for (const auto& output : outputs) {
    if (!output.path.empty() && !output.is_computed) {
      return UsageError(
          absl::StrCat("--mode=", arguments.qr.ModeName(), " has nothing for ", output.flag));
    }
    const absl::Status status = CheckOutputPath(output.path);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status WriteOutputs(const Arguments& arguments, const QrResult& result) {
  const struct {
    const std::string& path;
    const std::optional<Matrices>& matrices;
  } outputs[] = {
      {arguments.out_q, result.q},
      {arguments.out_r, result.r},
      {arguments.out_reflectors, result.reflectors},
      {arguments.out_tau, result.tau},
  };
  for (const auto& output : outputs) {
    if (output.path.empty()) continue;
    const absl::Status status = WriteMatrixFile(output.path, *output.matrices);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Empty where Q or R is missing, or the check is not wanted.
std::vector<QrResiduals> Residuals(Check check, const Matrices& a, const QrResult& result) {
  if (check == Check::kNever || !result.q.has_value() || !result.r.has_value()) return {};
  if (check == Check::kAuto && QrResidualsFlops(a.View(), result.q->View()) > kAutoCheckFlops) {
    return {};
  }
  return ComputeQrResiduals(a.View(), result.q->View(), result.r->View());
}

// NaN counts as the worst.
double Worst(const std::vector<QrResiduals>& residuals, double QrResiduals::*member) {
  double worst = 0;
  for (const QrResiduals& one : residuals) {
    if (std::isnan(one.*member)) return one.*member;
    worst = std::max(worst, one.*member);
  }
  return worst;
}

struct Summary {
  const Matrices& a;
  const FactorizeResult& result;
  const std::vector<QrResiduals>& residuals;
  absl::Duration latency;
};

void PrintText(const Arguments& arguments, const Summary& summary, std::ostream& out) {
  out << "A: " << DimsName(summary.a.dims) << " " << std::string(DTypeName(summary.a.dtype))
      << ", mode " << arguments.qr.ModeName() << "\n";
  const size_t shown = std::min(summary.residuals.size(), static_cast<size_t>(arguments.show));
  if (shown > 0) out << "matrix  ||A-QR||/(||A|| m eps)  ||I-Q'Q||/(m eps)\n";
  for (size_t i = 0; i < shown; ++i) {
    out << absl::StrFormat("%6d  %22.3g  %17.3g\n", i, summary.residuals[i].residual,
                           summary.residuals[i].orthogonality);
  }
  if (summary.residuals.empty()) {
    out << "residuals: not computed\n";
  } else {
    out << absl::StrFormat("worst   %22.3g  %17.3g\n",
                           Worst(summary.residuals, &QrResiduals::residual),
                           Worst(summary.residuals, &QrResiduals::orthogonality));
  }
  const std::vector<v1::MatrixStatus>& statuses = summary.result.qr[0].statuses;
  out << "statuses: "
      << (statuses.empty() ? "all OK" : absl::StrCat(statuses.size(), " not plainly OK")) << "\n"
      << FormatStatuses(statuses) << FormatReport(summary.result.report, summary.latency);
}

void PrintJson(const Arguments& arguments, const Summary& summary, std::ostream& out) {
  JsonWriter json;
  json.BeginObject();
  json.Key("dims").BeginArray();
  for (int64_t dim : summary.a.dims) json.Int(dim);
  json.EndArray();
  json.Key("dtype").String(DTypeName(summary.a.dtype));
  json.Key("mode").String(arguments.qr.ModeName());
  const bool has_residuals = !summary.residuals.empty();
  json.Key("worst_residual");
  has_residuals ? json.Double(Worst(summary.residuals, &QrResiduals::residual)) : json.Null();
  json.Key("worst_orthogonality");
  has_residuals ? json.Double(Worst(summary.residuals, &QrResiduals::orthogonality)) : json.Null();
  json.Key("matrices").BeginArray();
  for (size_t i = 0; i < summary.residuals.size() && i < static_cast<size_t>(arguments.show); ++i) {
    json.BeginObject();
    json.Key("index").Int(static_cast<int64_t>(i));
    json.Key("residual").Double(summary.residuals[i].residual);
    json.Key("orthogonality").Double(summary.residuals[i].orthogonality);
    json.EndObject();
  }
  json.EndArray();
  WriteStatuses(summary.result.qr[0].statuses, &json);
  WriteReport(summary.result.report, summary.latency, &json);
  json.EndObject();
  out << json.Take();
}

void RegisterFlags(Arguments* arguments, FlagSet* flags) {
  arguments->qr.Register(flags);
  flags->String("out_q", "FILE", &arguments->out_q, "Write Q to FILE (.npy or .mtx).");
  flags->String("out_r", "FILE", &arguments->out_r, "Write R to FILE (.npy or .mtx).");
  flags->String("out_reflectors", "FILE", &arguments->out_reflectors,
                "With --mode=raw: write the packed reflectors to FILE (.npy or .mtx).");
  flags->String("out_tau", "FILE", &arguments->out_tau,
                "With --mode=raw: write tau to FILE (.npy or .mtx).");
  flags->Choice<Check>(
      "check", {{"auto", Check::kAuto}, {"always", Check::kAlways}, {"never", Check::kNever}},
      &arguments->check,
      "Compute the residuals, here, from Q and R; auto: unless that takes more than 2e10\n"
      "floating-point operations.");
  flags->Int("show", &arguments->show, "Show the residuals of the first N matrices.");
  arguments->run.Register(flags);
  arguments->server.Register(flags);
}

}  // namespace

absl::Status RunQr(const std::vector<std::string>& words, Terminal* terminal) {
  Arguments arguments;
  FlagSet flags(
      "qr", "A",
      "Factorizes every matrix of A (.npy, .mtx or .csv; the last two dims are one matrix, "
      "m x n),\nA = Q R, and prints how accurate and how fast that was.");
  RegisterFlags(&arguments, &flags);
  const absl::StatusOr<std::vector<std::string>> paths = flags.Parse(words);
  if (!paths.ok()) return paths.status();
  if (flags.HelpWanted()) {
    terminal->out << flags.Help();
    return absl::OkStatus();
  }
  if (paths->size() != 1)
    return UsageError(absl::StrCat("expected one file A, not ", paths->size()));
  if (arguments.show < 0) return UsageError("--show must be at least 0");
  absl::Status status = CheckOutputs(arguments);
  if (!status.ok()) return status;

  absl::StatusOr<Matrices> a = ReadMatrixFile((*paths)[0]);
  if (!a.ok()) return a.status();
  if (a->dims.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat((*paths)[0], ": expected at least two dims, not ", a->dims.size()));
  }
  absl::StatusOr<std::unique_ptr<Client>> client = arguments.server.Connect();
  if (!client.ok()) return client.status();

  const absl::Time start = absl::Now();
  absl::StatusOr<FactorizeResult> result;
  {
    Progress progress(terminal->err, terminal->err_is_tty && !arguments.server.json);
    CallOptions call;
    call.run = arguments.run.ToRunOptions();
    call.progress = [&](int64_t done, int64_t total) { progress.Update(done, total); };
    result = (*client)->Factorize({a->View()}, arguments.qr.ToQrOptions(), call);
  }
  const absl::Duration latency = absl::Now() - start;
  if (!result.ok()) return result.status();
  status = WriteOutputs(arguments, result->qr[0]);
  if (!status.ok()) return status;

  const std::vector<QrResiduals> residuals = Residuals(arguments.check, *a, result->qr[0]);
  const Summary summary{*a, *result, residuals, latency};
  if (arguments.server.json) {
    PrintJson(arguments, summary, terminal->out);
  } else {
    PrintText(arguments, summary, terminal->out);
  }
  return absl::OkStatus();
}

}  // namespace factord::client
