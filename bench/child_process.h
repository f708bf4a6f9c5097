// A server started for a benchmark, and ended with it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace factord::bench {

// Runs `command` until destroyed. Reads its first line of the form "listening on ADDRESS".
class ChildProcess {
 public:
  explicit ChildProcess(const std::vector<std::string>& command);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  const std::string& address() const { return address_; }

 private:
  pid_t pid_;
  std::string address_;
};

}  // namespace factord::bench
