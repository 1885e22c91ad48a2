//===- Threads.cpp - how many threads, and on which CPUs ------------------===//

#include "runtime/src/Threads.h"
#include "runtime/src/ControlGroups.h"
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace encast::runtime {

int CpuSet::count() const {
  int count = 0;
  for (uint64_t word : words)
    count += __builtin_popcountll(word);
  return count;
}

int CpuSet::nth(int n) const {
  for (int cpu = 0; cpu < kMost; ++cpu)
    if (has(cpu) && n-- == 0)
      return cpu;
  return -1;
}

CpuSet CpuSet::intersect(const CpuSet &other) const {
  CpuSet both;
  for (int i = 0; i < kMost / 64; ++i)
    both.words[i] = words[i] & other.words[i];
  return both;
}

bool parseCpuList(const char *text, CpuSet &cpus) {
  while (*text && *text != '\n') {
    char *end;
    long first = strtol(text, &end, 10), last = first;
    if (end == text)
      return false;
    if (*end == '-') {
      text = end + 1;
      last = strtol(text, &end, 10);
      if (end == text)
        return false;
    }
    if (first < 0 || last < first)
      return false;
    for (long cpu = first; cpu <= last && cpu < CpuSet::kMost; ++cpu)
      cpus.add(static_cast<int>(cpu));
    if (*end == ',')
      ++end;
    else if (*end && *end != '\n')
      return false;
    text = end;
  }
  return true;
}

CpuSet allowedCpus() {
  CpuSet cpus;
  // glibc's wrapper wants a cpu_set_t; the system call takes any size.
  if (syscall(SYS_sched_getaffinity, 0, CpuSet::kBytes, cpus.data()) <= 0)
    cpus.add(0);
  return cpus;
}

/// Quota over period of one group in whole CPUs, at least 1.
static int64_t cpusOfGroup(const char *root, const char *folder, bool unified) {
  int64_t quota = 0, period = 0;
  if (unified) {
    SmallFile file(root, folder, "cpu.max"); // "150000 100000" or "max 100000"
    if (sscanf(file.text, "%" SCNd64 " %" SCNd64, &quota, &period) != 2)
      return kNoLimit;
  } else if (!SmallFile(root, folder, "cpu.cfs_quota_us").number(quota) ||
             !SmallFile(root, folder, "cpu.cfs_period_us").number(period)) {
    return kNoLimit;
  }
  return quota > 0 && period > 0 ? std::max<int64_t>(1, quota / period)
                                 : kNoLimit;
}

int64_t cgroupCpus(const char *root) {
  int64_t cpus = leastOfGroups(root, "cpu", cpusOfGroup);
  return cpus == kNoLimit ? 0 : cpus;
}

bool numaCpus(const char *root, int node, CpuSet &cpus) {
  char path[128];
  snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpulist", node);
  SmallFile list(root, path);
  return list.found && parseCpuList(list.text, cpus);
}

CpuSet physicalCores(const char *root, const CpuSet &cpus) {
  CpuSet cores;
  for (int cpu = 0; cpu < CpuSet::kMost; ++cpu) {
    if (!cpus.has(cpu))
      continue;
    char path[128];
    snprintf(path, sizeof(path),
             "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
             cpu);
    SmallFile list(root, path);
    CpuSet siblings;
    if (!list.found || !parseCpuList(list.text, siblings) ||
        siblings.intersect(cpus).nth(0) == cpu ||
        siblings.intersect(cpus).count() == 0)
      cores.add(cpu);
  }
  return cores;
}

int defaultThreads(const char *root, const CpuSet &cpus) {
  int64_t threads = physicalCores(root, cpus).count();
  if (int64_t limit = cgroupCpus(root))
    threads = std::min(threads, limit);
  return static_cast<int>(
      std::clamp<int64_t>(threads, 1, static_cast<int64_t>(kMostThreads)));
}

} // namespace encast::runtime
