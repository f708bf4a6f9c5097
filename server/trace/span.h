// Span: one timed part of what the server did for a request, as OpenTelemetry has it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/core/trace_context.h"

namespace factord {

// Values are OpenTelemetry's.
enum class SpanKind { kInternal = 1, kServer = 2 };

struct Span {
  using Value = std::variant<std::string, std::int64_t>;

  TraceContext context;
  std::string name;
  SpanKind kind = SpanKind::kInternal;
  absl::Time start;
  absl::Time end;
  std::vector<std::pair<absl::string_view, Value>> attributes;  // keys are constants
  bool failed = false;
  std::string error;  // what failed
};

}  // namespace factord
