// factord: the command line, a Server, and signals.
#include <malloc.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "grpc/grpc.h"
#include "server/flags.h"
#include "server/probe.h"
#include "server/server.h"
#include "server/tune_command.h"
#include "spdlog/sinks/stdout_color_sinks.h"
#include "spdlog/spdlog.h"

namespace {

// Large messages are the rule here. By default glibc gives the top of the heap back after each one
// and faults it in again for the next, which costs more than the message (2-3x on 1 MiB messages).
void KeepFreedMemory() {
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 64 << 20);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
}

// Of a command that ended with `status`; says what went wrong.
int ExitCode(const absl::Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "factord: %s\n", std::string(status.message()).c_str());
  return absl::IsInvalidArgument(status) ? 2 : 1;
}

// The first signal asks for a drain, the second one ends the process. A handler, not a blocked
// signal that one thread waits for: OpenBLAS starts threads before main, and those would get it.
sem_t signalled;

void OnSignal(int) {
  static std::atomic<int> signals{0};
  if (signals.fetch_add(1) > 0) {
    constexpr char kMessage[] = "factord: second signal: leaving at once\n";
    [[maybe_unused]] const auto written = write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
    std::_Exit(1);
  }
  sem_post(&signalled);
}

void HandleSignals() {
  sem_init(&signalled, 0, 0);
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  for (int signal : {SIGTERM, SIGINT}) sigaction(signal, &action, nullptr);
}

void WaitForSignal() {
  while (sem_wait(&signalled) != 0) {  // interrupted
  }
}

}  // namespace

int main(int argc, char** argv) {
  KeepFreedMemory();
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
  spdlog::set_default_logger(spdlog::stderr_color_mt("factord"));
  spdlog::set_level(spdlog::level::from_str(absl::GetFlag(FLAGS_log_level)));

  if (words.size() > 1 || (words.size() == 1 && words[0] != "tune")) {
    std::fprintf(stderr, "factord: expected flags, or the command tune; not %s\n",
                 words.back().c_str());
    return 2;
  }
  if (!words.empty()) {
    return ExitCode(factord::TuneCommand(factord::OptionsFromFlags(),
                                         absl::Seconds(absl::GetFlag(FLAGS_tune_seconds)),
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
  HandleSignals();
  const auto server = factord::Server::Create(factord::OptionsFromFlags());
  if (!server.ok()) return ExitCode(server.status());
  for (const std::string& address : (*server)->addresses())
    std::printf("listening on %s\n", address.c_str());
  if (!(*server)->metrics_address().empty()) {
    std::printf("metrics on http://%s/metrics\n", (*server)->metrics_address().c_str());
  }
  std::fflush(stdout);

  WaitForSignal();
  spdlog::info("asked to stop: draining");
  const bool all_finished = (*server)->Drain();
  spdlog::info(all_finished ? "drained" : "the grace period passed with work unfinished");
  if (!all_finished)
    std::_Exit(1);  // a matrix can take minutes more; whoever sent the signal waits for the exit
  if ((*server)->warming_up()) std::_Exit(0);  // likewise, and nobody waits for the result
  return 0;
}
