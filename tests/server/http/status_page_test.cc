#include "server/http/status_page.h"

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/http/endpoints.h"
#include "tests/server/batching/make_job.h"
#include "tests/server/rpc/routed_context.h"

namespace factord {
namespace {

using nlohmann::json;

class StatusPageTest : public ::testing::Test {
 protected:
  StatusPageTest() {
    routed_.context.dispatcher = &dispatcher_;
    routed_.context.metrics = std::make_shared<Metrics>(BuildInfo{}, Devices());
    routed_.context.version = "1.2";
    routed_.context.started = kStart;
  }

  static std::vector<std::string> Devices() { return {"cpu", "gpu0"}; }

  Metrics& metrics() { return *routed_.context.metrics; }

  json Status(absl::Time time = kStart + absl::Seconds(90)) {
    const StatusSource source{
        routed_.context, [this] { return why_not_; }, {{"listen", "127.0.0.1:1"}}};
    return json::parse(StatusJson(source, metrics().Snapshot(), history_, time));
  }

  testing::RoutedContext routed_;
  Dispatcher dispatcher_{{}, nullptr, [] { return kStart; }};
  History history_;
  std::optional<std::string> why_not_;
};

TEST_F(StatusPageTest, WithoutTrafficThereAreNoTimes) {
  const json status = Status();
  EXPECT_EQ(status["version"], "1.2");
  EXPECT_EQ(status["uptime_s"], 90);
  EXPECT_EQ(status["ready"], true);
  EXPECT_EQ(status["state"], "serving");
  EXPECT_EQ(status["requests"].size(), kRpcs);
  EXPECT_EQ(status["requests"][0]["count"], 0);
  EXPECT_TRUE(status["stages"][0]["p99_s"].is_null());
  EXPECT_TRUE(status["queue"]["buckets"].empty());
  EXPECT_TRUE(status["queue"]["oldest_s"].is_null());
  EXPECT_EQ(status["settings"][0]["value"], "127.0.0.1:1");
}

TEST_F(StatusPageTest, SaysWhyItIsNotReady) {
  why_not_ = "draining";
  EXPECT_EQ(Status()["ready"], false);
  EXPECT_EQ(Status()["state"], "draining");
}

TEST_F(StatusPageTest, TellsOfTheWindowAlone) {
  metrics().StageEnded(Stage::kCompute, absl::Seconds(10));
  history_.Add(metrics().Snapshot());
  metrics().StageEnded(Stage::kCompute, absl::Milliseconds(1));
  const json compute = Status()["stages"][static_cast<int>(Stage::kCompute)];
  EXPECT_EQ(compute["name"], "compute");
  EXPECT_EQ(compute["count"], 1);
  EXPECT_LE(compute["p99_s"], 1.001e-3);
}

TEST_F(StatusPageTest, ListsDevicesAsTheMetricsNameThem) {
  metrics().SetDeviceHealthy(1, false);
  metrics().SetDeviceMemory(1, MemoryKind::kReserved, 77);
  const json devices = Status()["devices"];
  ASSERT_EQ(devices.size(), 2);
  EXPECT_EQ(devices[0]["name"], "cpu");
  EXPECT_EQ(devices[0]["model"], "a CPU");
  EXPECT_EQ(devices[1]["name"], "gpu0");
  EXPECT_EQ(devices[1]["model"], "a GPU");
  EXPECT_EQ(devices[1]["lanes"], 2);
  EXPECT_EQ(devices[1]["healthy"], false);
  EXPECT_EQ(devices[1]["memory"]["reserved"], 77);
}

TEST_F(StatusPageTest, ListsBucketsTheLongestWaitFirst) {
  for (std::int64_t size = 1; size <= 400; ++size) {
    for (Backend route : {Backend::kCpu, Backend::kGpu}) {
      ASSERT_TRUE(dispatcher_.Submit(OneJob({.size = size, .route = route})).ok());
    }
  }
  const json queue = Status(kStart + absl::Seconds(3))["queue"];
  EXPECT_GT(queue["bucket_count"], 40);
  EXPECT_EQ(queue["buckets"].size(), 40);
  EXPECT_EQ(queue["buckets"][0]["oldest_s"], 3);
  EXPECT_EQ(queue["buckets"][0]["type"], "f32");
}

TEST_F(StatusPageTest, ShowsRefusalsWhateverBytesTheyQuote) {
  routed_.context.refusals.Add(Rpc::kSolve, absl::InvalidArgumentError("a\xff\"<b>\n"), kStart);
  const json refusal = Status()["refusals"][0];
  EXPECT_EQ(refusal["reason"], "invalid");
  EXPECT_EQ(refusal["rpc"], "Solve");
  EXPECT_EQ(refusal["message"], "a\xef\xbf\xbd\"<b>\n");
}

TEST_F(StatusPageTest, EndpointsAnswer) {
  const Endpoints endpoints(StatusSource{routed_.context, [this] { return why_not_; }, {}},
                            metrics());
  const auto get = [&](const std::string& path) { return endpoints.Answer({.path = path}); };
  EXPECT_EQ(get("/livez").status, 200);
  EXPECT_EQ(get("/readyz").status, 200);
  why_not_ = "warming up";
  EXPECT_EQ(get("/livez").status, 200);
  EXPECT_EQ(get("/readyz").status, 503);
  EXPECT_EQ(get("/readyz").body, "warming up\n");
  EXPECT_NE(get("/metrics").body.find("factord_requests_total"), std::string::npos);
  EXPECT_NE(get("/").body.find("<html"), std::string::npos);
  EXPECT_EQ(get("/status.js").content_type, "text/javascript; charset=utf-8");
  EXPECT_EQ(json::parse(get("/status.json").body)["state"], "warming up");
  for (const char* path : {"/nothing", "", "//", "/metrics/", "/../etc/passwd", "/index.html"}) {
    EXPECT_EQ(get(path).status, 404) << path;
  }
  const HttpResponse refused = get("/explain.json");
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(json::parse(refused.body)["error"], "m: is missing");
}

}  // namespace
}  // namespace factord
