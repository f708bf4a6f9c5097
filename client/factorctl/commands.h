#ifndef FACTORD_CLIENT_FACTORCTL_COMMANDS_H_
#define FACTORD_CLIENT_FACTORCTL_COMMANDS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/factorctl/terminal.h"

namespace factord::client {

// factorctl's commands, each in a file of its name. `arguments`: what follows the command's name.
// Each prints its result, or returns why there is none.
absl::Status RunQr(const std::vector<std::string>& arguments, Terminal* terminal);
absl::Status RunSolve(const std::vector<std::string>& arguments, Terminal* terminal);
absl::Status RunReduce(const std::vector<std::string>& arguments, Terminal* terminal);
absl::Status RunInfo(const std::vector<std::string>& arguments, Terminal* terminal);
absl::Status RunExplain(const std::vector<std::string>& arguments, Terminal* terminal);
absl::Status RunBench(const std::vector<std::string>& arguments, Terminal* terminal);

// The whole program: finds the command, prints an error as one sentence. Returns the exit code: 0,
// 1 for an error, 2 for a mistake in the arguments.
int RunFactorctl(const std::vector<std::string>& arguments, Terminal* terminal);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_FACTORCTL_COMMANDS_H_
