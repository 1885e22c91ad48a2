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

namespace {

/// What a group allows of something and has taken of it.
struct Allowance {
  int64_t limit = 0, used = 0;
  bool limited;

  Allowance(const char *root, const char *folder, const char *limitFile,
            const char *usageFile)
      : limited(SmallFile(root, folder, limitFile).number(limit) && // "max"
                SmallFile(root, folder, usageFile).number(used)) {}
  int64_t left() const { return limited ? limit - used : kNoLimit; }
};

int64_t memoryOfGroup(const char *root, const char *folder, bool unified) {
  Allowance memory(root, folder,
                   unified ? "memory.max" : "memory.limit_in_bytes",
                   unified ? "memory.current" : "memory.usage_in_bytes");
  if (!memory.limited)
    return kNoLimit;
  SmallFile statistics(root, folder, "memory.stat");
  int64_t files = unified ? statistics.numberOf("inactive_file ") +
                                statistics.numberOf("active_file ")
                          : statistics.numberOf("total_inactive_file ") +
                                statistics.numberOf("total_active_file ");
  return std::max<int64_t>(0, memory.left() + std::min(files, memory.used));
}

int64_t swapOfGroup(const char *root, const char *folder, bool unified) {
  if (unified)
    return std::max<int64_t>(
        0, Allowance(root, folder, "memory.swap.max", "memory.swap.current")
               .left());
  // Version 1 limits the sum of memory and swap.
  Allowance memory(root, folder, "memory.limit_in_bytes",
                   "memory.usage_in_bytes");
  Allowance both(root, folder, "memory.memsw.limit_in_bytes",
                 "memory.memsw.usage_in_bytes");
  return both.limited && memory.limited
             ? std::max<int64_t>(0, both.left() - memory.left())
             : kNoLimit;
}

} // namespace

int64_t availableMemory(const char *root) {
  int64_t system = systemMemory(root, "MemAvailable:");
  return std::min(system ? system : kNoLimit,
                  leastOfGroups(root, "memory", memoryOfGroup));
}

int64_t freeSwap(const char *root) {
  return std::min(systemMemory(root, "SwapFree:"),
                  leastOfGroups(root, "memory", swapOfGroup));
}

} // namespace encast::runtime

using namespace encast::runtime;

extern "C" encast_status encast_memory_available(int64_t *bytes,
                                                 encast_error *error) {
  if (!bytes)
    return nullArgument(error, "bytes");
  *bytes = availableMemory("");
  return ENCAST_OK;
}
