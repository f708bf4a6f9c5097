#include "server/engine/routing_tables.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/core/status_macros.h"

namespace factord {
namespace {

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  // An empty file sets `text`'s failbit, not the file's badbit: Parse says what it lacks.
  if (file.is_open() && !file.bad()) return text.str();
  return absl::NotFoundError(absl::StrCat("can not read ", path, ": ", std::strerror(errno)));
}

int Likeness(const RoutingHeader& header, const Machine& machine) {
  if (header.device != *machine.gpu) return 0;
  return header.cpu != machine.cpu ? 1 : header.threads != machine.threads ? 2 : 3;
}

}  // namespace

absl::StatusOr<std::optional<RoutingTable>> ChooseTable(const std::string& path,
                                                        const Machine& machine,
                                                        std::span<const absl::string_view> texts) {
  if (!path.empty()) {
    ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    return RoutingTable::Parse(text, path);
  }
  std::optional<RoutingTable> best;
  if (!machine.gpu) return best;
  for (absl::string_view text : texts) {
    ASSIGN_OR_RETURN(RoutingTable table, RoutingTable::Parse(text, "a built-in routing table"));
    if (!best || Likeness(table.header(), machine) > Likeness(best->header(), machine)) {
      best = std::move(table);
    }
  }
  return best;
}

}  // namespace factord
