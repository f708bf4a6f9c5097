#include "server/trace/otlp_json.h"

#include "gtest/gtest.h"

namespace factord {
namespace {

TEST(OtlpJson, ASpanAsTheCollectorReadsIt) {
  const Span span = {.context = {.trace_id = {0x0af7651916cd43dd, 0x8448eb211c80319c},
                                 .span_id = {0xb7ad6b7169203331},
                                 .parent_id = {1},
                                 .sampled = true},
                     .name = "a \"name\"",
                     .kind = SpanKind::kServer,
                     .start = absl::FromUnixNanos(1'700'000'000'000'000'001),
                     .end = absl::FromUnixNanos(1'700'000'000'000'000'002),
                     .attributes = {{"word", "x"}, {"number", std::int64_t{1} << 60}},
                     .failed = true,
                     .error = "why"};
  EXPECT_EQ(OtlpJsonLine({&span, 1}, "1.2"),
            R"({"resourceSpans":[{"resource":{"attributes":[)"
            R"({"key":"service.name","value":{"stringValue":"factord"}},)"
            R"({"key":"service.version","value":{"stringValue":"1.2"}}]},)"
            R"("scopeSpans":[{"scope":{"name":"factord"},"spans":[)"
            R"({"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203331",)"
            R"("parentSpanId":"0000000000000001","name":"a \"name\"","kind":2,)"
            R"("startTimeUnixNano":"1700000000000000001","endTimeUnixNano":"1700000000000000002",)"
            R"("attributes":[{"key":"word","value":{"stringValue":"x"}},)"
            R"({"key":"number","value":{"intValue":"1152921504606846976"}}],)"
            R"("status":{"code":2,"message":"why"}}]}]}]})");
}

TEST(OtlpJson, ARootHasNoParent_AndWhatWentWellNoStatus) {
  const Span span = {.context = {.trace_id = {0, 1}, .span_id = {2}, .parent_id = {}},
                     .name = "n",
                     .kind = SpanKind::kInternal,
                     .start = absl::UnixEpoch(),
                     .end = absl::UnixEpoch(),
                     .attributes = {},
                     .failed = false,
                     .error = {}};
  const std::string line = OtlpJsonLine({&span, 1}, "");
  EXPECT_EQ(line.find("parentSpanId"), std::string::npos);
  EXPECT_NE(line.find(R"("kind":1,)"), std::string::npos);
  EXPECT_NE(line.find(R"("attributes":[],"status":{}})"), std::string::npos);
}

}  // namespace
}  // namespace factord
