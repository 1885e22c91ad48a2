//===- Pool.cpp - threads that help with one run at a time ----------------===//

#include "runtime/src/Pool.h"
#include "runtime/src/Errors.h"
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace encast::runtime {

void *Pool::work(void *data) {
  auto &worker = *static_cast<Worker *>(data);
  Pool &pool = *worker.pool;
  uint32_t seen = 0;
  for (;;) {
    seen = pool.epoch.waitUntil(
        [seen](uint32_t epoch) { return epoch % 2 && epoch != seen; },
        pool.options.spins);
    // Either run() sees this worker in `active`, or this sees the run closed.
    pool.active.addSilently(1);
    bool open = pool.epoch.load() == seen;
    Task task = open ? pool.task : nullptr;
    if (task)
      task(pool.taskData, worker.index);
    pool.active.add(-1);
    if (open && !task)
      return nullptr;
  }
}

/// Creates a thread on its CPUs, or anywhere if it cannot run there. Returns 0
/// or an error number.
int Pool::createWorker(Worker &worker, bool &affinityFailed) const {
  pthread_attr_t attributes;
  if (int failure = pthread_attr_init(&attributes))
    return failure;
  CpuSet cpus = options.cpus;
  if (int count = cpus.count()) {
    if (options.pin) {
      cpus = CpuSet();
      cpus.add(options.cpus.nth(worker.index % count));
    }
    // Takes sets of any size.
    affinityFailed |= pthread_attr_setaffinity_np(
        &attributes, CpuSet::kBytes,
        reinterpret_cast<const cpu_set_t *>(cpus.data()));
  }
  int failure = pthread_create(&worker.handle, &attributes, work, &worker);
  pthread_attr_destroy(&attributes);
  if (failure == EINVAL && options.cpus.count()) {
    affinityFailed = true;
    failure = pthread_create(&worker.handle, nullptr, work, &worker);
  }
  return failure;
}

encast_status Pool::start(const PoolOptions &poolOptions, bool &affinityFailed,
                          encast_error *error) {
  options = poolOptions;
  affinityFailed = false;
  if (options.executor || options.threads == 1)
    return ENCAST_OK;
  workers = static_cast<Worker *>(calloc(options.threads, sizeof(Worker)));
  if (!workers)
    return outOfMemory(error, "threads", options.threads * sizeof(Worker));
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failure = 0;
  for (started = 1; started < options.threads; ++started) {
    Worker &worker = workers[started];
    worker.pool = this;
    worker.index = started;
    failure = createWorker(worker, affinityFailed);
    if (failure)
      break;
    char name[16];
    snprintf(name, sizeof(name), "encast-%d", started);
    pthread_setname_np(worker.handle, name);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!failure)
    return ENCAST_OK;
  int index = started;
  stop();
  return threadRefused(error, index, options.threads, failure);
}

void Pool::stop() {
  if (!workers)
    return;
  task = nullptr;
  epoch.add(1);
  for (int i = 1; i < started; ++i)
    pthread_join(workers[i].handle, nullptr);
  abandon();
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
  if (!workers)
    return runTask(data, 0);
  task = runTask;
  taskData = data;
  epoch.add(1);
  runTask(data, 0);
  epoch.addSilently(1);
  active.waitUntil([](uint32_t count) { return count == 0; }, options.spins);
}

} // namespace encast::runtime
