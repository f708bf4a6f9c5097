// Spans as OpenTelemetry's OTLP/JSON writes them, for files that its Collector reads
// (https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/).
#pragma once

#include <span>
#include <string>

#include "absl/strings/string_view.h"
#include "server/trace/span.h"

namespace factord {

// One line, without its end: a TracesData object with these spans of this service.
std::string OtlpJsonLine(std::span<const Span> spans, absl::string_view service_version);

}  // namespace factord
