#include "server/tune_command.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "server/core/status_macros.h"
#include "server/engine/cpu_factorizer.h"
#include "server/engine/routing_table.h"
#include "server/engine/tuner.h"
#include "server/engines.h"

namespace factord {
namespace {

constexpr int kBarWidth = 30;

std::string RowName(const RoutingRow& row) {
  return absl::StrCat(Name(row.op), " ", Name(row.dtype), row.with_q ? " q " : " ", row.batch, "x",
                      row.m, "x", row.n);
}

// A bar that is redrawn, for people; a line each tenth, for logs.
class Progress {
 public:
  void operator()(double done, const RoutingRow& row) {
    if (isatty(STDERR_FILENO) == 1) {
      const int filled = static_cast<int>(done * kBarWidth);
      absl::FPrintF(stderr, "\r[%s%s] %3.0f %% %-40s", std::string(filled, '#'),
                    std::string(kBarWidth - filled, '.'), 100 * done, RowName(row));
    } else if (done >= next_) {
      absl::FPrintF(stderr, "tune: %.0f %%, %s\n", 100 * done, RowName(row));
      next_ = done + 0.1;
    }
  }
  void End() const {
    if (isatty(STDERR_FILENO) == 1) absl::FPrintF(stderr, "\r%*s\r", kBarWidth + 50, "");
  }

 private:
  double next_ = 0;
};

RoutingHeader HeaderOf(const Engines& engines) {
  RoutingHeader header;
  header.cpu = engines.cpu_model;
  header.threads = engines.cpu_threads;
  header.cpu_engine = Name(engines.cpu_engine);
  header.date = absl::FormatTime("%Y-%m-%d", absl::Now(), absl::UTCTimeZone());
  if (engines.gpus.empty()) return header;
  const Gpu& gpu = engines.gpus.front();
  header.device = gpu.name;
  header.driver = gpu.driver;
  header.cuda = gpu.cuda;
  return header;
}

absl::Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("output: can not write ", path, ": ", std::strerror(errno)));
}

}  // namespace

std::string Crossovers(const RoutingTable& table) {
  using Class = std::tuple<Op, DType, bool>;
  using Shape = std::pair<std::int64_t, std::int64_t>;
  std::map<Class, std::map<Shape, std::vector<const RoutingRow*>>> classes;
  for (const RoutingRow& row : table.rows()) {
    if (row.gpu_us > 0) classes[{row.op, row.dtype, row.with_q}][{row.m, row.n}].push_back(&row);
  }
  if (classes.empty()) return "No GPU was measured: all work runs on the CPU.\n";
  std::string text =
      "The GPU is the faster one from this many matrices on (-: not up to what was "
      "measured):\n";
  for (auto& [key, shapes] : classes) {
    const auto& [op, dtype, with_q] = key;
    absl::StrAppend(&text, Name(op), " ", Name(dtype), with_q ? " with Q:" : ":");
    for (auto& [shape, rows] : shapes) {
      std::sort(rows.begin(), rows.end(),
                [](const auto* a, const auto* b) { return a->batch > b->batch; });
      std::string from = "-";
      for (const RoutingRow* row : rows) {
        if (row->gpu_us >= row->cpu_us) break;
        from = absl::StrCat(row->batch);
      }
      absl::StrAppend(&text, "  ", shape.first, "x", shape.second, " ", from);
    }
    text += "\n";
  }
  return text;
}

absl::Status TuneCommand(const Options& options, absl::Duration budget, const std::string& output) {
  RETURN_IF_ERROR(options.Validate());
  if (!output.empty()) RETURN_IF_ERROR(WriteFile(output, ""));  // now, not after minutes
  ASSIGN_OR_RETURN(const Engines engines, OpenEngines(options));
  CpuFactorizer cpu(engines.cpu_threads, engines.cpu_engine);
  Factorizer* const gpu =
      engines.gpus.empty() ? nullptr : engines.gpus.front().factorizers.front().get();
  Progress progress;
  TuneOptions tune;
  tune.budget = budget;
  tune.progress = [&progress](double done, const RoutingRow& row) { progress(done, row); };
  ASSIGN_OR_RETURN(std::vector<RoutingRow> rows, Tune(cpu, gpu, TuneGrid(), tune));
  progress.End();
  if (rows.empty()) {
    return absl::InvalidArgumentError("tune_seconds: are too few to measure anything");
  }
  const RoutingTable table(HeaderOf(engines), std::move(rows));
  std::FILE* const people = output.empty() ? stderr : stdout;
  absl::FPrintF(people, "%d rows on %s, %d threads, and %s\n%s", table.rows().size(),
                table.header().cpu, table.header().threads,
                engines.gpus.empty() ? "no GPU" : table.header().device, Crossovers(table));
  if (output.empty()) {
    absl::PrintF("%s", table.ToText());
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(WriteFile(output, table.ToText()));
  absl::FPrintF(people, "written to %s: start the server with --routing_table=%s\n", output,
                output);
  return absl::OkStatus();
}

}  // namespace factord
