//===- Session.cpp - create, reserve, run, cancel -------------------------===//
///
/// \file
///   encast_run: check inputs -> fill control tables -> walk steps on all
///   threads -> scan the outputs for non-finite values -> record times
//===----------------------------------------------------------------------===//

#include "runtime/src/Session.h"
#include "runtime/src/Cpu.h"
#include "runtime/src/Errors.h"
#include "runtime/src/PublicStruct.h"
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <new>
#include <unistd.h>
#include <x86intrin.h>

using namespace encast::runtime;

namespace {

/// Takes a session for one call, and gives it back at the end of the scope.
class Taken {
public:
  Taken(const encast_session &session, SessionState state) : session(session) {
    int idle = Idle;
    taken = session.state.compare_exchange_strong(idle, state);
  }
  ~Taken() {
    if (taken)
      session.state.store(Idle);
  }
  Taken(const Taken &) = delete;
  Taken &operator=(const Taken &) = delete;
  explicit operator bool() const { return taken; }

private:
  const encast_session &session;
  bool taken;
};

int64_t nanosecondsNow() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

encast_status checkProcess(const encast_session &session, encast_error *error) {
  pid_t current = getpid();
  if (session.creator != current)
    return otherProcess(error, session.creator, current);
  return ENCAST_OK;
}

//===- creation -----------------------------------------------------------===//

encast_status readOptions(const encast_session_options *given,
                          encast_session_options &full, encast_error *error) {
  if (given)
    ENCAST_TRY(readStruct(*given, "encast_session_options", full, error));
  if (full.threads < 0 || full.threads > kMostThreads)
    return badOption(error, "threads", full.threads, 0, kMostThreads);
  if (full.pin < 0 || full.pin > 1)
    return badOption(error, "pin", full.pin, 0, 1);
  if (full.numa_node < -1)
    return badOption(error, "numa_node", full.numa_node, -1, INT32_MAX);
  if (full.huge_pages < 0 || full.huge_pages > 1)
    return badOption(error, "huge_pages", full.huge_pages, 0, 1);
  if (full.memory_cap < 0)
    return badOption(error, "memory_cap", full.memory_cap, 0, INT64_MAX);
  if (!full.allocate != !full.free)
    return freeMissing(error);
  return ENCAST_OK;
}

/// The number of threads that ENCAST_THREADS asks for; 0: none.
int environmentThreads(const Log &log) {
  const char *text = getenv("ENCAST_THREADS");
  if (!text || !*text)
    return 0;
  char *end;
  long threads = strtol(text, &end, 10);
  if (*end || threads < 1 || threads > kMostThreads) {
    log.write(ENCAST_LOG_WARNING,
              "ENCAST_THREADS is '%s', expected 1 to %d; ignored", text,
              kMostThreads);
    return 0;
  }
  return static_cast<int>(threads);
}

PoolOptions choosePool(const encast_session &session) {
  const encast_session_options &options = session.options;
  PoolOptions pool;
  CpuSet allowed = allowedCpus();
  if (options.numa_node >= 0) {
    CpuSet node;
    if (numaCpus("", options.numa_node, node) &&
        node.intersect(allowed).count())
      pool.cpus = allowed = node.intersect(allowed);
    else
      session.log.write(ENCAST_LOG_WARNING,
                        "NUMA node %d has no CPU for this process; ignored",
                        options.numa_node);
  }
  pool.threads =
      options.threads ? options.threads : environmentThreads(session.log);
  if (!pool.threads)
    pool.threads = defaultThreads("", allowed);
  int64_t most = allowed.count();
  if (int64_t limit = cgroupCpus(""))
    most = std::min(most, limit);
  pool.spins = pool.threads <= most;
  if (!pool.spins)
    session.log.write(ENCAST_LOG_WARNING,
                      "%d threads on %lld CPUs that this process may use",
                      pool.threads, static_cast<long long>(most));
  pool.executor = options.executor;
  pool.executorData = options.executor_data;
  pool.pin = options.pin;
  if (pool.pin) {
    CpuSet cores = physicalCores("", allowed);
    pool.cpus = pool.threads <= cores.count() ? cores : allowed;
  }
  return pool;
}

/// Cuts one block of memory into tables, each on cache lines of its own.
class Tables {
public:
  /// `memory` may be null, to learn the size.
  explicit Tables(void *memory)
      : address(reinterpret_cast<uintptr_t>(memory)) {}
  template <typename Row> void place(Row *&table, uint64_t count) {
    table = reinterpret_cast<Row *>(address + bytes);
    bytes += (count * sizeof(Row) + 63) / 64 * 64;
  }
  uint64_t size() const { return bytes; }

private:
  uintptr_t address;
  uint64_t bytes = 0;
};

uint64_t placeTables(encast_session &session, void *memory, int threads) {
  const encast_abi_variant &variant = *session.model->variant;
  Tables tables(memory);
  tables.place(session.perThread, threads);
  tables.place(session.walkState, 1);
  tables.place(session.nonFinite, threads);
  // Whole cache lines for each thread.
  tables.place(session.ticks, threads * ((variant.calls.count + 7) / 8 * 8));
  tables.place(session.callFlops, variant.calls.count);
  tables.place(session.colourOffsets, variant.colours);
  tables.place(session.slots, variant.slots.count);
  return tables.size();
}

encast_status allocateTables(encast_session &session, int threads,
                             encast_error *error) {
  uint64_t bytes = placeTables(session, nullptr, threads);
  void *memory = nullptr;
  if (posix_memalign(&memory, 64, bytes)) {
    session.perThread = nullptr;
    return outOfMemory(error, "a session", bytes);
  }
  memset(memory, 0, bytes);
  placeTables(session, memory, threads);
  uint64_t stride = (session.callCount() + 7) / 8 * 8;
  new (session.walkState) WalkState;
  for (int i = 0; i < threads; ++i)
    session.perThread[i].ticks = session.ticks + i * stride;
  return ENCAST_OK;
}

void freeSession(encast_session *session) {
  session->model->sessions.fetch_sub(1);
  free(session->perThread); // the first of the tables
  session->~encast_session();
  free(session);
}

//===- runs ---------------------------------------------------------------===//

/// Everything that the threads of one run share.
struct Run {
  encast_session &session;
  const RunRequest &request;
  Walk walk = {};
};

template <typename Element>
Element *inArena(const encast_session &session, int64_t offset) {
  return reinterpret_cast<Element *>(session.arena.data() + offset);
}

/// Fills the control tables and returns the number of SELECTED rows.
int64_t fillControlTables(const encast_session &session,
                          const RunRequest &request,
                          const ArenaLayout &layout) {
  auto *ids = inArena<int32_t>(session, layout.ids);
  auto *types = inArena<int32_t>(session, layout.types);
  auto *positions = inArena<int32_t>(session, layout.positions);
  auto *selected = inArena<int32_t>(session, layout.selected);
  auto *first = inArena<int32_t>(session, layout.first);
  auto *pick = inArena<int32_t>(session, layout.pick);
  const int64_t *offsets = request.offsets;
  for (int64_t i = 0; i < request.tokens; ++i) {
    ids[i] = static_cast<int32_t>(request.ids[i]);
    types[i] = request.types ? static_cast<int32_t>(request.types[i]) : 0;
  }
  for (int64_t s = 0; s < request.sequences; ++s)
    for (int64_t i = offsets[s]; i < offsets[s + 1]; ++i)
      positions[i] = static_cast<int32_t>(i - offsets[s]);
  positions[request.tokens] = 0;

  if (request.mode == ENCAST_MODE_ALL) {
    for (int64_t i = 0; i < request.tokens; ++i)
      selected[i] = static_cast<int32_t>(i);
    for (int64_t s = 0; s < request.sequences; ++s)
      first[s] = static_cast<int32_t>(offsets[s]);
    int64_t picked = request.rows ? request.rowCount : request.tokens;
    for (int64_t i = 0; i < picked; ++i)
      pick[i] = static_cast<int32_t>(request.rows ? request.rows[i] : i);
    return request.tokens;
  }
  int64_t count = 0;
  if (request.asksPerToken)
    for (; count < request.rowCount; ++count) {
      selected[count] = static_cast<int32_t>(request.rows[count]);
      pick[count] = static_cast<int32_t>(count);
    }
  if (request.asksPerSequence)
    for (int64_t s = 0; s < request.sequences; ++s, ++count) {
      selected[count] = static_cast<int32_t>(offsets[s]);
      first[s] = static_cast<int32_t>(count);
    }
  return count;
}

void *slotAddress(const encast_session &session, const RunRequest &request,
                  const ArenaLayout &layout, const encast_abi_slot &slot) {
  char *arena = session.arena.data();
  switch (slot.kind) {
  case ENCAST_SLOT_ARENA:
    return arena + layout.colours + session.colourOffsets[slot.index];
  case ENCAST_SLOT_OUTPUT:
    return request.outputData[slot.index];
  case ENCAST_SLOT_IDS:
    return arena + layout.ids;
  case ENCAST_SLOT_TYPES:
    return arena + layout.types;
  case ENCAST_SLOT_POSITIONS:
    return arena + layout.positions;
  case ENCAST_SLOT_SELECTED:
    return arena + layout.selected;
  case ENCAST_SLOT_FIRST:
    return arena + layout.first;
  default:
    return arena + layout.pick;
  }
}

/// Points all threads at this run.
void prepareThreads(encast_session &session, const RunRequest &request,
                    const ArenaLayout &layout, int64_t selected) {
  const encast_model &model = *session.model;
  const auto *slots = model.view.rows<encast_abi_slot>(model.variant->slots);
  for (uint64_t i = 0; i < model.variant->slots.count; ++i)
    session.slots[i] = slotAddress(session, request, layout, slots[i]);
  int64_t picked = !request.asksPerToken ? 0
                   : request.rows        ? request.rowCount
                                         : request.tokens;
  for (int i = 0; i < session.pool.threads(); ++i) {
    WalkThread &thread = session.perThread[i];
    encast_abi_context &context = thread.context;
    context.slots = session.slots;
    context.weights = model.weights;
    context.workspace =
        inArena<char>(session, layout.workspaces + i * layout.workspaceStride);
    context.offsets = request.offsets;
    context.tokens = request.tokens;
    context.sequences = request.sequences;
    context.selected = selected;
    context.picked = picked;
    thread.block =
        inArena<char>(session, layout.blocks + i * layout.blockStride);
    memset(thread.ticks, 0, session.callCount() * sizeof(uint64_t));
    session.nonFinite[i] = NonFinite();
  }
}

/// The index of the first value of [begin, end) that is not finite; -1: none.
int64_t findNonFinite(const float *values, int64_t begin, int64_t end) {
  constexpr uint32_t exponent = 0x7f800000;
  constexpr int64_t chunk = 256;
  while (begin < end) {
    int64_t stop = std::min(begin + chunk, end);
    uint32_t found = 0;
    for (int64_t i = begin; i < stop; ++i) {
      uint32_t bits;
      memcpy(&bits, values + i, sizeof(bits));
      found |= (bits & exponent) == exponent;
    }
    for (int64_t i = begin; found && i < stop; ++i) {
      uint32_t bits;
      memcpy(&bits, values + i, sizeof(bits));
      if ((bits & exponent) == exponent)
        return i;
    }
    begin = stop;
  }
  return -1;
}

/// Scans one of `threads` parts of each output; ends early in a cancelled run.
void scanOutputs(void *data, int64_t part) {
  constexpr int64_t chunk = 1 << 20; // floats, less than a millisecond
  const Run &run = *static_cast<Run *>(data);
  const ArtifactView &view = run.session.model->view;
  int threads = run.session.pool.threads();
  for (uint64_t i = 0; i < view->outputs.count; ++i) {
    if (!(run.request.outputs >> i & 1))
      continue;
    const encast_abi_output &output = view.output(i);
    int64_t floats = run.request.outputRows(output) * output.columns;
    int64_t share = (floats + threads - 1) / threads;
    int64_t begin = std::min(floats, share * part);
    int64_t end = std::min(floats, begin + share);
    for (; begin < end && run.session.state.load() != Cancelled;
         begin += chunk) {
      int64_t index = findNonFinite(run.request.outputData[i], begin,
                                    std::min(end, begin + chunk));
      if (index < 0)
        continue;
      run.session.nonFinite[part].output = i;
      run.session.nonFinite[part].index = index;
      return;
    }
  }
}

void runThread(void *data, int thread) {
  walkSteps(static_cast<Run *>(data)->walk, thread);
}

encast_status reportNonFinite(const encast_session &session,
                              encast_error *error) {
  const NonFinite *worst = nullptr;
  for (int i = 0; i < session.pool.threads(); ++i) {
    const NonFinite &found = session.nonFinite[i];
    if (found.output >= 0 &&
        (!worst || found.output < worst->output ||
         (found.output == worst->output && found.index < worst->index)))
      worst = &found;
  }
  if (!worst)
    return ENCAST_OK;
  const ArtifactView &view = session.model->view;
  const encast_abi_output &output = view.output(worst->output);
  return notFinite(error, view.string(output.name),
                   worst->index / output.columns,
                   worst->index % output.columns);
}

/// Floating-point operations of each call, from the shapes of the run.
void countFlops(encast_session &session, const Walk &walk) {
  const encast_model &model = *session.model;
  const encast_abi_context &context = session.perThread[0].context;
  const auto *steps = model.view.rows<encast_abi_step>(model.variant->steps);
  const auto *calls = model.view.rows<encast_abi_call>(model.variant->calls);
  for (uint64_t s = 0; s < model.variant->steps.count; ++s) {
    const encast_abi_step &step = steps[s];
    int64_t rows = rowsOfDomain(context, step.domain);
    for (uint32_t i = 0; i < step.call_count; ++i) {
      const encast_abi_call &call = calls[step.first_call + i];
      int64_t &result = session.callFlops[step.first_call + i];
      result = 0;
      if (!callRuns(walk, call))
        continue;
      int64_t keys = call.flops_per_row_and_key
                         ? keysOfQueries(walk, step.domain, call.window)
                         : 0;
      // In double, as an artifact may claim any number.
      double flops = static_cast<double>(call.flops_per_row) * rows +
                     static_cast<double>(call.flops_per_row_and_key) * keys;
      constexpr double most = int64_t(1) << 62;
      result = static_cast<int64_t>(std::min(flops, most));
    }
  }
}

Walk makeWalk(encast_session &session, const RunRequest &request,
              const ArenaLayout &layout) {
  Walk walk;
  walk.view = session.model->view;
  walk.variant = session.model->variant;
  walk.mode = request.mode;
  walk.outputs = request.outputs;
  walk.usesTiles = usesTiles(walk.variant->cpu_features);
  walk.threads = session.pool.threads();
  walk.spins = session.pool.spins();
  walk.perThread = session.perThread;
  walk.state = session.walkState;
  walk.selectedRows = inArena<int32_t>(session, layout.selected);
  walk.attended = request.attended;
  walk.sessionState = &session.state;
  walk.cancelledState = Cancelled;
  walk.progress = session.options.progress;
  walk.progressData = session.options.progress_data;
  return walk;
}

encast_status runSession(encast_session &session, const encast_input *inputs,
                         int64_t inputCount, const encast_output *outputs,
                         int64_t outputCount, encast_error *error) {
  int64_t beginTime = nanosecondsNow();
  uint64_t beginTicks = __rdtsc();
  const encast_model &model = *session.model;
  RunRequest request;
  ENCAST_TRY(request.readInputs(model.view, inputs, inputCount, error));
  ENCAST_TRY(request.readOutputs(model, outputs, outputCount, error));
  ArenaLayout layout;
  if (!layOutArena(model.view, *model.variant, request.tokens,
                   request.sequences, request.outputs, session.pool.threads(),
                   session.colourOffsets, layout))
    return tooManyRows(error, request.tokens, request.sequences, kMostRows);
  if (!session.arena.data() || layout.bytes > session.arena.size())
    return reservationTooSmall(error, request.tokens, request.sequences,
                               layout.bytes, session.arena.size());

  int64_t selected = fillControlTables(session, request, layout);
  prepareThreads(session, request, layout, selected);
  Run run{session, request};
  run.walk = makeWalk(session, request, layout);
  run.walk.finish = scanOutputs;
  run.walk.finishData = &run;
  session.walkState->reset();
  session.pool.run(runThread, &run);

  countFlops(session, run.walk);
  session.last.tokens = request.tokens;
  session.last.sequences = request.sequences;
  session.last.nanoseconds = nanosecondsNow() - beginTime;
  uint64_t ticks = __rdtsc() - beginTicks;
  session.last.nanosecondsPerTick =
      ticks ? static_cast<double>(session.last.nanoseconds) / ticks : 0;
  ++session.runs;
  if (session.state.load() == Cancelled)
    return cancelled(error);
  return reportNonFinite(session, error);
}

/// Checks a reservation and turns "0: all outputs" into bits.
encast_status checkReservation(const encast_session &session, int64_t tokens,
                               int64_t sequences, uint64_t &outputs,
                               encast_error *error) {
  if (tokens < 0)
    return negativeCount(error, "number of tokens", tokens);
  if (sequences < 0)
    return negativeCount(error, "number of sequences", sequences);
  if (tokens > kMostRows || sequences > kMostRows - tokens)
    return tooManyRows(error, tokens, sequences, kMostRows);
  const ArtifactView &view = session.model->view;
  if (!outputs)
    outputs = view.allOutputs();
  if (uint64_t unknown = outputs & ~view.allOutputs())
    return unknownOutputBits(error, unknown, view->outputs.count);
  return ENCAST_OK;
}

} // namespace

extern "C" {

encast_status encast_session_create(encast_model *model,
                                    const encast_session_options *options,
                                    encast_session **result,
                                    encast_error *error) {
  if (!model)
    return nullArgument(error, "model");
  if (!result)
    return nullArgument(error, "session");
  *result = nullptr;
  encast_session_options full = ENCAST_SESSION_OPTIONS_INIT;
  ENCAST_TRY(readOptions(options, full, error));
  void *memory = nullptr;
  if (posix_memalign(&memory, alignof(encast_session), sizeof(encast_session)))
    return outOfMemory(error, "a session", sizeof(encast_session));
  auto *session = new (memory) encast_session;
  model->sessions.fetch_add(1);
  session->model = model;
  session->options = full;
  session->log = full.log ? Log(full.log, full.log_data) : model->log;
  session->creator = getpid();
  PoolOptions pool = choosePool(*session);
  bool affinityFailed = false;
  encast_status status = allocateTables(*session, pool.threads, error);
  if (status == ENCAST_OK)
    status = session->pool.start(pool, affinityFailed, error);
  if (status != ENCAST_OK) {
    freeSession(session);
    return status;
  }
  if (affinityFailed)
    session->log.write(ENCAST_LOG_WARNING,
                       "threads cannot be bound to their CPUs; they run "
                       "anywhere");
  *result = session;
  return ENCAST_OK;
}

encast_status encast_session_destroy(encast_session *session,
                                     encast_error *error) {
  if (!session)
    return ENCAST_OK;
  if (session->creator != getpid()) {
    // A forked child: the threads are not here, the memory is.
    session->pool.abandon();
  } else {
    int idle = Idle;
    if (!session->state.compare_exchange_strong(idle, Working))
      return sessionBusy(error);
    session->pool.stop();
  }
  session->arena.release();
  freeSession(session);
  return ENCAST_OK;
}

encast_status encast_memory_needed(const encast_session *session,
                                   int64_t tokens, int64_t sequences,
                                   uint64_t outputs, int64_t *bytes,
                                   encast_error *error) {
  if (!session)
    return nullArgument(error, "session");
  if (!bytes)
    return nullArgument(error, "bytes");
  ENCAST_TRY(checkProcess(*session, error));
  ENCAST_TRY(checkReservation(*session, tokens, sequences, outputs, error));
  Taken taken(*session, Working);
  if (!taken)
    return sessionBusy(error);
  ArenaLayout layout;
  if (!layOutArena(session->model->view, *session->model->variant, tokens,
                   sequences, outputs, session->pool.threads(),
                   session->colourOffsets, layout))
    return tooManyRows(error, tokens, sequences, kMostRows);
  *bytes = layout.bytes;
  return ENCAST_OK;
}

encast_status encast_session_reserve(encast_session *session, int64_t tokens,
                                     int64_t sequences, uint64_t outputs,
                                     encast_error *error) {
  int64_t bytes = 0;
  ENCAST_TRY(
      encast_memory_needed(session, tokens, sequences, outputs, &bytes, error));
  const encast_session_options &options = session->options;
  int64_t copied = session->model->copies.size();
  if (options.memory_cap && bytes > options.memory_cap - copied)
    return memoryCapExceeded(error, bytes, copied, options.memory_cap);
  Taken taken(*session, Working);
  if (!taken)
    return sessionBusy(error);
  ArenaOptions arena;
  arena.hugePages = options.huge_pages;
  arena.numaNode = options.numa_node;
  arena.allocate = options.allocate;
  arena.free = options.free;
  arena.allocateData = options.allocate_data;
  ENCAST_TRY(session->arena.reserve(arena, bytes, session->log, error));
  if (!session->model->weightsRead.exchange(true))
    session->model->populateWeights();
  return ENCAST_OK;
}

encast_status encast_run(encast_session *session, const encast_input *inputs,
                         int64_t inputCount, const encast_output *outputs,
                         int64_t outputCount, encast_error *error) {
  if (!session)
    return nullArgument(error, "session");
  ENCAST_TRY(checkProcess(*session, error));
  Taken taken(*session, Running);
  if (!taken)
    return sessionBusy(error);
  return runSession(*session, inputs, inputCount, outputs, outputCount, error);
}

encast_status encast_cancel(encast_session *session, encast_error *error) {
  if (!session)
    return nullArgument(error, "session");
  int running = Running;
  session->state.compare_exchange_strong(running, Cancelled);
  return ENCAST_OK;
}

encast_status encast_session_stats(const encast_session *session,
                                   encast_session_stats_t *stats,
                                   encast_error *error) {
  if (!session)
    return nullArgument(error, "session");
  ENCAST_TRY(checkProcess(*session, error));
  Taken taken(*session, Working);
  if (!taken)
    return sessionBusy(error);
  encast_session_stats_t full = {};
  full.variant = session->model->view.string(session->model->variant->name);
  full.threads = session->pool.threads();
  full.tokens = session->last.tokens;
  full.sequences = session->last.sequences;
  full.arena_bytes = session->arena.size();
  full.nanoseconds = session->last.nanoseconds;
  full.step_count = session->callCount();
  full.runs = session->runs;
  return writeStruct(full, "encast_session_stats_t", stats, error);
}

encast_status encast_session_step(const encast_session *session, int64_t index,
                                  encast_step_stats *stats,
                                  encast_error *error) {
  if (!session)
    return nullArgument(error, "session");
  ENCAST_TRY(checkProcess(*session, error));
  Taken taken(*session, Working);
  if (!taken)
    return sessionBusy(error);
  int64_t count = session->callCount();
  if (index < 0 || index >= count)
    return indexOutOfRange(error, "step row", index, count);
  const ArtifactView &view = session->model->view;
  const encast_abi_variant &variant = *session->model->variant;
  const auto *step = view.rows<encast_abi_step>(variant.steps);
  while (index >= static_cast<int64_t>(step->first_call) + step->call_count)
    ++step;
  const auto &call = view.rows<encast_abi_call>(variant.calls)[index];
  uint64_t ticks = 0;
  for (int i = 0; i < session->pool.threads(); ++i)
    ticks += session->perThread[i].ticks[index];
  encast_step_stats full = {};
  full.step = view.string(step->name);
  full.name = view.string(call.name);
  full.kernel = view.string(call.kernel);
  full.layer = step->layer;
  full.nanoseconds =
      static_cast<int64_t>(ticks * session->last.nanosecondsPerTick);
  full.flops = session->callFlops[index];
  return writeStruct(full, "encast_step_stats", stats, error);
}

} // extern "C"
