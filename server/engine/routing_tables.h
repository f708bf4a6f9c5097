// Where a server's routing table comes from: a file, or one of those built in.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/engine/router.h"
#include "server/engine/routing_table.h"

namespace factord {

// The texts of tables/*.txt, as they were when this was built.
std::span<const absl::string_view> BuiltInTables();

// The table in `path`; where that is empty, the one of `texts` that was measured on this machine's
// device, best with its CPU, else the first. Nothing where there is none, or no GPU to choose. An
// error says what is wrong with the file, and where.
absl::StatusOr<std::optional<RoutingTable>> ChooseTable(
    const std::string& path, const Machine& machine,
    std::span<const absl::string_view> texts = BuiltInTables());

}  // namespace factord
