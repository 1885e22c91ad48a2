//===- Threads.h - how many threads, and on which CPUs ----------*- C++ -*-===//
///
/// \file
/// What the process may really use: the CPUs of its affinity mask, which of
/// them are cores of their own, and the quota of its control groups.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_RUNTIME_SRC_THREADS_H
#define ENCAST_RUNTIME_SRC_THREADS_H

#include <cstdint>

namespace encast::runtime {

constexpr int kMostThreads = 4096;

/// A set of CPU numbers.
class CpuSet {
public:
  static constexpr int kMost = 8192; ///< The most that Linux supports.

  bool has(int cpu) const {
    return cpu >= 0 && cpu < kMost && (words[cpu / 64] >> cpu % 64 & 1);
  }
  void add(int cpu) {
    if (cpu >= 0 && cpu < kMost)
      words[cpu / 64] |= uint64_t(1) << cpu % 64;
  }
  int count() const;
  /// The n-th CPU of the set, from 0; -1 if there are fewer.
  int nth(int n) const;
  CpuSet intersect(const CpuSet &other) const;
  uint64_t *data() { return words; }
  const uint64_t *data() const { return words; }
  static constexpr int kBytes = kMost / 8;

private:
  uint64_t words[kMost / 64] = {};
};

/// Reads a list as sysfs writes it, "0-3,8,10-11"; false if it is none.
bool parseCpuList(const char *text, CpuSet &cpus);

/// The CPUs that this process may run on.
CpuSet allowedCpus();

/// The CPUs of a NUMA node; false if there is no such node. Files are read
/// below `root`, which is "" but in tests.
bool numaCpus(const char *root, int node, CpuSet &cpus);

/// One CPU of each physical core that has a CPU in `cpus`: the lowest.
CpuSet physicalCores(const char *root, const CpuSet &cpus);

/// CPUs' worth of time that the control groups of this process allow (versions
/// 1 and 2, the least on the way to the root; 1.5 counts as 1), at least 1; 0
/// if there is no limit.
int64_t cgroupCpus(const char *root);

/// Threads that a session takes if nothing else is said.
int defaultThreads(const char *root, const CpuSet &cpus);

} // namespace encast::runtime

#endif // ENCAST_RUNTIME_SRC_THREADS_H
