// factord: the command line, a Server, and signals.

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "grpc/grpc.h"
#include "server/flags.h"
#include "server/keep_freed_memory.h"
#include "server/logging/setup.h"
#include "server/probe.h"
#include "server/server.h"
#include "server/signals.h"
#include "server/tune_command.h"
#include "spdlog/spdlog.h"

namespace {

// Once the command line was read, if it says so.
bool logs_json = false;

// Of a command that ended with `status`; says what went wrong.
int ExitCode(const absl::Status& status) {
  if (status.ok()) return 0;
  const std::string message(status.message());
  if (logs_json) {
    spdlog::critical(message);
  } else {
    std::fprintf(stderr, "factord: %s\n", message.c_str());
  }
  return absl::IsInvalidArgument(status) ? 2 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  factord::KeepFreedMemory();
  const auto line = factord::ReadCommandLine({argv + 1, argv + argc});
  if (!line.ok()) return ExitCode(line.status());
  if (line->help) {
    std::fputs(factord::HelpText().c_str(), stdout);
    return 0;
  }
  if (line->version) {
    std::puts("factord " FACTORD_VERSION);
    return 0;
  }
  const std::vector<std::string>& words = line->words;
  const factord::Options options = factord::OptionsFromFlags();
  factord::SetUpLogging(options.log_format, options.log_level);
  logs_json = options.log_format == "json";

  if (words.size() > 1 || (words.size() == 1 && words[0] != "tune")) {
    std::fprintf(stderr, "factord: expected flags, or the command tune; not %s\n",
                 words.back().c_str());
    return 2;
  }
  if (!words.empty()) {
    return ExitCode(factord::TuneCommand(options, absl::Seconds(absl::GetFlag(FLAGS_tune_seconds)),
                                         absl::GetFlag(FLAGS_output)));
  }

  grpc_init();  // never shut down: that can wait 10 s for one of gRPC's own pollers, and the
                // process ends anyway
  if (!absl::GetFlag(FLAGS_probe).empty()) {
    return ExitCode(factord::Probe({.address = absl::GetFlag(FLAGS_probe),
                                    .tls_ca = absl::GetFlag(FLAGS_tls_ca),
                                    .tls_cert = absl::GetFlag(FLAGS_tls_cert),
                                    .tls_key = absl::GetFlag(FLAGS_tls_key)}));
  }
  factord::Signals signals;
  const auto server = factord::Server::Create(options);
  if (!server.ok()) return ExitCode(server.status());
  for (const std::string& address : (*server)->addresses())
    std::printf("listening on %s\n", address.c_str());
  if (!(*server)->metrics_address().empty()) {
    std::printf("metrics on http://%s/metrics\n", (*server)->metrics_address().c_str());
  }
  std::fflush(stdout);

  signals.OnHangup([&server] { (*server)->ReopenFiles(); });
  signals.WaitForStop();
  spdlog::info("asked to stop: draining");
  const bool all_finished = (*server)->Drain();
  spdlog::info(all_finished ? "drained" : "the grace period passed with work unfinished");
  signals.OnHangup(nullptr);
  if (!all_finished)
    std::_Exit(1);  // a matrix can take minutes more; whoever sent the signal waits for the exit
  if ((*server)->warming_up()) std::_Exit(0);  // likewise, and nobody waits for the result
  return 0;
}
