// Addresses that gRPC listens on and connects to.
#pragma once

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace factord {

// unix:PATH, as opposed to HOST:PORT. The path may still be empty.
inline bool IsUnixAddress(absl::string_view address) { return absl::StartsWith(address, "unix:"); }

// unix:PATH with a path.
inline bool NamesUnixSocket(absl::string_view address) {
  return IsUnixAddress(address) && address != "unix:";
}

}  // namespace factord
