//===- Memory.h - how much memory is left -----------------------*- C++ -*-===//

#ifndef ENCAST_RUNTIME_SRC_MEMORY_H
#define ENCAST_RUNTIME_SRC_MEMORY_H

#include <cstdint>

namespace encast::runtime {

/// Bytes of memory that this process can still take: what the system has, and
/// what the memory limits of its control groups (versions 1 and 2) leave. Pages
/// of files count as free, as they are given up for those of programs.
/// INT64_MAX if the system does not say. Files are read below `root`, which is
/// "" but in tests.
int64_t availableMemory(const char *root);

/// Bytes of swap that the system has free and those control groups leave.
int64_t freeSwap(const char *root);

} // namespace encast::runtime

#endif // ENCAST_RUNTIME_SRC_MEMORY_H
