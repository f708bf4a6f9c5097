// What a request is called: by its caller, in logs and in traces.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "server/core/trace_context.h"

namespace factord {

struct RequestIds {
  std::string request_id;
  TraceContext trace;
};

// Whether a caller's id may stand in logs: 1 to 128 visible ASCII characters.
bool IsRequestId(absl::string_view id);

// 32 random hexadecimal digits.
std::string NewRequestId();

}  // namespace factord
