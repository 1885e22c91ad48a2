//===- Pool.h - threads that help with one run at a time --------*- C++ -*-===//
///
/// \file
/// A run is one task that the caller, thread 0, begins at once and that workers
/// join as they wake up. Nobody waits for a worker that has nothing to do: on a
/// busy machine it may not get a CPU for milliseconds. So a task must be
/// complete when thread 0 returns from it, whoever took part.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_RUNTIME_SRC_POOL_H
#define ENCAST_RUNTIME_SRC_POOL_H

#include "encast.h"
#include "runtime/src/Signal.h"
#include "runtime/src/Threads.h"
#include <cstdint>
#include <pthread.h>

namespace encast::runtime {

struct PoolOptions {
  int threads = 1;   ///< With the caller, at least 1.
  bool spins = true; ///< Workers spin before they sleep between runs.
  /// If set, brings the threads for each run; else the pool has its own.
  encast_executor_function executor = nullptr;
  void *executorData = nullptr;
  /// Worker i runs on the i-th of these CPUs (modulo their number).
  bool pin = false;
  /// All workers run on these CPUs only, if it is not empty.
  CpuSet cpus;
};

class Pool {
public:
  using Task = void (*)(void *data, int thread);

  /// Starts the workers; all signals are blocked in them. `affinityFailed` says
  /// whether one could not be bound and runs anywhere. Errors: OUT_OF_MEMORY.
  encast_status start(const PoolOptions &options, bool &affinityFailed,
                      encast_error *error);
  /// Ends the workers.
  void stop();
  /// Frees what a forked child holds of the pool, whose threads do not exist.
  void abandon();

  int threads() const { return options.threads; }
  bool spins() const { return options.spins; }
  /// Runs task(data, 0) here and task(data, i) on workers that come in time,
  /// each at most once; returns when none is in it any more.
  void run(Task task, void *data);

private:
  struct Worker {
    pthread_t handle;
    Pool *pool;
    int index;
  };
  static void *work(void *worker);
  int createWorker(Worker &worker, bool &affinityFailed) const;

  PoolOptions options;
  Worker *workers = nullptr;
  int started = 1;     ///< Threads that exist, with the caller.
  Task task = nullptr; ///< Null: the workers end.
  void *taskData = nullptr;
  Signal epoch;  ///< Odd while a run is open to workers.
  Signal active; ///< Workers in the run, or finding out that they are late.
};

} // namespace encast::runtime

#endif // ENCAST_RUNTIME_SRC_POOL_H
