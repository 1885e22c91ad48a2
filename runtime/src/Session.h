//===- Session.h - one run at a time over a model ---------------*- C++ -*-===//

#ifndef ENCAST_RUNTIME_SRC_SESSION_H
#define ENCAST_RUNTIME_SRC_SESSION_H

#include "runtime/src/Arena.h"
#include "runtime/src/MemoryFormula.h"
#include "runtime/src/Model.h"
#include "runtime/src/Pool.h"
#include "runtime/src/Walker.h"
#include <atomic>
#include <sys/types.h>

namespace encast::runtime {

/// What a session does; a call takes it from Idle.
enum SessionState : int { Idle, Working, Running, Cancelled };

/// The first value of an output that is not finite, in one thread's share.
struct alignas(64) NonFinite {
  int64_t output = -1, index = 0;
};

/// The named inputs and outputs of one run, checked.
struct RunRequest {
  const int64_t *ids = nullptr, *offsets = nullptr, *types = nullptr,
                *attended = nullptr, *rows = nullptr;
  int64_t tokens = 0, sequences = 0;
  int64_t rowCount = 0;        ///< Of `rows`; 0 if it is null.
  int64_t oneSequence[2] = {}; ///< `offsets` if none are given.
  uint64_t outputs = 0;        ///< Asked: bit i for output i.
  float *outputData[64] = {};
  bool asksPerToken = false, asksPerSequence = false;
  uint32_t mode = 0;

  /// Reads the caller's arrays and checks all but the sizes of the outputs.
  encast_status readInputs(const ArtifactView &view, const encast_input *inputs,
                           int64_t count, encast_error *error);
  encast_status readOutputs(const encast_model &model,
                            const encast_output *outputs, int64_t count,
                            encast_error *error);
  /// Rows of an output.
  int64_t outputRows(const encast_abi_output &output) const {
    return output.per_token ? (rows ? rowCount : tokens) : sequences;
  }
};

/// Facts of the last run.
struct RunRecord {
  int64_t tokens = 0, sequences = 0, nanoseconds = 0;
  double nanosecondsPerTick = 0;
};

} // namespace encast::runtime

struct encast_session {
  encast_model *model = nullptr;
  encast_session_options options = ENCAST_SESSION_OPTIONS_INIT;
  encast::runtime::Log log;
  pid_t creator = 0;
  mutable std::atomic<int> state{encast::runtime::Idle};
  encast::runtime::Pool pool;
  encast::runtime::Arena arena;

  // Tables of the size of the variant and the number of threads.
  encast::runtime::WalkThread *perThread = nullptr;
  encast::runtime::WalkState *walkState = nullptr;
  encast::runtime::NonFinite *nonFinite = nullptr;
  uint64_t *ticks = nullptr;    ///< [threads, calls]
  int64_t *callFlops = nullptr; ///< [calls], of the last run
  int64_t *colourOffsets = nullptr;
  void **slots = nullptr;

  encast::runtime::RunRecord last;
  int64_t runs = 0;

  uint64_t callCount() const { return model->variant->calls.count; }
};

#endif // ENCAST_RUNTIME_SRC_SESSION_H
