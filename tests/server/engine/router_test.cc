#include "server/engine/router.h"

#include <cstdio>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/engine/routing_tables.h"
#include "tests/support/temporary_folder.h"

namespace factord {
namespace {

using ::testing::HasSubstr;

const Machine kWithGpu{.cpu = "a CPU", .threads = 4, .gpu = "a GPU"};
const Machine kWithout{.cpu = "a CPU", .threads = 4, .gpu = std::nullopt};

// The GPU takes 100 us whatever the count.
RoutingTable Table(const std::string& device = "a GPU", const std::string& cpu = "a CPU") {
  RoutingHeader header{.device = device, .cpu = cpu, .threads = 4};
  return RoutingTable(header, {{Op::kFactorize, DType::kF32, false, 32, 32, 1, 10, 100},
                               {Op::kFactorize, DType::kF32, false, 32, 32, 1000, 10000, 100}});
}

RouteQuery Query(std::int64_t count) {
  RouteQuery query;
  query.spec.m = query.spec.n = 32;
  query.spec.r = true;
  query.count = count;
  return query;
}

TEST(Router, TheSmallerPredictedTimeDecides) {
  const Router router(kWithGpu, Table(), {});
  const Route few = router.Decide(Query(1), true), many = router.Decide(Query(1000), true);

  EXPECT_EQ(few.backend, Backend::kCpu);
  EXPECT_EQ(many.backend, Backend::kGpu);
  EXPECT_EQ(many.reason, RouteReason::kPredicted);
  EXPECT_EQ(many.times.label, RouteLabel::kMeasured);
  EXPECT_FALSE(many.pinned);
  EXPECT_EQ(many.Explanation(),
            "the gpu is predicted to be 1e+02 times as fast as the cpu (measured)");
}

TEST(Router, WithoutAGpuThereIsOnlyTheCpu) {
  const Router router(kWithout, std::nullopt, {});
  RouteQuery query = Query(100000);
  query.explain = true;

  const Route route = router.Decide(query, false);

  EXPECT_EQ(route.backend, Backend::kCpu);
  EXPECT_EQ(route.Explanation(), "this server has only the cpu backend");
  EXPECT_GT(route.times.cpu, absl::ZeroDuration());
  EXPECT_EQ(route.times.gpu, absl::ZeroDuration());
  EXPECT_EQ(route.times.label, RouteLabel::kDefault);
}

TEST(Router, WhatTheRequestNamesWins_AndIsPinned) {
  const Router router(kWithGpu, Table(), {.backend = Backend::kGpu});
  RouteQuery query = Query(1000);
  query.backend = Backend::kCpu;
  EXPECT_EQ(router.Decide(query, true).backend, Backend::kCpu);
  query = Query(1);
  query.backend = Backend::kGpu;
  const Route lost = router.Decide(query, false);
  EXPECT_EQ(lost.backend, Backend::kGpu);
  EXPECT_TRUE(lost.pinned);
  EXPECT_EQ(lost.reason, RouteReason::kAsked);
}

TEST(Router, WhatTheGpuDoesNotTakeRunsOnTheCpuEvenIfTheGpuWasAsked) {
  const Router router(kWithGpu, Table(), {});
  RouteQuery complex = Query(1000);
  complex.spec.dtype = DType::kC64;
  RouteQuery wide = Query(1000);
  wide.spec.op = Op::kSolve;
  wide.spec.m = 16;
  for (RouteQuery query : {complex, wide}) {
    for (auto backend : {std::optional<Backend>(), std::optional(Backend::kGpu)}) {
      query.backend = backend;
      query.explain = true;
      const Route route = router.Decide(query, true);
      EXPECT_EQ(route.backend, Backend::kCpu);
      EXPECT_EQ(route.reason, RouteReason::kNotOnGpu);
      EXPECT_THAT(route.Explanation(), HasSubstr("on the cpu beside it"));
      EXPECT_EQ(route.times.gpu, absl::ZeroDuration());
    }
  }
  wide.spec.n = 16;
  wide.backend = Backend::kGpu;
  EXPECT_EQ(router.Decide(wide, true).backend, Backend::kGpu);
}

TEST(Router, AMatrixTooLargeForTheGpusBuffersRunsOnTheCpu) {
  Machine machine = kWithGpu;
  machine.gpu_matrix_bytes = 32 * 32 * 4 * 2;
  const Router router(machine, Table(), {.backend = Backend::kGpu});
  RouteQuery query = Query(1000);
  EXPECT_EQ(router.Decide(query, true).backend, Backend::kGpu);
  query.spec.m = 33;
  query.backend = Backend::kGpu;
  EXPECT_EQ(router.Decide(query, true).backend, Backend::kCpu);
  EXPECT_EQ(router.Decide(query, true).reason, RouteReason::kTooLarge);
}

TEST(Router, NothingIsDoneOnTheCpu) {
  const Router router(kWithGpu, Table(), {.backend = Backend::kGpu});
  RouteQuery query = Query(5);
  query.spec.n = 0;
  query.explain = true;
  EXPECT_EQ(router.Decide(query, true).reason, RouteReason::kEmpty);
  EXPECT_EQ(router.Decide(Query(0), true).backend, Backend::kCpu);
}

TEST(Router, AReproducibleChoiceDependsOnTheShapeAlone) {
  const Router router(kWithGpu, Table(), {});
  for (std::int64_t n : {4, 32, 500}) {
    RouteQuery query = Query(1);
    query.spec.m = query.spec.n = n;
    query.reproducible = true;
    const Route one = router.Decide(query, true);
    query.count = 100000;
    for (bool healthy : {true, false}) {
      const Route many = router.Decide(query, healthy);
      EXPECT_TRUE(many.pinned);
      EXPECT_EQ(many.backend, one.backend);
      EXPECT_EQ(many.times.gpu, one.times.gpu);
      EXPECT_THAT(many.Explanation(), HasSubstr("by shape alone"));
    }
  }
}

TEST(Router, ALostGpuLeavesTheCpu) {
  const Router router(kWithGpu, Table(), {.backend = Backend::kGpu});
  const Route route = router.Decide(Query(1000), false);
  EXPECT_EQ(route.backend, Backend::kCpu);
  EXPECT_EQ(route.reason, RouteReason::kGpuLost);
  EXPECT_FALSE(route.pinned);
}

TEST(Router, OverridesComeBeforePredictions) {
  EXPECT_EQ(Router(kWithGpu, Table(), {.backend = Backend::kGpu}).Decide(Query(1), true).backend,
            Backend::kGpu);
  EXPECT_EQ(Router(kWithGpu, Table(), {.backend = Backend::kCpu}).Decide(Query(1000), true).backend,
            Backend::kCpu);
  const double flops = FlopsOf(Query(1).spec);
  const Router by_work(kWithGpu, Table(), {.gpu_min_flops = 10 * flops});
  EXPECT_EQ(by_work.Decide(Query(9), true).backend, Backend::kCpu);
  EXPECT_EQ(by_work.Decide(Query(10), true).backend, Backend::kGpu);
  EXPECT_EQ(by_work.Decide(Query(10), true).reason, RouteReason::kWork);
}

TEST(Router, LabelSaysWhatTheTableIsOf) {
  const auto label = [](RoutingTable table) { return Router(kWithGpu, table, {}).label(); };
  EXPECT_EQ(label(Table()), RouteLabel::kMeasured);
  EXPECT_EQ(label(Table("another GPU")), RouteLabel::kEstimated);
  EXPECT_EQ(label(Table("a GPU", "another CPU")), RouteLabel::kEstimated);
  RoutingHeader made_up = Table().header();
  made_up.measured = false;
  EXPECT_EQ(label(RoutingTable(made_up, Table().rows())), RouteLabel::kEstimated);
  EXPECT_EQ(Router(kWithGpu, std::nullopt, {}).label(), RouteLabel::kDefault);
}

TEST(Router, OperationsTheTableLacksAreByRuleOfThumb) {
  RouteQuery query = Query(100000);
  query.spec.q = QMode::kReduced;
  const Route route = Router(kWithGpu, Table(), {}).Decide(query, true);
  EXPECT_EQ(route.backend, Backend::kGpu);
  EXPECT_EQ(route.times.label, RouteLabel::kDefault);
}

TEST(Router, ATableOfTheOtherCpuEngineOnlyEstimates) {
  Machine machine = kWithGpu;
  machine.cpu_engine = "simd";
  const Router router(machine, Table(), {});
  EXPECT_EQ(router.Decide(Query(1000), true).times.label, RouteLabel::kEstimated);
}

TEST(DefaultTimes, SendLittleWorkToTheCpuAndMuchToTheGpu) {
  const auto faster = [](std::int64_t n, std::int64_t count) {
    RouteQuery query = Query(count);
    query.spec.m = query.spec.n = n;
    return Router(kWithGpu, std::nullopt, {}).Decide(query, true).backend;
  };
  EXPECT_EQ(faster(8, 1), Backend::kCpu);
  EXPECT_EQ(faster(32, 4), Backend::kCpu);
  EXPECT_EQ(faster(64, 1000), Backend::kGpu);
  EXPECT_EQ(faster(2048, 1), Backend::kGpu);
}

TEST(ChooseTable, TakesTheTableMostLikeThisMachine) {
  const std::string other = Table("another GPU").ToText();
  const std::string same_gpu = Table("a GPU", "another CPU").ToText();
  const std::string same = Table().ToText();
  const auto device_and_cpu = [](const Machine& machine, std::vector<absl::string_view> texts) {
    const auto table = ChooseTable("", machine, texts);
    return !table.ok() || !*table ? "none"
                                  : (*table)->header().device + ", " + (*table)->header().cpu;
  };
  EXPECT_EQ(device_and_cpu(kWithGpu, {other, same_gpu, same}), "a GPU, a CPU");
  EXPECT_EQ(device_and_cpu(kWithGpu, {other, same_gpu}), "a GPU, another CPU");
  EXPECT_EQ(device_and_cpu(kWithGpu, {other}), "another GPU, a CPU");
  EXPECT_EQ(device_and_cpu(kWithGpu, {}), "none");
  EXPECT_EQ(device_and_cpu(kWithout, {same}), "none");
}

TEST(ChooseTable, AFileComesFirst_AndItsFaultsAreNamed) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "table.txt";
  std::ofstream(path) << Table("of the file").ToText();
  EXPECT_EQ((*ChooseTable(path, kWithout))->header().device, "of the file");
  std::ofstream(path) << "device: x\nnonsense\n";
  EXPECT_THAT(std::string(ChooseTable(path, kWithout).status().message()),
              HasSubstr(path + ":2: a row has 8 fields"));
  std::remove(path.c_str());
  EXPECT_THAT(std::string(ChooseTable(path, kWithout).status().message()),
              HasSubstr("can not read " + path + ": No such file"));
}

TEST(BuiltInTables, AllParse) {
  for (absl::string_view text : BuiltInTables()) {
    const auto table = RoutingTable::Parse(text, "built in");
    EXPECT_TRUE(table.ok()) << table.status();
  }
}

}  // namespace
}  // namespace factord
