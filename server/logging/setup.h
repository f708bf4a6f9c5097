// Where the process's log goes, and how much of it there is.
#pragma once

#include <string>

namespace factord {

// Everything that is logged from now on, gRPC's own messages included, goes to stderr. `format`:
// human or json; `level`: trace, debug, info, warning, error or off.
void SetUpLogging(const std::string& format, const std::string& level);

// One level more (+1: down to trace) or less (-1: up to error), and a line that says so. From off,
// less changes nothing.
void ChangeLogLevel(int more);

}  // namespace factord
