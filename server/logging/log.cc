#include "server/logging/log.h"

namespace factord {
namespace {

// spdlog hands a line to its formatters on the thread that wrote it, with no place for fields.
thread_local const LogFields* fields_of_this_line = nullptr;

}  // namespace

void Log(spdlog::level::level_enum level, absl::string_view message, const LogFields& fields) {
  fields_of_this_line = &fields;
  spdlog::default_logger_raw()->log(level, spdlog::string_view_t(message.data(), message.size()));
  fields_of_this_line = nullptr;
}

const LogFields& FieldsOfThisLine() {
  static const LogFields none;
  return fields_of_this_line == nullptr ? none : *fields_of_this_line;
}

}  // namespace factord
