#include "server/core/errors.h"

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace factord {
namespace {

constexpr absl::string_view kField = "factord/field";
constexpr absl::string_view kReason = "factord/reason";
constexpr absl::string_view kRetryDelayNs = "factord/retry_delay_ns";

std::optional<std::string> Payload(const absl::Status& status, absl::string_view url) {
  if (auto payload = status.GetPayload(url)) return std::string(*payload);
  return std::nullopt;
}

}  // namespace

absl::Status InvalidField(absl::string_view field, absl::string_view problem) {
  absl::Status status = absl::InvalidArgumentError(absl::StrCat(field, ": ", problem));
  status.SetPayload(kField, absl::Cord(field));
  return status;
}

absl::Status Overloaded(absl::string_view reason, absl::string_view message,
                        absl::Duration retry_delay) {
  absl::Status status = absl::UnavailableError(message);
  status.SetPayload(kReason, absl::Cord(reason));
  status.SetPayload(kRetryDelayNs, absl::Cord(absl::StrCat(ToInt64Nanoseconds(retry_delay))));
  return status;
}

std::optional<std::string> FieldOf(const absl::Status& status) { return Payload(status, kField); }

std::optional<std::string> ReasonOf(const absl::Status& status) { return Payload(status, kReason); }

std::optional<absl::Duration> RetryDelayOf(const absl::Status& status) {
  std::int64_t ns = 0;
  const auto text = Payload(status, kRetryDelayNs);
  if (!text || !absl::SimpleAtoi(*text, &ns)) return std::nullopt;
  return absl::Nanoseconds(ns);
}

}  // namespace factord
