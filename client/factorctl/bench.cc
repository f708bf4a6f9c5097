#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/factorctl/commands.h"
#include "client/factorctl/flags.h"
#include "client/factorctl/load.h"
#include "client/factorctl/load_plot.h"
#include "client/factorctl/load_report.h"
#include "client/factorctl/progress.h"
#include "client/factorctl/server_flags.h"
#include "client/factorctl/sweep.h"
#include "client/file_io.h"

namespace factord::client {
namespace {

struct Arguments {
  ServerFlags server;
  RunFlags run;
  QrFlags qr;
  std::vector<std::string> shapes = {"1000x32x32"};
  v1::DType dtype = v1::DTYPE_F32;
  int64_t clients = 8;
  bool channels = false;
  double rate = 0;
  absl::Duration warmup = absl::Seconds(2);
  absl::Duration duration = absl::Seconds(10);
  int64_t requests = 0;
  int64_t seed = 1;
  std::string sweep;
  std::string plot;
};

void RegisterFlags(Arguments* arguments, FlagSet* flags) {
  flags->Strings(
      "shape", "BATCHxMxN", &arguments->shapes,
      "The shape of a request's tensor. With several, each request takes one at random.");
  RegisterDType(flags, &arguments->dtype);
  arguments->qr.Register(flags);
  flags->Int("clients", &arguments->clients, "Threads, each with one request at a time.");
  flags->Bool("channels", &arguments->channels,
              "A connection for each client; else one connection for all.");
  flags->Double("rate", &arguments->rate,
                "Open loop: requests a second in all, at random (Poisson) times fixed beforehand;\n"
                "latency is counted from those times. Give enough --clients. 0: closed loop, each\n"
                "client sends as soon as it has its reply.");
  flags->Duration("warmup", &arguments->warmup,
                  "Requests that start in this time are not counted.");
  flags->Duration("duration", &arguments->duration,
                  "How long to measure; units ms, s, m, h. With --requests \"inf\" is allowed.");
  flags->Int("requests", &arguments->requests,
             "Stop after N counted requests, or after --duration; 0: only then.");
  flags->Int("seed", &arguments->seed, "Of the matrices, the arrival times and the mix of shapes.");
  flags->String("sweep", "clients|rate|batch:N,N,...", &arguments->sweep,
                "Runs once for each value of that option and prints a table. A batch takes the\n"
                "place of a shape's leading dims.");
  flags->String("plot", "FILE.svg", &arguments->plot,
                "Draws latency at each quantile; of a sweep over clients or rates latency against\n"
                "requests/s, over batches GFlop/s against the batch.");
  arguments->run.Register(flags);
  arguments->server.Register(flags);
}

absl::StatusOr<LoadOptions> ToLoadOptions(const Arguments& arguments) {
  LoadOptions options;
  absl::StatusOr<std::vector<Dims>> shapes = ParseShapes(arguments.shapes);
  if (!shapes.ok()) return shapes.status();
  options.shapes = *std::move(shapes);
  absl::StatusOr<ClientOptions> client = arguments.server.ToClientOptions();
  if (!client.ok()) return client.status();
  options.client = *std::move(client);
  options.client.retry.max_attempts = 1;  // a refusal is a result here, not something to hide
  if (arguments.clients < 1 || arguments.clients > 10'000) {
    return UsageError("--clients must be in 1..10000");
  }
  if (arguments.rate < 0) return UsageError("--rate must be at least 0");
  if (arguments.requests < 0) return UsageError("--requests must be at least 0");
  if (arguments.warmup == absl::InfiniteDuration()) return UsageError("--warmup must be finite");
  if (arguments.duration == absl::InfiniteDuration() && arguments.requests == 0) {
    return UsageError("--duration must be finite, or --requests given");
  }
  options.dtype = arguments.dtype;
  options.qr = arguments.qr.ToQrOptions();
  options.run = arguments.run.ToRunOptions();
  options.clients = static_cast<int>(arguments.clients);
  options.own_channels = arguments.channels;
  options.rate = arguments.rate;
  options.warmup = arguments.warmup;
  options.duration = arguments.duration;
  options.requests = arguments.requests;
  options.seed = static_cast<uint64_t>(arguments.seed);
  return options;
}

std::vector<LoadOptions> VariantsOf(const LoadOptions& options, const std::optional<Sweep>& sweep) {
  if (!sweep.has_value()) return {options};
  std::vector<LoadOptions> variants;
  for (double value : sweep->values) variants.push_back(WithOption(options, sweep->option, value));
  return variants;
}

absl::StatusOr<std::vector<LoadResult>> RunAll(const std::vector<LoadOptions>& variants,
                                               const Arguments& arguments, Terminal* terminal) {
  std::vector<LoadResult> results;
  for (const LoadOptions& variant : variants) {
    Progress progress(terminal->err, terminal->err_is_tty && !arguments.server.json);
    absl::StatusOr<LoadResult> result =
        RunLoad(variant, [&](int64_t done, int64_t total) { progress.Update(done, total); });
    if (!result.ok()) return result.status();
    results.push_back(*std::move(result));
  }
  return results;
}

std::string Report(const LoadOptions& options, const std::optional<Sweep>& sweep,
                   const std::vector<LoadResult>& runs, bool json) {
  if (sweep.has_value()) {
    return json ? SweepToJson(options, *sweep, runs) : FormatSweep(options, *sweep, runs);
  }
  return json ? LoadToJson(options, runs.front()) : FormatLoad(options, runs.front());
}

}  // namespace

absl::Status RunBench(const std::vector<std::string>& words, Terminal* terminal) {
  Arguments arguments;
  FlagSet flags("bench", "",
                "Measures the server under load: random normal matrices, one tensor a request, Q R "
                "as --mode says.");
  RegisterFlags(&arguments, &flags);
  const absl::StatusOr<std::vector<std::string>> rest = flags.Parse(words);
  if (!rest.ok()) return rest.status();
  if (flags.HelpWanted()) {
    terminal->out << flags.Help();
    return absl::OkStatus();
  }
  if (!rest->empty())
    return UsageError(absl::StrCat("expected no arguments, not '", (*rest)[0], "'"));
  const absl::StatusOr<LoadOptions> options = ToLoadOptions(arguments);
  if (!options.ok()) return options.status();

  std::optional<Sweep> sweep;
  if (!arguments.sweep.empty()) {
    absl::StatusOr<Sweep> parsed = ParseSweep(arguments.sweep);
    if (!parsed.ok()) return parsed.status();
    sweep = *std::move(parsed);
  }
  const absl::StatusOr<std::vector<LoadResult>> runs =
      RunAll(VariantsOf(*options, sweep), arguments, terminal);
  if (!runs.ok()) return runs.status();
  terminal->out << Report(*options, sweep, *runs, arguments.server.json);
  if (!arguments.plot.empty()) {
    const absl::Status written =
        WriteFile(arguments.plot, sweep.has_value() ? PlotSweep(*options, *sweep, *runs)
                                                    : PlotLoad(*options, runs->front()));
    if (!written.ok()) return written;
  }
  // Numbers about nothing are an error; some failures among successes are a result.
  for (const LoadResult& run : *runs) {
    if (run.succeeded == 0 && !run.last_error.ok()) return run.last_error;
  }
  return absl::OkStatus();
}

}  // namespace factord::client
