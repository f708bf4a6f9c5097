#include "client/factorctl/load_report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/factorctl/json.h"
#include "client/factorctl/load_rates.h"
#include "client/factorctl/report.h"

namespace factord::client {

std::string FormatLoad(const LoadOptions& options, const LoadResult& result) {
  const LoadRates rates = ComputeRates(result);
  std::string loop = options.rate > 0 ? absl::StrFormat("open loop, %g requests/s", options.rate)
                                      : std::string("closed loop");
  std::string text = absl::StrFormat(
      "shapes     %s %s\n"
      "load       %s, %d clients, %s\n"
      "time       %s after %s of warm-up, seed %d\n"
      "requests   %d, %.4g/s; %d failed, %d unsent\n"
      "matrices   %d, %.4g/s; %d not plainly OK\n"
      "rate       %.4g GFlop/s, %.4g MB/s sent, %.4g MB/s received\n",
      ShapesName(options.shapes), DTypeName(options.dtype), loop, options.clients,
      options.own_channels ? "a connection each" : "one connection", ShortDuration(result.elapsed),
      ShortDuration(options.warmup), options.seed, result.succeeded, rates.requests_per_second,
      rates.failed, result.unsent, result.matrices, rates.matrices_per_second,
      result.matrices_not_ok, rates.gflops, rates.sent_mb_per_second, rates.received_mb_per_second);
  absl::StrAppend(&text, "latency   ");
  for (const auto& [name, quantile] : kReportedQuantiles) {
    absl::StrAppend(&text, " ", name, " ", ShortDuration(result.latency.Quantile(quantile)), ",");
  }
  absl::StrAppend(&text, " max ", ShortDuration(result.latency.Max()),
                  options.rate > 0 ? " (from the intended start)\n" : "\n");
  absl::StrAppendFormat(&text,
                        "server     mean batch %.4g matrices, mean queue %s, mean compute %s\n",
                        rates.mean_batch_matrices, ShortDuration(rates.mean_queue),
                        ShortDuration(rates.mean_compute));
  for (const auto& [code, count] : result.errors) {
    absl::StrAppend(&text, "error      ", absl::StatusCodeToString(code), ": ", count, "\n");
  }
  return text;
}

namespace {

void WriteLoad(const LoadOptions& options, const LoadResult& result, JsonWriter* writer) {
  const LoadRates rates = ComputeRates(result);
  JsonWriter& json = *writer;
  json.BeginObject();
  json.Key("shapes").BeginArray();
  for (const Dims& dims : options.shapes) json.String(DimsName(dims));
  json.EndArray();
  json.Key("dtype").String(DTypeName(options.dtype));
  json.Key("rate").Double(options.rate);
  json.Key("clients").Int(options.clients);
  json.Key("own_channels").Bool(options.own_channels);
  json.Key("seed").Int(static_cast<int64_t>(options.seed));
  json.Key("elapsed_seconds").Double(absl::ToDoubleSeconds(result.elapsed));
  json.Key("requests").Int(result.succeeded);
  json.Key("failed").Int(rates.failed);
  json.Key("unsent").Int(result.unsent);
  json.Key("matrices").Int(result.matrices);
  json.Key("matrices_not_ok").Int(result.matrices_not_ok);
  json.Key("requests_per_second").Double(rates.requests_per_second);
  json.Key("matrices_per_second").Double(rates.matrices_per_second);
  json.Key("gflops").Double(rates.gflops);
  json.Key("sent_mb_per_second").Double(rates.sent_mb_per_second);
  json.Key("received_mb_per_second").Double(rates.received_mb_per_second);
  json.Key("latency_us").BeginObject();
  json.Key("mean").Double(absl::ToDoubleMicroseconds(result.latency.Mean()));
  for (const auto& [name, quantile] : kReportedQuantiles) {
    json.Key(name).Double(absl::ToDoubleMicroseconds(result.latency.Quantile(quantile)));
  }
  json.Key("max").Double(absl::ToDoubleMicroseconds(result.latency.Max()));
  json.EndObject();
  json.Key("mean_batch_matrices").Double(rates.mean_batch_matrices);
  json.Key("mean_queue_us").Double(absl::ToDoubleMicroseconds(rates.mean_queue));
  json.Key("mean_compute_us").Double(absl::ToDoubleMicroseconds(rates.mean_compute));
  json.Key("errors").BeginObject();
  for (const auto& [code, count] : result.errors) {
    json.Key(absl::StatusCodeToString(code)).Int(count);
  }
  json.EndObject();
  json.EndObject();
}

}  // namespace

std::string LoadToJson(const LoadOptions& options, const LoadResult& result) {
  JsonWriter json;
  WriteLoad(options, result, &json);
  return json.Take();
}

std::string FormatSweep(const LoadOptions& options, const Sweep& sweep,
                        const std::vector<LoadResult>& runs) {
  std::string text =
      absl::StrFormat("shapes     %s %s\n\n%10s %12s %12s %10s %10s %10s %10s %8s\n",
                      ShapesName(options.shapes), DTypeName(options.dtype), Name(sweep.option),
                      "requests/s", "matrices/s", "GFlop/s", "p50", "p99", "batch", "failed");
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const LoadRates rates = ComputeRates(runs[i]);
    absl::StrAppendFormat(&text, "%10g %12.4g %12.4g %10.4g %10s %10s %10.4g %8d\n",
                          sweep.values[i], rates.requests_per_second, rates.matrices_per_second,
                          rates.gflops, ShortDuration(runs[i].latency.Quantile(0.5)),
                          ShortDuration(runs[i].latency.Quantile(0.99)), rates.mean_batch_matrices,
                          rates.failed + runs[i].unsent);
  }
  return text;
}

std::string SweepToJson(const LoadOptions& options, const Sweep& sweep,
                        const std::vector<LoadResult>& runs) {
  JsonWriter json;
  json.BeginObject();
  json.Key("sweep").String(Name(sweep.option));
  json.Key("runs").BeginArray();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    WriteLoad(WithOption(options, sweep.option, sweep.values[i]), runs[i], &json);
  }
  json.EndArray();
  json.EndObject();
  return json.Take();
}

}  // namespace factord::client
