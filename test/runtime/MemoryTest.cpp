//===- MemoryTest.cpp - how much memory is left ---------------------------===//

#include "runtime/src/Memory.h"
#include "encast.h"
#include "test/runtime/FakeSystem.h"
#include <gtest/gtest.h>

using namespace encast::runtime;
using namespace encast::test;

namespace {

constexpr int64_t kMegabyte = 1 << 20;

class AvailableMemory : public testing::Test {
protected:
  FakeSystem system;

  int64_t megabytes() const {
    return availableMemory(system.root().c_str()) / kMegabyte;
  }
  void group(const std::string &folder, int64_t limit, int64_t used,
             const std::string &statistics) {
    system.file(folder + "/memory.max", std::to_string(limit * kMegabyte));
    system.file(folder + "/memory.current", std::to_string(used * kMegabyte));
    system.file(folder + "/memory.stat", statistics);
  }
};

} // namespace

TEST_F(AvailableMemory, is_that_of_the_system_without_groups) {
  EXPECT_EQ(availableMemory(system.root().c_str()), INT64_MAX);
  system.file("/proc/meminfo", "MemTotal:  16777216 kB\nMemFree: 1024 kB\n"
                               "MemAvailable:   8192 kB\nSwapFree: 2048 kB\n");
  EXPECT_EQ(megabytes(), 8);
  EXPECT_EQ(freeSwap(system.root().c_str()), 2 * kMegabyte);
}

TEST_F(AvailableMemory, is_what_the_narrowest_group_of_version_2_leaves) {
  system.file("/proc/meminfo", "MemAvailable: 8388608 kB\n");
  system.file("/proc/self/cgroup", "0::/a/b\n");
  system.file("/proc/self/mountinfo", kUnifiedMount);
  EXPECT_EQ(megabytes(), 8192);
  system.file("/sys/fs/cgroup/a/b/memory.max", "max\n");
  system.file("/sys/fs/cgroup/a/b/memory.current", "1048576\n");
  EXPECT_EQ(megabytes(), 8192);
  group("/sys/fs/cgroup/a", 512, 100, "anon 5\n");
  EXPECT_EQ(megabytes(), 412);
  group("/sys/fs/cgroup/a/b", 300, 100, "anon 5\n");
  EXPECT_EQ(megabytes(), 200);
  // Over the limit.
  group("/sys/fs/cgroup/a/b", 300, 301, "anon 5\n");
  EXPECT_EQ(megabytes(), 0);
}

// An artifact that was just written or read is no reason to refuse.
TEST_F(AvailableMemory, counts_pages_of_files_as_free) {
  system.file("/proc/self/cgroup", "0::/a\n");
  system.file("/proc/self/mountinfo", kUnifiedMount);
  group("/sys/fs/cgroup/a", 512, 500,
        "anon 10485760\nfile 419430400\ninactive_file 314572800\n"
        "active_file 104857600\n");
  EXPECT_EQ(megabytes(), 412);
}

TEST_F(AvailableMemory, is_what_a_group_of_version_1_leaves) {
  system.file("/proc/self/cgroup", "9:memory:/job\n4:cpu,cpuacct:/\n");
  system.file("/proc/self/mountinfo",
              "33 29 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup "
              "rw,memory\n");
  std::string group = "/sys/fs/cgroup/memory/job/memory.";
  system.file(group + "limit_in_bytes", "9223372036854771712\n");
  system.file(group + "usage_in_bytes", "1048576\n");
  EXPECT_GT(megabytes(), int64_t(1) << 40);
  system.file(group + "limit_in_bytes", "104857600\n");
  EXPECT_EQ(megabytes(), 99);
  system.file(group + "stat", "inactive_file 0\ntotal_inactive_file 262144\n"
                              "total_active_file 262144\n");
  EXPECT_EQ(availableMemory(system.root().c_str()), 99 * kMegabyte + 524288);
}

// Containers have no swap of their own, whatever the system has.
TEST_F(AvailableMemory, has_the_swap_that_groups_leave) {
  system.file("/proc/meminfo", "MemAvailable: 8192 kB\nSwapFree: 2048 kB\n");
  system.file("/proc/self/cgroup", "0::/a\n");
  system.file("/proc/self/mountinfo", kUnifiedMount);
  std::string root = system.root(), group = "/sys/fs/cgroup/a/memory.swap.";
  EXPECT_EQ(freeSwap(root.c_str()), 2 * kMegabyte);
  system.file(group + "current", "0\n");
  system.file(group + "max", "max\n");
  EXPECT_EQ(freeSwap(root.c_str()), 2 * kMegabyte);
  system.file(group + "max", "1048576\n");
  EXPECT_EQ(freeSwap(root.c_str()), kMegabyte);
  system.file(group + "max", "0\n");
  EXPECT_EQ(freeSwap(root.c_str()), 0);
}

TEST_F(AvailableMemory, has_the_swap_that_version_1_leaves_beside_memory) {
  system.file("/proc/meminfo", "SwapFree: 8192 kB\n");
  system.file("/proc/self/cgroup", "9:memory:/job\n");
  system.file("/proc/self/mountinfo",
              "33 29 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup "
              "rw,memory\n");
  std::string root = system.root();
  std::string group = "/sys/fs/cgroup/memory/job/memory.";
  system.file(group + "limit_in_bytes", "4194304\n");
  system.file(group + "usage_in_bytes", "1048576\n");
  EXPECT_EQ(freeSwap(root.c_str()), 8 * kMegabyte);
  system.file(group + "memsw.limit_in_bytes", "6291456\n");
  system.file(group + "memsw.usage_in_bytes", "2097152\n");
  EXPECT_EQ(freeSwap(root.c_str()), kMegabyte);
}

TEST(Memory, of_this_process_is_known) {
  int64_t bytes = -1;
  EXPECT_EQ(encast_memory_available(&bytes, nullptr), ENCAST_OK);
  EXPECT_GT(bytes, 0);
  EXPECT_LT(bytes, INT64_MAX);
  EXPECT_EQ(encast_memory_available(nullptr, nullptr), ENCAST_INVALID_ARGUMENT);
}
