#include "server/engine/cpu_count.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace factord {
namespace {

using Words = std::vector<std::string>;

// The words of a file's lines; empty where there is no such file.
std::vector<Words> ReadLines(const std::string& path) {
  std::vector<Words> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    lines.push_back(absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty()));
  }
  return lines;
}

// Word `index` of the first line; nothing for "max", or what is no number.
std::optional<std::int64_t> ReadNumber(const std::string& path, std::size_t index = 0) {
  const std::vector<Words> lines = ReadLines(path);
  std::int64_t number = 0;
  if (lines.empty() || lines[0].size() <= index || !absl::SimpleAtoi(lines[0][index], &number)) {
    return std::nullopt;
  }
  return number;
}

// The folders of this process's own cgroup and of all above it, for a v1 controller or (controller
// = "") for v2. A limit may stand at any of them. Inside a container /proc/self/cgroup may name a
// folder that is mounted elsewhere: those files are not found, and the mount's root counts.
std::vector<std::string> CgroupFolders(const std::string& root, const std::string& controller) {
  const std::string mount = root + "/sys/fs/cgroup" + (controller.empty() ? "" : "/" + controller);
  std::vector<std::string> folders = {mount};
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "4:cpu,cpuacct:/a/b"; v2: "0::/a/b"
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<std::string> names = absl::StrSplit(parts[1], ',');
    if (std::find(names.begin(), names.end(), controller) == names.end()) continue;
    std::string folder = mount;
    const std::vector<std::string> path = absl::StrSplit(parts[2], '/', absl::SkipEmpty());
    for (const std::string& name : path) {
      folder += "/" + name;
      folders.push_back(folder);
    }
  }
  return folders;
}

}  // namespace

int CpuCount(const std::string& root) {
  std::int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  cpu_set_t affinity;
  if (sched_getaffinity(0, sizeof(affinity), &affinity) == 0) cores = CPU_COUNT(&affinity);

  const auto limit = [&](std::optional<std::int64_t> quota, std::optional<std::int64_t> period) {
    if (!quota || !period || *quota <= 0 || *period <= 0) return;  // v1 says -1 for none
    cores = std::min(cores, (*quota + *period - 1) / *period);
  };
  for (const std::string& folder : CgroupFolders(root, "")) {
    const std::string path = folder + "/cpu.max";
    limit(ReadNumber(path, 0), ReadNumber(path, 1));
  }
  for (const std::string& folder : CgroupFolders(root, "cpu")) {
    limit(ReadNumber(folder + "/cpu.cfs_quota_us"), ReadNumber(folder + "/cpu.cfs_period_us"));
  }
  return static_cast<int>(std::max<std::int64_t>(cores, 1));
}

std::int64_t MemoryLimitBytes(const std::string& root) {
  std::int64_t bytes = 0;
  const auto limit = [&](std::optional<std::int64_t> number) {
    if (number && *number > 0) bytes = bytes == 0 ? *number : std::min(bytes, *number);
  };
  for (const Words& line : ReadLines(root + "/proc/meminfo")) {
    std::int64_t kib = 0;
    if (line.size() >= 2 && line[0] == "MemTotal:" && absl::SimpleAtoi(line[1], &kib))
      limit(kib << 10);
  }
  for (const std::string& folder : CgroupFolders(root, ""))
    limit(ReadNumber(folder + "/memory.max"));
  for (const std::string& folder : CgroupFolders(root, "memory")) {
    limit(ReadNumber(folder + "/memory.limit_in_bytes"));
  }
  return bytes;
}

}  // namespace factord
