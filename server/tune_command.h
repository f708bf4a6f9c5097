// `factord tune`: measures this machine's engines and writes their routing table.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/engine/routing_table.h"
#include "server/options.h"

namespace factord {

// Progress goes to stderr, a summary to stdout. The table is written when all is measured; `output`
// empty: to stdout, the summary to stderr. Uses of the options what concerns the engines.
absl::Status TuneCommand(const Options& options, absl::Duration budget, const std::string& output);

// For each operation, type and outputs one line: from which count on the GPU is the faster one, by
// shape.
std::string Crossovers(const RoutingTable& table);

}  // namespace factord
