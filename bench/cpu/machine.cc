#include "bench/cpu/machine.h"

#include <stdlib.h>

#include <fstream>
#include <string>
#include <thread>

#include "kernels/cpu/qr.h"

namespace factord::bench::cpu {
namespace {

// The first processor's line in /proc/cpuinfo, or nothing.
std::string CpuInfo(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos || line.substr(0, line.find_first_of("\t:")) != key) continue;
    return line.substr(colon + 2);
  }
  return "";
}

// "1024K", of the first processor's cache of this index.
std::string CacheSize(int index) {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
  std::string size = "unknown";
  file >> size;
  return size;
}

}  // namespace

Facts MachineFacts() {
  double load = 0;
  getloadavg(&load, 1);
  const char* const coretype = std::getenv("OPENBLAS_CORETYPE");
  return {
      {"cpu",
       CpuInfo("model name") + ", family " + CpuInfo("cpu family") + " model " + CpuInfo("model")},
      {"cores", std::to_string(std::thread::hardware_concurrency())},
      {"caches", "L1d " + CacheSize(0) + ", L2 " + CacheSize(2) + ", L3 " + CacheSize(3)},
      {"instructions", kernels::cpu::InstructionSet()},
      {"compiler", __VERSION__},
      {"OPENBLAS_CORETYPE", coretype == nullptr ? "not set" : coretype},
      {"load before", Number(load)},
      {"date", Today()},
  };
}

}  // namespace factord::bench::cpu
