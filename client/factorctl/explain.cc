#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/factorctl/commands.h"
#include "client/factorctl/flags.h"
#include "client/factorctl/json.h"
#include "client/factorctl/report.h"
#include "client/factorctl/server_flags.h"
#include "client/factorctl/shapes.h"
#include "client/factord_client.h"

namespace factord::client {
namespace {

// What the choice was made by, where there was one.
std::string Predictions(const v1::Explanation& one) {
  if (one.gpu_ns() == 0) return "";
  return absl::StrCat("  cpu ", ShortDuration(absl::Nanoseconds(one.cpu_ns())), ", gpu ",
                      ShortDuration(absl::Nanoseconds(one.gpu_ns())), " (",
                      RouteLabelName(one.label()), "), on ", one.device(), "\n");
}

void PrintText(const std::vector<Dims>& shapes, v1::DType dtype,
               const v1::ExplainResponse& response, std::ostream& out) {
  for (int i = 0; i < response.explanations_size(); ++i) {
    const v1::Explanation& one = response.explanations(i);
    out << DimsName(shapes[i]) << " " << std::string(DTypeName(dtype)) << ": "
        << BackendName(one.backend()) << ", " << one.path() << ", bucket " << one.bucket() << ", "
        << one.jobs() << " jobs\n"
        << "  predicted " << ShortDuration(absl::Nanoseconds(one.predicted_ns())) << " ("
        << (one.measured() ? "measured here" : "a default rate, not measured here") << "), "
        << absl::StrFormat("%.3g", one.flops()) << " flops, " << one.input_bytes() << " bytes in, "
        << one.output_bytes() << " bytes out\n"
        << Predictions(one) << "  " << one.reason() << "\n";
  }
}

void PrintJson(const std::vector<Dims>& shapes, v1::DType dtype,
               const v1::ExplainResponse& response, std::ostream& out) {
  JsonWriter json;
  json.BeginObject().Key("explanations").BeginArray();
  for (int i = 0; i < response.explanations_size(); ++i) {
    const v1::Explanation& one = response.explanations(i);
    json.BeginObject();
    json.Key("shape").String(DimsName(shapes[i]));
    json.Key("dtype").String(DTypeName(dtype));
    json.Key("bucket").String(one.bucket());
    json.Key("backend").String(BackendName(one.backend()));
    json.Key("path").String(one.path());
    json.Key("jobs").Int(one.jobs());
    json.Key("flops").Double(one.flops());
    json.Key("input_bytes").Int(one.input_bytes());
    json.Key("output_bytes").Int(one.output_bytes());
    json.Key("predicted_ns").Int(one.predicted_ns());
    json.Key("measured").Bool(one.measured());
    json.Key("reason").String(one.reason());
    json.Key("device").String(one.device());
    json.Key("label").String(RouteLabelName(one.label()));
    json.Key("cpu_ns").Int(one.cpu_ns());
    json.Key("gpu_ns").Int(one.gpu_ns());
    json.EndObject();
  }
  json.EndArray().EndObject();
  out << json.Take();
}

}  // namespace

absl::Status RunExplain(const std::vector<std::string>& words, Terminal* terminal) {
  ServerFlags server;
  RunFlags run;
  QrFlags qr;
  std::vector<std::string> shape_words;
  v1::DType dtype = v1::DTYPE_F32;
  FlagSet flags("explain", "",
                "Prints what a factorization would do here: bucket, backend, path, predicted time. "
                "Computes\nnothing and sends no data.");
  flags.Strings("shape", "BATCHxMxN", &shape_words, "The shapes to ask about; may be repeated.");
  RegisterDType(&flags, &dtype);
  qr.Register(&flags);
  run.Register(&flags);
  server.Register(&flags);
  const absl::StatusOr<std::vector<std::string>> rest = flags.Parse(words);
  if (!rest.ok()) return rest.status();
  if (flags.HelpWanted()) {
    terminal->out << flags.Help();
    return absl::OkStatus();
  }
  if (!rest->empty())
    return UsageError(absl::StrCat("expected no arguments, not '", (*rest)[0], "'"));
  const absl::StatusOr<std::vector<Dims>> shapes = ParseShapes(shape_words);
  if (!shapes.ok()) return shapes.status();

  v1::ExplainRequest request;
  for (const Dims& dims : *shapes) {
    SetTensorShape({.dtype = dtype, .dims = dims, .data = {}},
                   request.mutable_factorize()->add_a());
  }
  *request.mutable_factorize()->mutable_qr() = qr.ToQrOptions();
  *request.mutable_factorize()->mutable_run() = run.ToRunOptions();
  absl::StatusOr<std::unique_ptr<Client>> client = server.Connect();
  if (!client.ok()) return client.status();
  const absl::StatusOr<v1::ExplainResponse> response = (*client)->Explain(request);
  if (!response.ok()) return response.status();
  if (response->explanations_size() != static_cast<int>(shapes->size())) {
    return absl::InternalError(absl::StrCat("the server explained ", response->explanations_size(),
                                            " of ", shapes->size(), " shapes"));
  }
  if (server.json) {
    PrintJson(*shapes, dtype, *response, terminal->out);
  } else {
    PrintText(*shapes, dtype, *response, terminal->out);
  }
  return absl::OkStatus();
}

}  // namespace factord::client
