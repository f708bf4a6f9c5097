#include "server/trace/otlp_json.h"

#include "absl/strings/str_cat.h"
#include "server/core/json.h"

namespace factord {
namespace {

constexpr int kStatusError = 2;
constexpr absl::string_view kScope = "factord";

// Protobuf's JSON has 64-bit integers as strings.
std::string Nanoseconds(absl::Time time) {
  return absl::StrCat("\"", absl::ToUnixNanos(time), "\"");
}

void AppendValue(const Span::Value& value, std::string& json) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    absl::StrAppend(&json, "{\"intValue\":\"", *integer, "\"}");
    return;
  }
  json += "{\"stringValue\":";
  AppendJsonString(std::get<std::string>(value), json);
  json += "}";
}

void AppendAttribute(absl::string_view key, const Span::Value& value, std::string& json) {
  json += "{\"key\":";
  AppendJsonString(key, json);
  json += ",\"value\":";
  AppendValue(value, json);
  json += "}";
}

void AppendSpan(const Span& span, std::string& json) {
  absl::StrAppend(&json, "{\"traceId\":\"", span.context.trace_id.Hex(), "\",\"spanId\":\"",
                  span.context.span_id.Hex(), "\"");
  if (!span.context.parent_id.is_zero()) {
    absl::StrAppend(&json, ",\"parentSpanId\":\"", span.context.parent_id.Hex(), "\"");
  }
  json += ",\"name\":";
  AppendJsonString(span.name, json);
  absl::StrAppend(&json, ",\"kind\":", static_cast<int>(span.kind),
                  ",\"startTimeUnixNano\":", Nanoseconds(span.start),
                  ",\"endTimeUnixNano\":", Nanoseconds(span.end), ",\"attributes\":[");
  for (std::size_t i = 0; i < span.attributes.size(); ++i) {
    if (i > 0) json += ",";
    AppendAttribute(span.attributes[i].first, span.attributes[i].second, json);
  }
  json += "],\"status\":{";
  if (span.failed) {
    absl::StrAppend(&json, "\"code\":", kStatusError, ",\"message\":");
    AppendJsonString(span.error, json);
  }
  json += "}}";
}

}  // namespace

std::string OtlpJsonLine(std::span<const Span> spans, absl::string_view service_version) {
  std::string json = "{\"resourceSpans\":[{\"resource\":{\"attributes\":[";
  AppendAttribute("service.name", "factord", json);
  json += ",";
  AppendAttribute("service.version", std::string(service_version), json);
  json += "]},\"scopeSpans\":[{\"scope\":{\"name\":";
  AppendJsonString(kScope, json);
  json += "},\"spans\":[";
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (i > 0) json += ",";
    AppendSpan(spans[i], json);
  }
  json += "]}]}]}";
  return json;
}

}  // namespace factord
