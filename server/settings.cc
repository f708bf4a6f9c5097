#include "server/settings.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"

namespace factord {

Settings SettingsOf(const Options& options, const Engines& engines, std::int64_t budget_bytes,
                    const std::string& routing_table) {
  const auto bytes = [](std::int64_t count) { return absl::StrCat(count, " bytes"); };
  const auto listed = [](const std::vector<std::string>& values) {
    return values.empty() ? std::string("none") : absl::StrJoin(values, ", ");
  };
  return {{"listen", listed(options.listen)},
          {"metrics_listen", options.metrics_listen},
          {"TLS", options.tls_cert.empty()        ? "off"
                  : options.tls_client_ca.empty() ? "on"
                                                  : "on, with client certificates"},
          {"bearer tokens", options.auth_token_file.empty() ? "not needed" : "needed"},
          {"cpu_engine", std::string(Name(engines.cpu_engine))},
          {"cpu_threads", absl::StrCat(engines.cpu_threads)},
          {"backend", options.backend},
          {"routing table", routing_table},
          {"warmup_shapes", listed(options.warmup_shapes)},
          {"max_message_bytes", bytes(options.max_message_bytes)},
          {"memory_budget_bytes", bytes(budget_bytes)},
          {"max_queued_jobs", absl::StrCat(options.max_queued_jobs)},
          {"max_batch_matrices", absl::StrCat(options.max_batch_matrices)},
          {"max_batch_bytes", bytes(options.max_batch_bytes)},
          {"max_batch_cost", absl::FormatDuration(options.max_batch_cost)},
          {"max_batch_delay", absl::FormatDuration(options.max_batch_delay)},
          {"grace_period", absl::FormatDuration(options.grace_period)}};
}

}  // namespace factord
