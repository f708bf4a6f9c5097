// How a log line looks.
#pragma once

#include <memory>

#include "spdlog/formatter.h"

namespace factord {

// "[2026-01-02 03:04:05.678] [factord] [info] message key=value": values with anything but visible
// ASCII are quoted and escaped.
std::unique_ptr<spdlog::formatter> HumanFormatter();

// {"time":"2026-01-02T03:04:05.678901Z","level":"info","message":"message","key":"value"}: valid
// JSON on one line, whatever is in it.
std::unique_ptr<spdlog::formatter> JsonFormatter();

}  // namespace factord
