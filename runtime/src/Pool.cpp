//===- Pool.cpp - threads that work on one run at a time ------------------===//

#include "runtime/src/Pool.h"
#include "runtime/src/Errors.h"
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

namespace encast::runtime {

/// About 100 microseconds: longer than the difference between two threads of a
/// step, shorter than what a sleeping neighbour would miss.
constexpr uint64_t kSpinTicks = 250000;

static void futex(std::atomic<uint32_t> &word, int operation, uint32_t value) {
  static_assert(sizeof(word) == sizeof(uint32_t));
  syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, nullptr,
          nullptr, 0);
}

void Barrier::initialize(int threadCount, bool spins) {
  count = threadCount;
  spinTicks = spins ? kSpinTicks : 0;
}

void Barrier::wait() {
  // It cannot change before this thread has arrived.
  uint32_t current = generation.load(std::memory_order_relaxed);
  if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == count) {
    arrived.store(0, std::memory_order_relaxed);
    // Both sides of the sleepers' protocol are sequentially consistent: either
    // this load sees the sleeper, or the sleeper sees the new generation.
    generation.store(current + 1);
    if (sleepers.load())
      futex(generation, FUTEX_WAKE, INT_MAX);
    return;
  }
  for (uint64_t begin = __rdtsc(); __rdtsc() - begin < spinTicks;) {
    if (generation.load(std::memory_order_acquire) != current)
      return;
    _mm_pause();
  }
  sleepers.fetch_add(1);
  while (generation.load() == current)
    futex(generation, FUTEX_WAIT, current);
  sleepers.fetch_sub(1);
}

bool Pool::bind(int index) const {
  int available = options.cpus.count();
  if (!available)
    return true;
  if (!options.pin)
    return setAffinity(options.cpus);
  CpuSet own;
  own.add(options.cpus.nth(index % available));
  return setAffinity(own);
}

void *Pool::work(void *data) {
  auto &worker = *static_cast<Worker *>(data);
  Pool &pool = *worker.pool;
  // Opens when the number of threads, and so the barrier's count, is known.
  pthread_mutex_lock(&pool.gate);
  pthread_mutex_unlock(&pool.gate);
  if (!pool.bind(worker.index))
    pool.bindFailed.store(true);
  pool.phases.wait(); // start() waits for all to be bound
  for (;;) {
    pool.phases.wait();
    if (!pool.task)
      return nullptr;
    pool.task(pool.taskData, worker.index);
    pool.phases.wait();
  }
}

encast_status Pool::start(const PoolOptions &poolOptions, bool &affinityFailed,
                          encast_error *error) {
  options = poolOptions;
  affinityFailed = false;
  phases.initialize(options.threads, options.spins);
  if (options.executor || options.threads == 1)
    return ENCAST_OK;
  workers = static_cast<Worker *>(calloc(options.threads, sizeof(Worker)));
  if (!workers)
    return outOfMemory(error, "threads", options.threads * sizeof(Worker));

  pthread_mutex_lock(&gate);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failure = 0;
  for (started = 1; started < options.threads; ++started) {
    Worker &worker = workers[started];
    worker.pool = this;
    worker.index = started;
    failure = pthread_create(&worker.handle, nullptr, work, &worker);
    if (failure)
      break;
    char name[16];
    snprintf(name, sizeof(name), "encast-%d", started);
    pthread_setname_np(worker.handle, name);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  phases.initialize(started, options.spins);
  pthread_mutex_unlock(&gate);
  phases.wait();
  if (failure) {
    stop();
    return threadRefused(error, started, options.threads, failure);
  }
  affinityFailed = bindFailed.load();
  return ENCAST_OK;
}

void Pool::stop() {
  if (!workers)
    return;
  task = nullptr;
  phases.wait();
  for (int i = 1; i < started; ++i)
    pthread_join(workers[i].handle, nullptr);
  free(workers);
  workers = nullptr;
}

void Pool::abandon() {
  free(workers);
  workers = nullptr;
}

namespace {
struct ExecutorCall {
  Pool::Task task;
  void *data;
};
} // namespace

void Pool::run(Task runTask, void *data) {
  if (options.executor) {
    ExecutorCall call{runTask, data};
    options.executor(
        options.executorData,
        [](void *callData, int64_t index) {
          auto &executorCall = *static_cast<ExecutorCall *>(callData);
          executorCall.task(executorCall.data, static_cast<int>(index));
        },
        &call, options.threads);
    return;
  }
  if (options.threads == 1)
    return runTask(data, 0);
  task = runTask;
  taskData = data;
  phases.wait();
  runTask(data, 0);
  phases.wait();
}

} // namespace encast::runtime
