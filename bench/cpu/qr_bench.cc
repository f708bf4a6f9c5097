// The CPU kernels beside LAPACKE and MKL in the same process, in turn: a table, and JSON for
// report.py. See bench/cpu/run.
#include <algorithm>
#include <chrono>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/cpu/implementation.h"
#include "bench/cpu/machine.h"
#include "bench/result_file.h"

namespace factord::bench::cpu {
namespace {

constexpr const char* kUsage =
    "cpu_qr_bench [--filter=REGEX] [--quick] [--mkl=PATH] [--json=PATH] [--commit=HASH]\n"
    "  --filter  cases such as geqrf/f32/batch/32x32/1\n"
    "  --quick   fewer shapes\n"
    "  --mkl     libmkl_rt's file\n";

struct Flags {
  std::regex filter{""};
  bool quick = false;
  std::string mkl, json, commit = "unknown", command;
};

bool Parse(std::string_view argument, Flags* flags) {
  if (const auto filter = ValueOf(argument, "--filter=")) {
    flags->filter = std::regex(*filter);
  } else if (argument == "--quick") {
    flags->quick = true;
  } else if (const auto mkl = ValueOf(argument, "--mkl=")) {
    flags->mkl = *mkl;
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
  flags.command = argv[0];
  for (int i = 1; i < argc; ++i) {
    flags.command.append(" ").append(argv[i]);
    if (Parse(argv[i], &flags)) continue;
    std::fputs(kUsage, stderr);
    std::exit(2);
  }
  return flags;
}

struct Peers {
  Lapack lapacke = LinkedLapack();
  std::optional<Mkl> mkl;
};

struct Row {
  Case c;
  std::string implementation;
  std::vector<double> seconds;  // of all matrices; sorted
  double difference = 0;        // from LAPACKE's results

  // More than rounding. A peer may: MKL leaves R's last diagonal entry complex with two threads.
  bool Differs() const {
    const bool is_single = c.type == Type::kF32 || c.type == Type::kC64;
    return !(difference <= (is_single ? 1e-3 : 1e-8));
  }
  bool IsWrong() const { return Differs() && implementation.rfind("factord", 0) == 0; }

  double Microseconds(std::size_t i) const {
    return 1e6 * seconds[i] / static_cast<double>(c.count());
  }
  double Median() const { return Microseconds(seconds.size() / 2); }
};

std::string Json(const Row& row) {
  const Case& c = row.c;
  return "{\"op\": \"" + std::string(Name(c.operation)) + "\", \"dtype\": \"" + Name(c.type) +
         "\", \"alone\": " + (c.alone ? "true" : "false") +
         ", \"threads\": " + std::to_string(c.threads) +
         ", \"count\": " + std::to_string(c.count()) + ", \"m\": " + std::to_string(c.m) +
         ", \"n\": " + std::to_string(c.n) + ", \"impl\": \"" + row.implementation +
         "\", \"us\": " + Number(row.Median()) + ", \"min\": " + Number(row.Microseconds(0)) +
         ", \"max\": " + Number(row.Microseconds(row.seconds.size() - 1)) +
         ", \"repetitions\": " + std::to_string(row.seconds.size()) +
         ", \"gflops\": " + Number(1e-3 * c.Flops() / row.Median()) +
         ", \"difference\": " + Number(row.difference) + "}";
}

void Print(const Row& row) {
  std::printf("%-30s %-20s %12.4f us  %7.2f GF/s  difference %.2g%s\n", row.c.Name().c_str(),
              row.implementation.c_str(), row.Median(), 1e-3 * row.c.Flops() / row.Median(),
              row.difference,
              row.IsWrong()   ? "  WRONG"
              : row.Differs() ? "  differs"
                              : "");
}

// ---- one case

template <class T>
using Implementations = std::vector<std::unique_ptr<Implementation<T>>>;

// LAPACKE first: the others' results are held against its.
template <class T>
Implementations<T> ImplementationsOf(const Case& c, const Peers& peers, const Inputs<T>& inputs,
                                     const Inputs<T>& row_major) {
  Implementations<T> all;
  all.push_back(LapackLoop<T>(c, inputs, peers.lapacke, c.threads));
  all.push_back(Factord<T>(c, inputs, c.threads));
  all.push_back(Factord<T>(c, row_major, c.threads));
  if (peers.mkl) all.push_back(LapackLoop<T>(c, inputs, peers.mkl->lapack, c.threads));
  if (peers.mkl && !c.alone && c.operation == Operation::kGeqrf)
    all.push_back(MklCompact<T>(c, inputs, *peers.mkl, c.threads));
  if (c.threads > 1) {
    all.push_back(Factord<T>(c, inputs, 1));
    if (c.alone) {
      all.push_back(LapackLoop<T>(c, inputs, peers.lapacke, 1));
      if (peers.mkl) all.push_back(LapackLoop<T>(c, inputs, peers.mkl->lapack, 1));
    }
  }
  return all;
}

constexpr double kSeconds = 0.3;  // spent on a case, about; more where five rounds take longer
constexpr std::size_t kFewestRounds = 5, kMostRounds = 31;

template <class T>
double TimeOf(const Case& c, Implementation<T>& implementation) {
  // The libraries' own threads spin after a call, MKL's for 200 ms: into the next one's time.
  if (c.alone && c.threads > 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  implementation.Prepare();
  const auto start = std::chrono::steady_clock::now();
  implementation.Run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <class T>
double WorstDifference(const Implementation<T>& x, const Implementation<T>& y) {
  double worst = 0;
  const auto xs = x.Results(), ys = y.Results();
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const double difference = Difference(*xs[i], *ys[i]);
    if (!(difference <= worst)) worst = difference;
  }
  return worst;
}

template <class T>
std::vector<Row> RunCase(const Case& c, const Peers& peers) {
  const Inputs<T> inputs = InputsOf<T>(c, peers.lapacke);
  const Inputs<T> row_major{Transposed(inputs.a), Transposed(inputs.tau), Transposed(inputs.c)};
  const Implementations<T> all = ImplementationsOf(c, peers, inputs, row_major);
  std::vector<Row> rows(all.size());
  double round = 0;  // a first one, which is not counted
  for (const auto& implementation : all) round += TimeOf(c, *implementation);
  const std::size_t rounds =
      std::clamp(static_cast<std::size_t>(kSeconds / round), kFewestRounds, kMostRounds);
  for (std::size_t i = 0; i < rounds; ++i) {
    for (std::size_t j = 0; j < all.size(); ++j) rows[j].seconds.push_back(TimeOf(c, *all[j]));
  }
  for (std::size_t j = 0; j < all.size(); ++j) {
    rows[j].c = c;
    rows[j].implementation = all[j]->name();
    rows[j].difference = WorstDifference(*all[j], *all.front());
    std::sort(rows[j].seconds.begin(), rows[j].seconds.end());
  }
  return rows;
}

std::vector<Row> RunCase(const Case& c, const Peers& peers) {
  switch (c.type) {
    case Type::kF32:
      return RunCase<float>(c, peers);
    case Type::kF64:
      return RunCase<double>(c, peers);
    case Type::kC64:
      return RunCase<std::complex<float>>(c, peers);
    case Type::kC128:
      break;
  }
  return RunCase<std::complex<double>>(c, peers);
}

// ---- all

int Main(int argc, char** argv) {
  const Flags flags = ParseAll(argc, argv);
  Peers peers;
  if (!flags.mkl.empty()) peers.mkl = LoadMkl(flags.mkl);
  Facts facts = MachineFacts();
  facts.emplace_back("commit", flags.commit);
  facts.emplace_back("command", flags.command);
  facts.emplace_back("LAPACKE", peers.lapacke.version);
  if (peers.mkl) facts.emplace_back("MKL", peers.mkl->lapack.version);

  std::vector<std::string> json;
  bool wrong = false;
  for (const Case& c : AllCases(flags.quick)) {
    if (!std::regex_search(c.Name(), flags.filter)) continue;
    for (const Row& row : RunCase(c, peers)) {
      Print(row);
      json.push_back(Json(row));
      wrong |= row.IsWrong();
    }
    std::fflush(stdout);
  }
  if (!flags.json.empty()) WriteResults(flags.json, facts, json);
  if (wrong) std::fputs("results that are WRONG: see above\n", stderr);
  return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}

}  // namespace
}  // namespace factord::bench::cpu

int main(int argc, char** argv) { return factord::bench::cpu::Main(argc, argv); }
