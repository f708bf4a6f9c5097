#include <utility>

#include "absl/strings/str_cat.h"
#include "client/factorctl/commands.h"
#include "client/factorctl/flags.h"
#include "client/factorctl/load.h"
#include "client/factorctl/load_report.h"
#include "client/factorctl/progress.h"
#include "client/factorctl/server_flags.h"

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

  absl::StatusOr<LoadResult> result;
  {
    Progress progress(terminal->err, terminal->err_is_tty && !arguments.server.json);
    result = RunLoad(*options, [&](int64_t done, int64_t total) { progress.Update(done, total); });
  }
  if (!result.ok()) return result.status();
  terminal->out << (arguments.server.json ? LoadToJson(*options, *result)
                                          : FormatLoad(*options, *result));
  // Numbers about nothing are an error; some failures among successes are a result.
  if (result->succeeded == 0 && !result->last_error.ok()) return result->last_error;
  return absl::OkStatus();
}

}  // namespace factord::client
