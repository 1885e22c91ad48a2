//===- Memory.cpp - how much memory is left -------------------------------===//

#include "runtime/src/Memory.h"
#include "encast.h"
#include "runtime/src/ControlGroups.h"
#include "runtime/src/Errors.h"
#include <algorithm>

namespace encast::runtime {

/// A line of /proc/meminfo in bytes; 0 if there is none.
static int64_t systemMemory(const char *root, const char *key) {
  return SmallFile(root, "/proc/meminfo").numberOf(key) * 1024;
}

/// What one group leaves to the process.
static int64_t memoryOfGroup(const char *root, const char *folder,
                             bool unified) {
  int64_t limit = 0, used = 0;
  SmallFile limitFile(root, folder,
                      unified ? "memory.max" : "memory.limit_in_bytes");
  SmallFile usedFile(root, folder,
                     unified ? "memory.current" : "memory.usage_in_bytes");
  if (!limitFile.number(limit) || !usedFile.number(used))
    return kNoLimit; // "max"
  SmallFile statistics(root, folder, "memory.stat");
  int64_t files = unified ? statistics.numberOf("inactive_file ") +
                                statistics.numberOf("active_file ")
                          : statistics.numberOf("total_inactive_file ") +
                                statistics.numberOf("total_active_file ");
  return std::max<int64_t>(0, limit - used + std::min(files, used));
}

int64_t availableMemory(const char *root) {
  int64_t system = systemMemory(root, "MemAvailable:");
  return std::min(system ? system : kNoLimit,
                  leastOfGroups(root, "memory", memoryOfGroup));
}

int64_t freeSwap(const char *root) { return systemMemory(root, "SwapFree:"); }

} // namespace encast::runtime

using namespace encast::runtime;

extern "C" encast_status encast_memory_available(int64_t *bytes,
                                                 encast_error *error) {
  if (!bytes)
    return nullArgument(error, "bytes");
  *bytes = availableMemory("");
  return ENCAST_OK;
}
