#ifndef FACTORD_CLIENT_FACTORCTL_REPORT_H_
#define FACTORD_CLIENT_FACTORCTL_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/factorctl/json.h"
#include "factord/v1/factord.pb.h"

namespace factord::client {

// "12.3 us": three significant digits, in the unit that suits.
std::string ShortDuration(absl::Duration duration);

// "cpu", "gpu", "auto" or the number.
std::string BackendName(v1::Backend backend);

// "measured", "estimated", "default", "unknown" or the number.
std::string RouteLabelName(v1::RouteLabel label);

// "NONFINITE_INPUT": the enum's name without its prefix.
std::string MatrixCodeName(v1::MatrixCode code);

// How a request ran on the server, in two lines, and how long it took from here.
std::string FormatReport(const v1::RunReport& report, absl::Duration latency);
void WriteReport(const v1::RunReport& report, absl::Duration latency, JsonWriter* json);

// The matrices that are not plainly OK. As text at most ten of them, then how many more.
std::string FormatStatuses(const std::vector<v1::MatrixStatus>& statuses);
void WriteStatuses(const std::vector<v1::MatrixStatus>& statuses, JsonWriter* json);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_FACTORCTL_REPORT_H_
