#include "server/engine/cpu_count.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temporary_folder.h"

namespace factord {
namespace {

class CpuCountTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  static int Affinity() {
    cpu_set_t set;
    sched_getaffinity(0, sizeof(set), &set);
    return CPU_COUNT(&set);
  }

  const testing::TemporaryFolder folder_;
  const std::string& root_ = folder_.path();
};

TEST_F(CpuCountTest, WithoutCgroupsItIsTheAffinity) { EXPECT_EQ(CpuCount(root_), Affinity()); }

TEST_F(CpuCountTest, V2QuotaIsRoundedUp) {
  Write("/sys/fs/cgroup/cpu.max", "20000 100000\n");
  EXPECT_EQ(CpuCount(root_), 1);
  Write("/sys/fs/cgroup/cpu.max", "100001 100000\n");
  EXPECT_EQ(CpuCount(root_), std::min(2, Affinity()));
}

TEST_F(CpuCountTest, V2WithoutLimitIsTheAffinity) {
  Write("/sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(CpuCount(root_), Affinity());
}

TEST_F(CpuCountTest, OwnCgroupAndThoseAboveCount) {
  Write("/proc/self/cgroup", "0::/a/b\n");
  Write("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  Write("/sys/fs/cgroup/a/cpu.max", "50000 100000\n");
  EXPECT_EQ(CpuCount(root_), 1);
}

TEST_F(CpuCountTest, V1Quota) {
  Write("/proc/self/cgroup", "4:cpu,cpuacct:/docker/x\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CpuCount(root_), Affinity());
  Write("/sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us", "30000\n");
  Write("/sys/fs/cgroup/cpu/docker/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CpuCount(root_), 1);
}

TEST_F(CpuCountTest, MemoryIsTheLeastOfAllLimits) {
  EXPECT_EQ(MemoryLimitBytes(root_), 0);
  Write("/proc/meminfo", "MemTotal:        1024 kB\nMemFree: 1 kB\n");
  EXPECT_EQ(MemoryLimitBytes(root_), 1 << 20);
  Write("/sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(MemoryLimitBytes(root_), 1 << 20);
  Write("/sys/fs/cgroup/memory.max", "4096\n");
  EXPECT_EQ(MemoryLimitBytes(root_), 4096);
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2048\n");
  EXPECT_EQ(MemoryLimitBytes(root_), 2048);
}

TEST_F(CpuCountTest, ThisMachineHasCoresAndMemory) {
  EXPECT_GE(CpuCount(), 1);
  EXPECT_GT(MemoryLimitBytes(), 1 << 20);
}

}  // namespace
}  // namespace factord
