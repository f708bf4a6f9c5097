// Settings: what a server was set up with, for the status page.
#pragma once

#include <cstdint>
#include <string>

#include "server/engines.h"
#include "server/http/status_page.h"
#include "server/options.h"

namespace factord {

// Chosen one by one: an option that is not named here is not shown.
Settings SettingsOf(const Options& options, const Engines& engines, std::int64_t budget_bytes,
                    const std::string& routing_table);

}  // namespace factord
