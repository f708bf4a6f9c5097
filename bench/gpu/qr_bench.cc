// The kernels of one GPU beside cuBLAS and cuSOLVER in the same process: a table, and JSON for
// report.py. See bench/gpu/run.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/gpu/implementation.h"
#include "bench/gpu/residuals.h"
#include "bench/result_file.h"

namespace factord::bench {
namespace {

constexpr const char* kUsage =
    "qr_bench [--only=REGEX] [--peers=all|quick|none] [--ours_only] [--peer_limit=SECONDS]\n"
    "         [--graph] [--json=PATH] [--commit=HASH]\n"
    "  --only        cases such as geqrf/f32/640x512x512\n"
    "  --peers       quick: those that are expected to take at most 0.1 s a run\n"
    "  --peer_limit  peers that are expected to take longer are left out (default 5)\n"
    "  --graph       ours also replayed as a CUDA graph\n";

struct Flags {
  std::regex only{""};
  bool peers = true;
  bool graph = false;
  double peer_limit = 5;
  std::string json, commit = "unknown", command;
};

bool Parse(std::string_view argument, Flags* flags) {
  if (const auto only = ValueOf(argument, "--only=")) {
    flags->only = std::regex(*only);
  } else if (const auto peers = ValueOf(argument, "--peers=")) {
    if (*peers == "quick") flags->peer_limit = 0.1;
    flags->peers = *peers != "none";
    return *peers == "all" || *peers == "quick" || *peers == "none";
  } else if (argument == "--ours_only") {
    flags->peers = false;
  } else if (const auto limit = ValueOf(argument, "--peer_limit=")) {
    flags->peer_limit = std::atof(limit->c_str());
  } else if (argument == "--graph") {
    flags->graph = true;
  } else if (const auto json = ValueOf(argument, "--json=")) {
    flags->json = *json;
  } else if (const auto commit = ValueOf(argument, "--commit=")) {
    flags->commit = *commit;
  } else {
    return false;
  }
  return true;
}

Flags ParseAll(int argc, char** argv) {
  Flags flags;
  for (int i = 0; i < argc; ++i) flags.command += (i == 0 ? "" : " ") + std::string(argv[i]);
  for (int i = 1; i < argc; ++i) {
    if (Parse(argv[i], &flags)) continue;
    std::fputs(kUsage, stderr);
    std::exit(2);
  }
  return flags;
}

// ---- timing

class Stopwatch {
 public:
  Stopwatch() {
    Check(cudaEventCreate(&start_));
    Check(cudaEventCreate(&stop_));
  }
  ~Stopwatch() {
    Check(cudaEventDestroy(start_));
    Check(cudaEventDestroy(stop_));
  }
  // Seconds on the device.
  template <class Work>
  double Time(Work work) {
    Check(cudaDeviceSynchronize());
    Delay();
    Check(cudaEventRecord(start_));
    work();
    Check(cudaEventRecord(stop_));
    Check(cudaEventSynchronize(stop_));
    float milliseconds = 0;
    Check(cudaEventElapsedTime(&milliseconds, start_, stop_));
    return 1e-3 * milliseconds;
  }

 private:
  cudaEvent_t start_, stop_;
};

constexpr double kSlow = 0.5;        // seconds: run once
constexpr double kSampleTime = 0.3;  // seconds spent on a case, about

// Sorted times of at least nine runs, or of one where a run is slow; the batches are taken in turn,
// and all are prepared before any is used. A first run of each is not counted.
template <class T>
std::vector<double> Times(Implementation<T>& implementation, std::vector<Operands<T>>& batches) {
  Stopwatch stopwatch;
  std::vector<double> times;
  std::size_t wanted = 1;
  bool warm = false;
  while (times.size() < wanted) {
    for (Operands<T>& batch : batches) implementation.Prepare(batch);
    for (Operands<T>& batch : batches) {
      const double seconds = stopwatch.Time([&] { implementation.Run(batch); });
      if (warm) times.push_back(seconds);
      if (!warm && seconds > kSlow) break;
      if (!warm) wanted = std::clamp<std::size_t>(kSampleTime / seconds, 9, 50);
      if (times.size() == wanted) break;
    }
    warm = true;
  }
  std::sort(times.begin(), times.end());
  return times;
}

// ---- results

struct Row {
  Case c;
  std::string implementation;
  double seconds = NAN;
  Quality quality{NAN, NAN};
  double spread = NAN;  // (90th percentile - 10th) / median
  std::string note;
};

std::string Json(const Row& row) {
  std::string json = "{\"op\": \"" + std::string(Name(row.c.operation)) + "\", \"dtype\": \"" +
                     Name(row.c.dtype) + "\", \"batch\": " + std::to_string(row.c.batch) +
                     ", \"m\": " + std::to_string(row.c.m) + ", \"n\": " + std::to_string(row.c.n) +
                     ", \"precision\": \"strict\", \"impl\": \"" + row.implementation +
                     "\", \"us\": " + Number(1e6 * row.seconds) +
                     ", \"residual\": " + Number(row.quality.residual) +
                     ", \"orthogonality\": " + Number(row.quality.orthogonality) +
                     ", \"floor_us\": " + Number(1e6 * FloorSeconds(row.c)) +
                     ", \"spread\": " + Number(row.spread);
  if (!row.note.empty()) json += ", \"note\": " + Quoted(row.note);
  return json + "}";
}

// "13.0" of 13000.
std::string Version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

void WriteJson(const Flags& flags, const std::vector<Row>& rows) {
  cudaDeviceProp properties;
  int driver = 0, runtime = 0;
  Check(cudaGetDeviceProperties(&properties, 0));
  Check(cudaDriverGetVersion(&driver));
  Check(cudaRuntimeGetVersion(&runtime));
  const Facts facts = {
      {"device", properties.name},
      {"driver", "CUDA " + Version(driver)},
      {"cuda", Version(runtime)},
      {"commit", flags.commit},
      {"command", flags.command},
      {"date", Today()},
      {"floor", "max(bytes read and written / " + Number(kCopyBandwidth / 1e12) +
                    " TB/s, flops / " + Number(kFlopsF32 / 1e12) + " TF (f32) or " +
                    Number(kFlopsF64 / 1e12) + " TF (f64))"},
  };
  std::vector<std::string> json;
  for (const Row& row : rows) json.push_back(Json(row));
  WriteResults(flags.json, facts, json);
}

void Print(const Row& row) {
  std::printf("%-28s %-24s %12.1f us %8.2f x floor  residual %8.3g  orthogonality %8.3g  %s\n",
              row.c.Name().c_str(), row.implementation.c_str(), 1e6 * row.seconds,
              row.seconds / FloorSeconds(row.c), row.quality.residual, row.quality.orthogonality,
              row.note.c_str());
  std::fflush(stdout);
}

// ---- cases

template <class T>
Row Measure(const Case& c, Implementation<T>& implementation, std::vector<Operands<T>>& batches,
            double limit) {
  Row row;
  row.c = c;
  row.implementation = implementation.name();
  const double expected = implementation.ExpectedSeconds();
  if (expected > limit) {
    row.note = "not run: expected " + Number(expected) + " s > limit " + Number(limit) + " s";
    return row;
  }
  const std::vector<double> times = Times(implementation, batches);
  const std::size_t count = times.size();
  row.seconds = times[count / 2];
  row.spread = (times[count * 9 / 10] - times[count / 10]) / row.seconds;
  if (count == 1) row.note = "one run";
  if (implementation.name() == "read once") return row;
  row.quality = QualityOf(c, batches.front(), implementation.ByRows());
  if (!std::isfinite(row.quality.residual) ||
      (c.operation != Operation::kR && !std::isfinite(row.quality.orthogonality)))
    row.note = "wrong: NaN in the result";
  return row;
}

template <class T>
void RunCase(const Case& c, const Flags& flags, std::vector<Row>* rows) {
  std::vector<Operands<T>> batches = RandomBatches<T>(c);
  std::vector<std::unique_ptr<Implementation<T>>> implementations;
  implementations.push_back(Factord<T>(c));
  if (flags.graph) implementations.push_back(FactordGraph<T>(c));
  if (c.operation == Operation::kR) implementations.push_back(ReadOnce<T>(c));
  if (flags.peers) {
    for (auto& vendor : Vendors<T>(c)) implementations.push_back(std::move(vendor));
  }
  for (const auto& implementation : implementations) {
    rows->push_back(Measure(c, *implementation, batches, flags.peer_limit));
    Print(rows->back());
  }
}

int Main(int argc, char** argv) {
  const Flags flags = ParseAll(argc, argv);
  std::vector<Row> rows;
  for (const Case& c : AllCases()) {
    if (!std::regex_search(c.Name(), flags.only)) continue;
    if (c.dtype == kernels::Dtype::kF32) {
      RunCase<float>(c, flags, &rows);
    } else {
      RunCase<double>(c, flags, &rows);
    }
    if (!flags.json.empty()) WriteJson(flags, rows);  // what there is, should a later case fail
  }
  return rows.empty() ? EXIT_FAILURE : EXIT_SUCCESS;
}

}  // namespace
}  // namespace factord::bench

int main(int argc, char** argv) { return factord::bench::Main(argc, argv); }
