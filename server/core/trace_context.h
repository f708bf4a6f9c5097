// TraceContext: which trace a request belongs to, by the W3C's Trace Context recommendation
// (https://www.w3.org/TR/trace-context/, level 1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace factord {

struct TraceId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  std::string Hex() const;  // 32 lower-case digits
  bool is_zero() const { return high == 0 && low == 0; }
  bool operator==(const TraceId&) const = default;
};

struct SpanId {
  std::uint64_t value = 0;

  std::string Hex() const;  // 16 lower-case digits
  bool is_zero() const { return value == 0; }
  bool operator==(const SpanId&) const = default;
};

// A span of ours: the trace, the span, and whose child it is.
struct TraceContext {
  TraceId trace_id;
  SpanId span_id;
  SpanId parent_id;  // zero: the trace begins here
  bool sampled = false;

  // The value of a `traceparent` entry that names this span.
  std::string Traceparent() const;
  // A new span below this one.
  TraceContext Child() const;
};

// The caller's span, as `parent_id`'s place has it: span_id. nullopt where the recommendation says
// that the entry is to be ignored. A version later than ours is read as far as ours goes.
std::optional<TraceContext> ParseTraceparent(absl::string_view value);

// A trace that begins here, with ids of its own; it is sampled once in 1 / sample_ratio times.
TraceContext NewTrace(double sample_ratio);

}  // namespace factord
