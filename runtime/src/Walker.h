//===- Walker.h - walk the step table of a variant --------------*- C++ -*-===//
///
/// \file
/// Cuts each step into phases, and each phase into items that threads claim:
///
///   rows, many:  one phase; an item is a block of rows with all its calls
///   rows, few:   a phase per call, on one block shared by all; an item is a
///                range of panels (or of rows)
///   attention:   one phase; an item is a tile of queries of one head, and the
///                tiles of a head follow each other
///
/// A call per_head is made for each head of each sequence of its rows.
///
/// A phase begins when all items of the one before are computed, not when all
/// threads are there: a thread that the system has put aside holds up nobody
/// unless it is in the middle of an item. How a step is cut and who computes
/// what changes no bit.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_RUNTIME_SRC_WALKER_H
#define ENCAST_RUNTIME_SRC_WALKER_H

#include "runtime/src/Artifact.h"
#include "runtime/src/Signal.h"
#include <atomic>
#include <cstdint>

namespace encast::runtime {

/// What the walk keeps per thread. Belongs to the session, so that a run
/// allocates nothing.
struct alignas(64) WalkThread {
  encast_abi_context context; ///< Without `block`, which the walk sets.
  char *block;                ///< This thread's own.
  uint64_t *ticks;            ///< [calls of the variant], time stamp counter.
};

/// How far a walk is. Items of all phases are numbered through.
struct WalkState {
  alignas(64) std::atomic<int64_t> claimed{0}; ///< Items.
  alignas(64) std::atomic<int64_t> done{0};    ///< Items.
  Signal phases;                               ///< Complete ones.

  void reset() {
    claimed.store(0, std::memory_order_relaxed);
    done.store(0, std::memory_order_relaxed);
    phases.store(0);
  }
};

/// One run. Filled by the session before the threads start; all threads read
/// it.
struct Walk {
  ArtifactView view;
  const encast_abi_variant *variant = nullptr;
  uint32_t mode = 0;    ///< ENCAST_MODE_*
  uint64_t outputs = 0; ///< Asked.
  bool usesTiles = false;
  int threads = 1;
  bool spins = true;               ///< Waiting threads spin before they sleep.
  WalkThread *perThread = nullptr; ///< [threads]
  WalkState *state = nullptr;      ///< Reset.
  const int32_t *selectedRows = nullptr; ///< [selected]
  const int64_t *attended = nullptr;     ///< [sequences]; null: all tokens are.
  const std::atomic<int> *sessionState = nullptr;
  int cancelledState = 0; ///< Calls are skipped while the session is in this.
  /// A last phase: finish(data, i) for each i in [0, threads).
  void (*finish)(void *data, int64_t part) = nullptr;
  void *finishData = nullptr;
  encast_progress_function progress = nullptr;
  void *progressData = nullptr;
};

/// The part of a run that `thread` does, at the same time as others. When
/// thread 0 returns, all items are computed.
void walkSteps(const Walk &walk, int thread);

/// Number of rows of a domain (query rows for attention).
int64_t rowsOfDomain(const encast_abi_context &context, uint32_t domain);

/// Keys, summed over the query rows of an attention domain, that are attended
/// and at most `window` tokens away; 0: any distance.
int64_t keysOfQueries(const Walk &walk, uint32_t domain, int64_t window);

/// Whether a call runs at all in this run.
inline bool callRuns(const Walk &walk, const encast_abi_call &call) {
  return (call.modes & walk.mode) && (call.outputs & walk.outputs);
}

/// The sequence that token row `row` lies in, by binary search.
int64_t sequenceOfRow(const encast_abi_context &context, int64_t row);

} // namespace encast::runtime

#endif // ENCAST_RUNTIME_SRC_WALKER_H
