//===- Threads.cpp - how many threads, and on which CPUs ------------------===//

#include "runtime/src/Threads.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
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

bool setAffinity(CpuSet cpus) {
  return syscall(SYS_sched_setaffinity, 0, CpuSet::kBytes, cpus.data()) == 0;
}

namespace {

/// A whole small file, cut at the size of the buffer.
struct SmallFile {
  char text[8192];
  bool found = false;

  SmallFile(const char *root, const char *path) {
    text[0] = 0;
    char full[1024];
    if (snprintf(full, sizeof(full), "%s%s", root, path) >=
        static_cast<int>(sizeof(full)))
      return;
    int file = open(full, O_RDONLY | O_CLOEXEC);
    if (file < 0)
      return;
    size_t length = 0;
    ssize_t count;
    while (length < sizeof(text) - 1 &&
           (count = read(file, text + length, sizeof(text) - 1 - length)) > 0)
      length += count;
    close(file);
    text[length] = 0;
    found = true;
  }
};

/// Quota over period in whole CPUs, at least 1; 0 if unlimited.
int64_t wholeCpus(int64_t quota, int64_t period) {
  return quota > 0 && period > 0 ? std::max<int64_t>(1, quota / period) : 0;
}

int64_t smallerLimit(int64_t a, int64_t b) {
  return !a ? b : !b ? a : std::min(a, b);
}

int64_t limitOfGroup(const char *root, const char *folder, bool unified) {
  char path[1024];
  long long quota = 0, period = 0;
  if (unified) {
    snprintf(path, sizeof(path), "%s/cpu.max", folder);
    SmallFile file(root, path);
    if (sscanf(file.text, "%lld %lld", &quota, &period) != 2)
      return 0; // "max 100000"
  } else {
    snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", folder);
    SmallFile quotaFile(root, path);
    snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", folder);
    SmallFile periodFile(root, path);
    if (sscanf(quotaFile.text, "%lld", &quota) != 1 ||
        sscanf(periodFile.text, "%lld", &period) != 1)
      return 0;
  }
  return wholeCpus(quota, period);
}

/// The least limit from the group `path` below `mount` up to `mount` itself.
int64_t limitOnTheWay(const char *root, const char *mount, const char *path,
                      bool unified) {
  char folder[1024];
  if (snprintf(folder, sizeof(folder), "%s%s", mount, path) >=
      static_cast<int>(sizeof(folder)))
    return 0;
  int64_t limit = 0;
  for (;;) {
    limit = smallerLimit(limit, limitOfGroup(root, folder, unified));
    char *slash = strrchr(folder, '/');
    if (!slash || slash < folder + strlen(mount))
      return limit;
    *slash = 0;
  }
}

bool listHas(const char *list, const char *item) {
  size_t length = strlen(item);
  for (const char *at = list; (at = strstr(at, item)); at += length) {
    bool begins = at == list || at[-1] == ',';
    bool ends = !at[length] || at[length] == ',';
    if (begins && ends)
      return true;
  }
  return false;
}

/// Finds the group of this process: version 2 has the line "0::/path", version
/// 1 "4:cpu,cpuacct:/path".
bool findGroup(char *cgroups, bool unified, char *path, size_t room) {
  for (char *rest = cgroups, *line; (line = strsep(&rest, "\n"));) {
    char *fields = line;
    strsep(&fields, ":");
    char *controllers = fields ? strsep(&fields, ":") : nullptr;
    if (!fields)
      continue;
    if (unified ? !*controllers : listHas(controllers, "cpu")) {
      snprintf(path, room, "%s", strcmp(fields, "/") ? fields : "");
      return true;
    }
  }
  return false;
}

/// A line of mountinfo: "36 35 0:31 ROOT MOUNT OPTIONS... - TYPE SOURCE
/// OPTIONS"
int64_t limitOfMount(const char *root, const char *line, bool unified,
                     const char *path) {
  char mountRoot[512], mount[512], type[64], options[512];
  if (sscanf(line, "%*s %*s %*s %511s %511s", mountRoot, mount) != 2)
    return 0;
  const char *tail = strstr(line, " - ");
  if (!tail || sscanf(tail, " - %63s %*s %511s", type, options) != 2)
    return 0;
  if (unified ? strcmp(type, "cgroup2") != 0
              : strcmp(type, "cgroup") != 0 || !listHas(options, "cpu"))
    return 0;
  // In a container the mount may show a part of the tree only, and the path may
  // be that of the host.
  size_t prefix = strcmp(mountRoot, "/") ? strlen(mountRoot) : 0;
  if (prefix && strncmp(path, mountRoot, prefix) != 0)
    return limitOnTheWay(root, mount, "", unified);
  return limitOnTheWay(root, mount, path + prefix, unified);
}

int64_t limitOfVersion(const char *root, bool unified) {
  SmallFile cgroups(root, "/proc/self/cgroup");
  char path[512];
  if (!findGroup(cgroups.text, unified, path, sizeof(path)))
    return 0;
  char file[1024];
  snprintf(file, sizeof(file), "%s/proc/self/mountinfo", root);
  FILE *mounts = fopen(file, "re");
  if (!mounts)
    return 0;
  int64_t limit = 0;
  char line[4096];
  while (fgets(line, sizeof(line), mounts))
    limit = smallerLimit(limit, limitOfMount(root, line, unified, path));
  fclose(mounts);
  return limit;
}

} // namespace

int64_t cgroupCpus(const char *root) {
  return smallerLimit(limitOfVersion(root, true), limitOfVersion(root, false));
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
