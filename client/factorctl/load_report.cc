#include "client/factorctl/load_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/factorctl/json.h"
#include "client/factorctl/report.h"

namespace factord::client {
namespace {

constexpr struct {
  absl::string_view name;
  double quantile;
} kQuantiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}};

// What both forms of the report are made from.
struct Rates {
  double requests_per_second = 0;
  double matrices_per_second = 0;
  double gflops = 0;
  double sent_mb_per_second = 0;
  double received_mb_per_second = 0;
  int64_t failed = 0;
  double mean_batch_matrices = 0;
  absl::Duration mean_queue;
  absl::Duration mean_compute;
};

Rates ComputeRates(const LoadResult& result) {
  Rates rates;
  for (const auto& [code, count] : result.errors) rates.failed += count;
  const double seconds = absl::ToDoubleSeconds(result.elapsed);
  if (result.succeeded == 0 || seconds <= 0) return rates;
  const double succeeded = static_cast<double>(result.succeeded);
  rates.requests_per_second = succeeded / seconds;
  rates.matrices_per_second = static_cast<double>(result.matrices) / seconds;
  rates.gflops = result.flops / seconds * 1e-9;
  rates.sent_mb_per_second = result.sent_bytes / seconds * 1e-6;
  rates.received_mb_per_second = result.received_bytes / seconds * 1e-6;
  rates.mean_batch_matrices = result.batch_matrices / succeeded;
  rates.mean_queue = result.queue / succeeded;
  rates.mean_compute = result.compute / succeeded;
  return rates;
}

std::string ShapesName(const LoadOptions& options) {
  return absl::StrJoin(options.shapes, ",", [](std::string* out, const Dims& dims) {
    absl::StrAppend(out, DimsName(dims));
  });
}

}  // namespace

std::string FormatLoad(const LoadOptions& options, const LoadResult& result) {
  const Rates rates = ComputeRates(result);
  std::string loop = options.rate > 0 ? absl::StrFormat("open loop, %g requests/s", options.rate)
                                      : std::string("closed loop");
  std::string text = absl::StrFormat(
      "shapes     %s %s\n"
      "load       %s, %d clients, %s\n"
      "time       %s after %s of warm-up, seed %d\n"
      "requests   %d, %.4g/s; %d failed, %d unsent\n"
      "matrices   %d, %.4g/s; %d not plainly OK\n"
      "rate       %.4g GFlop/s, %.4g MB/s sent, %.4g MB/s received\n",
      ShapesName(options), DTypeName(options.dtype), loop, options.clients,
      options.own_channels ? "a connection each" : "one connection", ShortDuration(result.elapsed),
      ShortDuration(options.warmup), options.seed, result.succeeded, rates.requests_per_second,
      rates.failed, result.unsent, result.matrices, rates.matrices_per_second,
      result.matrices_not_ok, rates.gflops, rates.sent_mb_per_second, rates.received_mb_per_second);
  absl::StrAppend(&text, "latency   ");
  for (const auto& [name, quantile] : kQuantiles) {
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

std::string LoadToJson(const LoadOptions& options, const LoadResult& result) {
  const Rates rates = ComputeRates(result);
  JsonWriter json;
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
  for (const auto& [name, quantile] : kQuantiles) {
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
  return json.Take();
}

}  // namespace factord::client
