//===- Walker.h - walk the step table of a variant --------------*- C++ -*-===//
///
/// \file
/// Cuts each step into items and gives them to the threads:
///
///   rows, many:  blocks of rows; a thread runs all calls on its block
///   rows, few:   one block shared by all; each call is cut by panels (or rows)
///   attention:   tiles of queries by sequence and head
///
/// How a step is cut changes which thread computes what, and never a bit of it.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_RUNTIME_SRC_WALKER_H
#define ENCAST_RUNTIME_SRC_WALKER_H

#include "runtime/src/Artifact.h"
#include "runtime/src/Pool.h"
#include <atomic>
#include <cstdint>

namespace encast::runtime {

/// Items of a step that one thread has claimed of its share; others claim there
/// when their own share is done.
struct alignas(64) Claim {
  std::atomic<int64_t> next{0};
};

/// What the walk keeps per thread. Belongs to the session, so that a run
/// allocates nothing.
struct alignas(64) WalkThread {
  encast_abi_context context; ///< Without `block`, which the walk sets.
  char *block;                ///< This thread's own.
  uint64_t *ticks;            ///< [calls of the variant], time stamp counter.
};

/// One run. Filled by the session before the threads start; all threads read
/// it.
struct Walk {
  ArtifactView view;
  const encast_abi_variant *variant = nullptr;
  uint32_t mode = 0;    ///< ENCAST_MODE_*
  uint64_t outputs = 0; ///< Asked.
  int threads = 1;
  Barrier *barrier = nullptr;
  WalkThread *perThread = nullptr; ///< [threads]
  Claim *claims[2] = {}; ///< [threads] each, all zero before the walk.
  const int32_t *selectedRows = nullptr; ///< [selected]
  const std::atomic<int> *state = nullptr;
  int cancelledState = 0; ///< Items are skipped while `*state` is this.
  encast_progress_function progress = nullptr;
  void *progressData = nullptr;
};

/// The part of a run that `thread` does; all threads call it at the same time.
/// At its end a barrier has been passed behind the last step.
void walkSteps(const Walk &walk, int thread);

/// Number of rows of a domain (query rows for attention).
int64_t rowsOfDomain(const encast_abi_context &context, uint32_t domain);

/// Whether a call runs at all in this run.
inline bool callRuns(const Walk &walk, const encast_abi_call &call) {
  return (call.modes & walk.mode) && (call.outputs & walk.outputs);
}

/// The sequence that token row `row` lies in, by binary search.
int64_t sequenceOfRow(const encast_abi_context &context, int64_t row);

} // namespace encast::runtime

#endif // ENCAST_RUNTIME_SRC_WALKER_H
