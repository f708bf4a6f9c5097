#include "server/engine/tuner.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <set>
#include <tuple>

#include "gtest/gtest.h"
#include "server/engine/router.h"

namespace factord {
namespace {

constexpr double kThreads = 16;

// A smooth cost of a batch in microseconds.
double CpuUs(const Spec& spec, double count) {
  const double flops = FlopsOf(spec);
  return 10 +
         count * (0.3 + flops * 3e-4 * (1 + 20 / std::sqrt(flops + 1))) / std::min(kThreads, count);
}

double GpuUs(const Spec& spec, double count) {
  const double bytes = static_cast<double>(MatrixBytes(spec, InputsOf(spec)[0])) * 2;
  return 55 + count * bytes / 20e3 + 1.2 * static_cast<double>(spec.k()) +
         count * FlopsOf(spec) / 2e6;
}

// Takes as long as `cost` says, by a clock that only it moves.
class FakeFactorizer : public Factorizer {
 public:
  FakeFactorizer(std::function<double(const Spec&, double)> cost, absl::Time& now)
      : cost_(std::move(cost)), now_(now) {}

  absl::Status Run(Batch& batch) override {
    const Job& job = *batch.jobs[0];
    for (Operand operand : InputsOf(job.spec)) EXPECT_NE(job.at(operand), nullptr);
    now_ += absl::Microseconds(cost_(job.spec, static_cast<double>(job.count)));
    ++runs;
    return status;
  }
  std::string_view PathOf(const Spec&) const override { return "fake"; }

  int runs = 0;
  absl::Status status;

 private:
  const std::function<double(const Spec&, double)> cost_;
  absl::Time& now_;
};

struct Engines {
  absl::Time now = absl::UnixEpoch();
  FakeFactorizer cpu{CpuUs, now}, gpu{GpuUs, now};

  TuneOptions Options(absl::Duration budget) {
    TuneOptions options;
    options.budget = budget;
    options.clock = [this] { return now; };
    return options;
  }
};

const RoutingTable& TunedTable() {
  static const RoutingTable table = [] {
    Engines engines;
    const auto rows = Tune(engines.cpu, &engines.gpu, TuneGrid(), engines.Options(absl::Hours(1)));
    EXPECT_TRUE(rows.ok());
    return RoutingTable({.device = "a GPU", .cpu = "a CPU", .threads = 16}, *rows);
  }();
  return table;
}

// The geometric mean, over the shapes, of the time where the router sends them over the best time.
class Regret {
 public:
  void Add(const Router& router, const Spec& spec, std::int64_t count) {
    const Route route = router.Decide({.spec = spec, .count = count}, true);
    const double cpu = CpuUs(spec, static_cast<double>(count));
    const double gpu = GpuUs(spec, static_cast<double>(count));
    const double ratio = (route.backend == Backend::kCpu ? cpu : gpu) / std::min(cpu, gpu);
    log_sum_ += std::log(ratio);
    worst_ = std::max(worst_, ratio);
    ++shapes_;
  }
  double Mean() const { return std::exp(log_sum_ / shapes_); }
  double worst() const { return worst_; }

 private:
  double log_sum_ = 0, worst_ = 1;
  int shapes_ = 0;
};

const Machine kMachine{.cpu = "a CPU", .threads = 16, .gpu = "a GPU"};

TEST(Tuner, TheTableHoldsTheTrueTimes) {
  const RoutingTable table = TunedTable();
  ASSERT_GT(table.rows().size(), 500u);
  for (const RoutingRow& row : table.rows()) {
    const auto count = static_cast<double>(row.batch);
    EXPECT_NEAR(row.cpu_us, CpuUs(SpecOf(row), count), 1e-3 * row.cpu_us);
    EXPECT_NEAR(row.gpu_us, GpuUs(SpecOf(row), count), 1e-3 * row.gpu_us);
  }
}

TEST(Tuner, OnTheGridTheRouterIsNeverWrong) {
  const RoutingTable table = TunedTable();
  const Router router(kMachine, table, {});
  Regret regret;
  for (const RoutingRow& row : table.rows()) regret.Add(router, SpecOf(row), row.batch);
  EXPECT_LE(regret.worst(), 1.0001);
}

TEST(Tuner, BesideTheGridTheRouterIsRarelyWrong) {
  const Router router(kMachine, TunedTable(), {});
  std::mt19937 generator(7);
  std::uniform_real_distribution<double> log_size(2, 11), log_count(0, 14);
  Regret regret;
  for (int i = 0; i < 10000; ++i) {
    Spec spec;
    spec.dtype = i % 2 == 0 ? DType::kF32 : DType::kF64;
    spec.op = static_cast<Op>(i / 2 % kOps);
    spec.m = static_cast<std::int64_t>(std::exp2(log_size(generator)));
    spec.n = i % 3 == 0 ? spec.m : static_cast<std::int64_t>(std::exp2(log_size(generator)));
    if (spec.op != Op::kFactorize && spec.m < spec.n) std::swap(spec.m, spec.n);
    spec.q = spec.op == Op::kFormQ || (spec.op == Op::kFactorize && i % 5 < 3) ? QMode::kReduced
                                                                               : QMode::kNone;
    spec.r = spec.op == Op::kFactorize;
    spec.p = spec.op == Op::kApplyQ ? 8 : 1;
    const auto count = static_cast<std::int64_t>(std::exp2(log_count(generator)));
    if (MatrixBytes(spec, InputsOf(spec)[0]) * count > 256 << 20) continue;
    regret.Add(router, spec, count);
  }
  RecordProperty("mean_regret", std::to_string(regret.Mean()));
  std::printf("held-out regret: mean %.4f, worst %.2f\n", regret.Mean(), regret.worst());
  EXPECT_LE(regret.Mean(), 1.1);
}

TEST(Tuner, KeepsToItsBudget) {
  for (double seconds : {0.05, 1.0, 5.0}) {
    Engines engines;
    const absl::Time start = engines.now;
    const auto rows =
        Tune(engines.cpu, &engines.gpu, TuneGrid(), engines.Options(absl::Seconds(seconds)));
    ASSERT_TRUE(rows.ok());
    EXPECT_GT(rows->size(), 10u);
    EXPECT_LE(engines.now - start, absl::Seconds(1.5 * seconds));
  }
}

TEST(Tuner, WithoutAGpuThereAreCpuTimes) {
  Engines engines;
  const auto rows = Tune(engines.cpu, nullptr, TuneGrid(), engines.Options(absl::Seconds(5)));
  ASSERT_TRUE(rows.ok());
  for (const RoutingRow& row : *rows) {
    EXPECT_GT(row.cpu_us, 0);
    EXPECT_EQ(row.gpu_us, 0);
  }
}

TEST(Tuner, AnEnginesErrorIsTheAnswer) {
  Engines engines;
  engines.gpu.status = absl::UnavailableError("lost");
  EXPECT_EQ(Tune(engines.cpu, &engines.gpu, TuneGrid(), engines.Options(absl::Seconds(5))).status(),
            engines.gpu.status);
}

TEST(Tuner, ProgressGrows) {
  Engines engines;
  TuneOptions options = engines.Options(absl::Seconds(5));
  double last = 0;
  options.progress = [&](double done, const RoutingRow&) {
    EXPECT_GE(done, last);
    EXPECT_LE(done, 1);
    last = done;
  };
  ASSERT_TRUE(Tune(engines.cpu, &engines.gpu, TuneGrid(), options).ok());
  EXPECT_GT(last, 0.9);
}

TEST(TuneGrid, HasEachRowOnce_AllForTheGpu) {
  std::set<std::tuple<int, int, bool, std::int64_t, std::int64_t, std::int64_t>> seen;
  for (const RoutingRow& row : TuneGrid()) {
    EXPECT_TRUE(GpuTakes(SpecOf(row)));
    EXPECT_TRUE(seen.emplace(static_cast<int>(row.op), static_cast<int>(row.dtype), row.with_q,
                             row.m, row.n, row.batch)
                    .second);
  }
}

}  // namespace
}  // namespace factord
