#include "server/core/trace_context.h"

#include "absl/strings/str_cat.h"
#include "server/core/random_bits.h"

namespace factord {
namespace {

// VERSION "-" TRACE-ID "-" PARENT-ID "-" FLAGS, in hexadecimal digits.
constexpr std::size_t kTraceIdAt = 3;
constexpr std::size_t kParentIdAt = kTraceIdAt + 32 + 1;
constexpr std::size_t kFlagsAt = kParentIdAt + 16 + 1;
constexpr std::size_t kSize = kFlagsAt + 2;
constexpr std::uint64_t kSampled = 1;

// Lower-case digits only, as the recommendation has them.
std::optional<std::uint64_t> ParseHex(absl::string_view digits) {
  std::uint64_t value = 0;
  for (const char c : digits) {
    const bool decimal = c >= '0' && c <= '9';
    if (!decimal && !(c >= 'a' && c <= 'f')) return std::nullopt;
    value = value << 4 | static_cast<std::uint64_t>(decimal ? c - '0' : c - 'a' + 10);
  }
  return value;
}

bool HasDashes(absl::string_view value) {
  return value[kTraceIdAt - 1] == '-' && value[kParentIdAt - 1] == '-' &&
         value[kFlagsAt - 1] == '-';
}

SpanId NewSpanId() {
  SpanId id;
  while (id.is_zero()) id.value = RandomBits();
  return id;
}

}  // namespace

std::string TraceId::Hex() const {
  return absl::StrCat(absl::Hex(high, absl::kZeroPad16), absl::Hex(low, absl::kZeroPad16));
}

std::string SpanId::Hex() const { return absl::StrCat(absl::Hex(value, absl::kZeroPad16)); }

std::string TraceContext::Traceparent() const {
  return absl::StrCat("00-", trace_id.Hex(), "-", span_id.Hex(), sampled ? "-01" : "-00");
}

TraceContext TraceContext::Child() const {
  return {.trace_id = trace_id, .span_id = NewSpanId(), .parent_id = span_id, .sampled = sampled};
}

std::optional<TraceContext> ParseTraceparent(absl::string_view value) {
  if (value.size() < kSize || !HasDashes(value)) return std::nullopt;
  const auto version = ParseHex(value.substr(0, 2));
  if (!version || *version == 0xFF) return std::nullopt;
  if (value.size() > kSize && (*version == 0 || value[kSize] != '-')) return std::nullopt;
  const auto high = ParseHex(value.substr(kTraceIdAt, 16));
  const auto low = ParseHex(value.substr(kTraceIdAt + 16, 16));
  const auto span = ParseHex(value.substr(kParentIdAt, 16));
  const auto flags = ParseHex(value.substr(kFlagsAt, 2));
  if (!high || !low || !span || !flags) return std::nullopt;
  const TraceContext parsed = {.trace_id = {*high, *low},
                               .span_id = {*span},
                               .parent_id = {},
                               .sampled = (*flags & kSampled) != 0};
  if (parsed.trace_id.is_zero() || parsed.span_id.is_zero()) return std::nullopt;
  return parsed;
}

TraceContext NewTrace(double sample_ratio) {
  TraceContext context;
  while (context.trace_id.is_zero()) context.trace_id = {RandomBits(), RandomBits()};
  context.span_id = NewSpanId();
  // The ids are random, so their bits draw the lot as well.
  context.sampled = static_cast<double>(context.trace_id.low >> 11) * 0x1p-53 < sample_ratio;
  return context;
}

}  // namespace factord
