// What this process may use of the machine: its CPU affinity and memory, cut down by its cgroup's
// limits.
#pragma once

#include <cstdint>
#include <string>

namespace factord {

// Cores, at least 1; a quota of 1.5 counts as 2. Understands cgroup v2 and v1. `root` stands for /
// in tests.
int CpuCount(const std::string& root = "/");

// Bytes; the machine's memory or the cgroup's limit, whichever is less. 0: unknown.
std::int64_t MemoryLimitBytes(const std::string& root = "/");

}  // namespace factord
