#include "client/factorctl/report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace factord::client {
namespace {

constexpr size_t kStatusesShown = 10;

std::string Ns(int64_t ns) { return ShortDuration(absl::Nanoseconds(ns)); }

}  // namespace

std::string ShortDuration(absl::Duration duration) {
  struct Unit {
    double seconds;
    absl::string_view name;
  };
  constexpr Unit kUnits[] = {{1e-9, "ns"}, {1e-6, "us"}, {1e-3, "ms"}};
  const double seconds = absl::ToDoubleSeconds(duration);
  if (seconds == 0) return "0 s";
  for (const Unit& unit : kUnits) {
    // Below what three digits would round to 1000 of the unit.
    if (seconds < 999.5 * unit.seconds) {
      return absl::StrFormat("%.3g %s", seconds / unit.seconds, unit.name);
    }
  }
  return seconds < 999.5 ? absl::StrFormat("%.3g s", seconds) : absl::StrFormat("%.0f s", seconds);
}

std::string BackendName(v1::Backend backend) {
  switch (backend) {
    case v1::BACKEND_UNSPECIFIED:
      return "auto";
    case v1::BACKEND_CPU:
      return "cpu";
    case v1::BACKEND_GPU:
      return "gpu";
    default:
      return absl::StrCat(static_cast<int>(backend));
  }
}

std::string RouteLabelName(v1::RouteLabel label) {
  switch (label) {
    case v1::ROUTE_LABEL_UNSPECIFIED:
      return "unknown";
    case v1::ROUTE_LABEL_MEASURED:
      return "measured";
    case v1::ROUTE_LABEL_ESTIMATED:
      return "estimated";
    case v1::ROUTE_LABEL_DEFAULT:
      return "default";
    default:
      return absl::StrCat(static_cast<int>(label));
  }
}

std::string MatrixCodeName(v1::MatrixCode code) {
  const std::string& name = v1::MatrixCode_Name(code);
  if (name.empty()) return absl::StrCat(static_cast<int>(code));
  return std::string(absl::StripPrefix(name, "MATRIX_CODE_"));
}

std::string FormatReport(const v1::RunReport& report, absl::Duration latency) {
  return absl::StrCat("ran on ", BackendName(report.backend()), " (", report.path(), ", bucket ",
                      report.bucket(), "), ", report.batch_matrices(),
                      " matrices in the largest batch, ", report.jobs(), " jobs\n",
                      "server: decode ", Ns(report.decode_ns()), ", queue ", Ns(report.queue_ns()),
                      ", pack ", Ns(report.pack_ns()), ", compute ", Ns(report.compute_ns()),
                      ", unpack ", Ns(report.unpack_ns()), ", run ", Ns(report.run_ns()),
                      "\ntotal: ", ShortDuration(latency), "\n");
}

void WriteReport(const v1::RunReport& report, absl::Duration latency, JsonWriter* json) {
  json->Key("report").BeginObject();
  json->Key("backend").String(BackendName(report.backend()));
  json->Key("path").String(report.path());
  json->Key("bucket").String(report.bucket());
  json->Key("batch_matrices").Int(report.batch_matrices());
  json->Key("jobs").Int(report.jobs());
  json->Key("decode_ns").Int(report.decode_ns());
  json->Key("queue_ns").Int(report.queue_ns());
  json->Key("pack_ns").Int(report.pack_ns());
  json->Key("compute_ns").Int(report.compute_ns());
  json->Key("unpack_ns").Int(report.unpack_ns());
  json->Key("run_ns").Int(report.run_ns());
  json->EndObject();
  json->Key("total_ns").Int(absl::ToInt64Nanoseconds(latency));
}

std::string FormatStatuses(const std::vector<v1::MatrixStatus>& statuses) {
  std::string text;
  for (size_t i = 0; i < std::min(statuses.size(), kStatusesShown); ++i) {
    absl::StrAppend(&text, "matrix ", statuses[i].index(), ": ", MatrixCodeName(statuses[i].code()),
                    "\n");
  }
  if (statuses.size() > kStatusesShown) {
    absl::StrAppend(&text, "and ", statuses.size() - kStatusesShown, " more\n");
  }
  return text;
}

void WriteStatuses(const std::vector<v1::MatrixStatus>& statuses, JsonWriter* json) {
  json->Key("statuses").BeginArray();
  for (const v1::MatrixStatus& status : statuses) {
    json->BeginObject();
    json->Key("index").Int(status.index());
    json->Key("code").String(MatrixCodeName(status.code()));
    json->EndObject();
  }
  json->EndArray();
}

}  // namespace factord::client
