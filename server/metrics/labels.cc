#include "server/metrics/labels.h"

#include <cstddef>

namespace factord {

absl::string_view Name(Rpc rpc) {
  static constexpr absl::string_view kNames[] = {"Factorize", "FactorizeStream", "FormQ",
                                                 "ApplyQ",    "Solve",           "ReduceRows",
                                                 "Explain",   "GetServerInfo"};
  return kNames[static_cast<std::size_t>(rpc)];
}

absl::string_view Name(Stage stage) {
  static constexpr absl::string_view kNames[] = {"decode",  "queue",  "pack",
                                                 "compute", "unpack", "encode"};
  return kNames[static_cast<std::size_t>(stage)];
}

absl::string_view Name(Reject reject) {
  static constexpr absl::string_view kNames[] = {
      "invalid",    "too_large", "queue_full", "budget_full", "draining",
      "no_backend", "expired",   "hopeless",   "cancelled",   "unauthenticated"};
  return kNames[static_cast<std::size_t>(reject)];
}

absl::string_view Name(Fallback fallback) {
  static constexpr absl::string_view kNames[] = {"device_lost", "out_of_memory", "error"};
  return kNames[static_cast<std::size_t>(fallback)];
}

absl::string_view Name(MemoryKind kind) {
  static constexpr absl::string_view kNames[] = {"total", "reserved", "pinned"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace factord
