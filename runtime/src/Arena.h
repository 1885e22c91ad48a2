//===- Arena.h - the memory that runs work in -------------------*- C++ -*-===//

#ifndef ENCAST_RUNTIME_SRC_ARENA_H
#define ENCAST_RUNTIME_SRC_ARENA_H

#include "encast.h"
#include "runtime/src/Log.h"

namespace encast::runtime {

struct ArenaOptions {
  const char *what = "the arena"; ///< For errors.
  bool hugePages = true;
  int numaNode = -1; ///< -1: anywhere.
  encast_allocate_function allocate = nullptr;
  encast_free_function free = nullptr;
  void *allocateData = nullptr;
};

/// Memory of its own mapping, or of the caller's allocator. Also for copies of
/// weights.
class Arena {
public:
  /// Frees what it holds and takes `bytes` > 0, touched page by page. On
  /// failure it is empty. What is only advice (huge pages, node) logs a warning
  /// when refused. More than the system and the control groups have is refused
  /// here: there it would end the process. Errors: OUT_OF_MEMORY.
  encast_status reserve(const ArenaOptions &options, int64_t bytes,
                        const Log &log, encast_error *error);
  void release();
  char *data() const { return memory; }
  int64_t size() const { return bytes; }

private:
  encast_status mapPages(const Log &log, encast_error *error);

  ArenaOptions options;
  char *memory = nullptr;
  int64_t bytes = 0;
};

} // namespace encast::runtime

#endif // ENCAST_RUNTIME_SRC_ARENA_H
