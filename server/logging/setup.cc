#include "server/logging/setup.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "grpc/support/log.h"
#include "server/logging/formatters.h"
#include "server/logging/log.h"
#include "spdlog/sinks/stdout_color_sinks.h"

namespace factord {
namespace {

// What gRPC calls an error is most often a client's: a connection that broke, bytes that are no
// HTTP/2.
spdlog::level::level_enum LevelOf(gpr_log_severity severity) {
  return severity == GPR_LOG_SEVERITY_ERROR ? spdlog::level::warn : spdlog::level::debug;
}

// Never destroyed: gRPC's threads may have something to say while the process exits.
std::shared_ptr<spdlog::logger>* grpc_logger = nullptr;

void LogForGrpc(gpr_log_func_args* args) {
  const auto level = LevelOf(args->severity);
  if ((*grpc_logger)->should_log(level)) (*grpc_logger)->log(level, "gRPC: {}", args->message);
}

}  // namespace

void SetUpLogging(const std::string& format, const std::string& level) {
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  sink->set_formatter(format == "json" ? JsonFormatter() : HumanFormatter());
  auto logger = std::make_shared<spdlog::logger>("factord", std::move(sink));
  grpc_logger = new std::shared_ptr<spdlog::logger>(logger);
  spdlog::set_default_logger(std::move(logger));
  spdlog::set_level(spdlog::level::from_str(level));
  gpr_set_log_function(LogForGrpc);
}

void ChangeLogLevel(int more) {
  namespace level = spdlog::level;
  static constexpr level::level_enum kSteps[] = {level::off,  level::err,   level::warn,
                                                 level::info, level::debug, level::trace};
  constexpr int kLast = static_cast<int>(std::size(kSteps)) - 1;
  const auto now = std::find(std::begin(kSteps), std::end(kSteps), spdlog::get_level());
  const int step = static_cast<int>(now - std::begin(kSteps));
  const level::level_enum next = kSteps[std::clamp(step + more, std::min(step, 1), kLast)];
  spdlog::set_level(next);
  const auto name = level::to_string_view(next);
  Log(std::max(level::info, next), "the log level was changed",
      LogFields().Add("log_level", absl::string_view(name.data(), name.size())));
}

}  // namespace factord
