//===- ThreadsTest.cpp - what the process may use -------------------------===//

#include "runtime/src/Threads.h"
#include "test/runtime/FakeSystem.h"
#include <gtest/gtest.h>

using namespace encast::runtime;
using namespace encast::test;

namespace {

int64_t quota(const FakeSystem &system) {
  return cgroupCpus(system.root().c_str());
}

CpuSet cpus(const char *list) {
  CpuSet set;
  EXPECT_TRUE(parseCpuList(list, set)) << list;
  return set;
}

constexpr const char *kCpuMount =
    "33 29 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup "
    "rw,cpu,cpuacct\n";

} // namespace

TEST(CpuList, is_read_as_sysfs_writes_it) {
  CpuSet set = cpus("0-2,5,64-65\n");
  EXPECT_EQ(set.count(), 6);
  EXPECT_TRUE(set.has(64));
  EXPECT_FALSE(set.has(3));
  EXPECT_EQ(set.nth(3), 5);
  EXPECT_EQ(set.nth(6), -1);
  EXPECT_EQ(cpus("").count(), 0);
  EXPECT_EQ(cpus("8190-9000").count(), 2);
  for (const char *bad : {"a", "1-", "3-1", "1;2", "-1"}) {
    CpuSet unused;
    EXPECT_FALSE(parseCpuList(bad, unused)) << bad;
  }
}

TEST(DefaultThreads, siblings_of_a_core_count_once) {
  FakeSystem system;
  for (int cpu = 0; cpu < 8; ++cpu)
    system.file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                    "/topology/thread_siblings_list",
                std::to_string(cpu % 4) + "," + std::to_string(cpu % 4 + 4));
  std::string root = system.root();
  EXPECT_EQ(physicalCores(root.c_str(), cpus("0-7")).count(), 4);
  // Of cores of which one sibling is allowed, that one.
  EXPECT_EQ(physicalCores(root.c_str(), cpus("4-6")).nth(0), 4);
  EXPECT_EQ(physicalCores(root.c_str(), cpus("4-6")).count(), 3);
  EXPECT_EQ(physicalCores(root.c_str(), cpus("1,5,6")).count(), 2);
  EXPECT_EQ(defaultThreads(root.c_str(), cpus("0-7")), 4);
}

TEST(DefaultThreads, cpus_without_topology_are_cores) {
  FakeSystem system;
  EXPECT_EQ(defaultThreads(system.root().c_str(), cpus("0-2")), 3);
}

TEST(CgroupQuota, of_version_2_is_the_least_on_the_way_to_the_root) {
  FakeSystem system;
  system.file("/proc/self/cgroup", "0::/a/b\n");
  system.file("/proc/self/mountinfo", kUnifiedMount);
  EXPECT_EQ(quota(system), 0);
  system.file("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(system), 0);
  system.file("/sys/fs/cgroup/a/cpu.max", "350000 100000\n");
  EXPECT_EQ(quota(system), 3);
  system.file("/sys/fs/cgroup/a/b/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota(system), 1); // 1.5 counts as 1
  system.file("/sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota(system), 1); // at least 1
  EXPECT_EQ(defaultThreads(system.root().c_str(), cpus("0-7")), 1);
}

TEST(CgroupQuota, of_version_1_needs_a_positive_quota) {
  FakeSystem system;
  system.file("/proc/self/cgroup", "9:memory:/\n4:cpu,cpuacct:/job\n0::/\n");
  system.file("/proc/self/mountinfo", kCpuMount);
  std::string group = "/sys/fs/cgroup/cpu,cpuacct/job/";
  system.file(group + "cpu.cfs_period_us", "100000\n");
  system.file(group + "cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(quota(system), 0);
  system.file(group + "cpu.cfs_quota_us", "200000\n");
  EXPECT_EQ(quota(system), 2);
}

// In a container the mount shows the container's part, and the path may be the
// host's.
TEST(CgroupQuota, of_a_container_is_found_below_its_mount) {
  FakeSystem system;
  system.file("/proc/self/cgroup", "4:cpu:/docker/abc\n");
  system.file("/proc/self/mountinfo",
              "33 29 0:30 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup "
              "ro,cpu\n");
  system.file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  system.file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n");
  EXPECT_EQ(quota(system), 4);
  system.file("/proc/self/cgroup", "4:cpu:/elsewhere\n");
  EXPECT_EQ(quota(system), 4);
}

TEST(CgroupQuota, cpuset_is_not_the_cpu_controller) {
  FakeSystem system;
  system.file("/proc/self/cgroup", "4:cpuset:/job\n");
  system.file("/proc/self/mountinfo",
              "33 29 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup "
              "rw,cpuset\n");
  system.file("/sys/fs/cgroup/cpuset/job/cpu.cfs_period_us", "100000\n");
  system.file("/sys/fs/cgroup/cpuset/job/cpu.cfs_quota_us", "100000\n");
  EXPECT_EQ(quota(system), 0);
}

TEST(NumaNode, has_the_cpus_of_its_list) {
  FakeSystem system;
  system.file("/sys/devices/system/node/node1/cpulist", "4-7\n");
  CpuSet node;
  EXPECT_TRUE(numaCpus(system.root().c_str(), 1, node));
  EXPECT_EQ(node.count(), 4);
  EXPECT_FALSE(numaCpus(system.root().c_str(), 0, node));
}

TEST(AllowedCpus, are_those_of_this_process) {
  EXPECT_GE(allowedCpus().count(), 1);
}
