//===- Arena.cpp - the memory that runs work in ---------------------------===//

#include "runtime/src/Arena.h"
#include "runtime/src/Errors.h"
#include "runtime/src/Memory.h"
#include "runtime/src/MemoryFormula.h"
#include <cerrno>
#include <cstring>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace encast::runtime {

/// Prefers `node` for the pages of a mapping; false if the system refuses.
static bool bindToNode(void *memory, int64_t bytes, int node) {
  constexpr int wordBits = 8 * sizeof(unsigned long);
  unsigned long mask[16] = {};
  if (node >= 16 * wordBits) {
    errno = EINVAL;
    return false;
  }
  mask[node / wordBits] = 1ul << node % wordBits;
  return syscall(SYS_mbind, memory, bytes, MPOL_PREFERRED, mask,
                 16 * wordBits + 1, 0) == 0;
}

/// A private mapping of `bytes` that starts at a multiple of `alignment`.
static char *mapAligned(int64_t bytes, int64_t alignment) {
  int64_t more = bytes + alignment - kPageBytes;
  void *address = mmap(nullptr, more, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED)
    return nullptr;
  auto begin = reinterpret_cast<intptr_t>(address);
  intptr_t aligned = (begin + alignment - 1) & -alignment;
  int64_t before = aligned - begin, after = more - before - bytes;
  if (before)
    munmap(address, before);
  if (after)
    munmap(reinterpret_cast<char *>(aligned) + bytes, after);
  return reinterpret_cast<char *>(aligned);
}

encast_status Arena::mapPages(const Log &log, encast_error *error) {
  int64_t available = availableMemory("");
  if (bytes > available && bytes - available > freeSwap(""))
    return notEnoughMemory(error, options.what, bytes, available);
  bool large = options.hugePages && bytes >= kHugePageBytes;
  memory = mapAligned(bytes, large ? kHugePageBytes : kPageBytes);
  if (!memory)
    return outOfMemory(error, options.what, bytes);
  if (!options.hugePages)
    madvise(memory, bytes, MADV_NOHUGEPAGE); // Systems may give them unasked.
  if (large && madvise(memory, bytes, MADV_HUGEPAGE))
    log.write(ENCAST_LOG_INFO, "no huge pages for %s: %s", options.what,
              strerror(errno));
  if (options.numaNode >= 0 && !bindToNode(memory, bytes, options.numaNode))
    log.write(ENCAST_LOG_WARNING, "arena cannot be placed on NUMA node %d: %s",
              options.numaNode, strerror(errno));
  if (madvise(memory, bytes, MADV_POPULATE_WRITE) == 0)
    return ENCAST_OK;
  if (errno == ENOMEM || errno == EFAULT || errno == EHWPOISON) {
    munmap(memory, bytes);
    memory = nullptr;
    return outOfMemory(error, options.what, bytes);
  }
  // Kernels before 5.14.
  for (int64_t i = 0; i < bytes; i += kPageBytes)
    static_cast<volatile char *>(memory)[i] = 0;
  return ENCAST_OK;
}

encast_status Arena::reserve(const ArenaOptions &arenaOptions, int64_t wanted,
                             const Log &log, encast_error *error) {
  release();
  options = arenaOptions;
  bytes = wanted;
  encast_status status = ENCAST_OK;
  if (options.allocate) {
    memory = static_cast<char *>(options.allocate(options.allocateData, bytes));
    if (!memory)
      status = outOfMemory(error, options.what, bytes);
    else if (reinterpret_cast<uintptr_t>(memory) % ENCAST_ALIGNMENT) {
      release();
      status = misalignedMemory(error, ENCAST_ALIGNMENT);
    } else {
      for (int64_t i = 0; i < bytes; i += kPageBytes)
        static_cast<volatile char *>(memory)[i] = 0;
    }
  } else {
    status = mapPages(log, error);
  }
  if (!memory)
    bytes = 0;
  return status;
}

void Arena::release() {
  if (!memory)
    return;
  if (options.allocate)
    options.free(options.allocateData, memory, bytes);
  else
    munmap(memory, bytes);
  memory = nullptr;
  bytes = 0;
}

} // namespace encast::runtime
