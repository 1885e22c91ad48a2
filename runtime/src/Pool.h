//===- Pool.h - threads that work on one run at a time ----------*- C++ -*-===//
///
/// \file
/// A run is one task that all threads execute together, meeting at a barrier
/// between its phases. The caller is thread 0; the others wait at the same
/// barrier between runs, where they spin briefly and then sleep.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_RUNTIME_SRC_POOL_H
#define ENCAST_RUNTIME_SRC_POOL_H

#include "encast.h"
#include "runtime/src/Threads.h"
#include <atomic>
#include <cstdint>
#include <pthread.h>

namespace encast::runtime {

/// All of `count` threads wait until the last one arrives. What a thread wrote
/// before is visible to all behind it.
class Barrier {
public:
  /// `spins`: whether waiting threads spin before they sleep; a waste when
  /// there are more threads than CPUs.
  void initialize(int threadCount, bool spins);
  void wait();

private:
  int count = 1;
  uint64_t spinTicks = 0;
  // On cache lines of their own: one is written by arriving threads, the other
  // read by waiting ones.
  alignas(64) std::atomic<int> arrived{0};
  alignas(64) std::atomic<uint32_t> generation{0};
  std::atomic<int> sleepers{0};
};

struct PoolOptions {
  int threads = 1; ///< With the caller, at least 1.
  bool spins = true;
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

  /// Starts the threads; all signals are blocked in them. `affinityFailed` says
  /// whether a thread could not be bound. Errors: OUT_OF_MEMORY.
  encast_status start(const PoolOptions &options, bool &affinityFailed,
                      encast_error *error);
  /// Ends the threads.
  void stop();
  /// Frees what a forked child holds of the pool, whose threads do not exist.
  void abandon();

  int threads() const { return options.threads; }
  Barrier &barrier() { return phases; }
  /// Runs task(data, i) on each thread i; the threads may meet at barrier().
  void run(Task task, void *data);

private:
  struct Worker {
    pthread_t handle;
    Pool *pool;
    int index;
  };
  static void *work(void *worker);
  bool bind(int index) const;

  PoolOptions options;
  Barrier phases;
  pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; ///< Closed during start().
  Worker *workers = nullptr;
  int started = 0;     ///< Threads that exist, with the caller.
  Task task = nullptr; ///< Null: the workers end.
  void *taskData = nullptr;
  std::atomic<bool> bindFailed{false};
};

} // namespace encast::runtime

#endif // ENCAST_RUNTIME_SRC_POOL_H
