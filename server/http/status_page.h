// StatusPage: what the status page shows, as JSON.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/http/history.h"
#include "server/http/sampler.h"
#include "server/rpc/service_context.h"

namespace factord {

// Why the server is not ready, in a few words; nullopt: it is.
using NotReady = std::function<std::optional<std::string>()>;

// What an operator set, in the order to show it. Never a secret.
using Settings = std::vector<std::pair<std::string, std::string>>;

struct StatusSource {
  const ServiceContext& context;  // outlives the source
  NotReady not_ready;
  Settings settings;
};

// Of a minute's metrics: `now` against what they were before it. Times in seconds, sizes in bytes;
// quantiles are null where nothing was observed. server/http/page/status.js is who reads it.
std::string StatusJson(const StatusSource& source, const MetricsSnapshot& now,
                       const History& history, absl::Time time);

}  // namespace factord
