//===- Walker.cpp - walk the step table of a variant ----------------------===//

#include "runtime/src/Walker.h"
#include "runtime/src/KernelState.h"
#include <algorithm>
#include <x86intrin.h>

namespace encast::runtime {

int64_t rowsOfDomain(const encast_abi_context &context, uint32_t domain) {
  switch (domain) {
  case ENCAST_DOMAIN_TOKENS:
  case ENCAST_DOMAIN_ATTENTION_TOKENS:
    return context.tokens;
  case ENCAST_DOMAIN_SELECTED:
  case ENCAST_DOMAIN_ATTENTION_SELECTED:
  case ENCAST_DOMAIN_ATTENTION_RUNS:
    return context.selected;
  case ENCAST_DOMAIN_PICKED:
    return context.picked;
  default:
    return context.sequences;
  }
}

int64_t sequenceOfRow(const encast_abi_context &context, int64_t row) {
  const int64_t *end = context.offsets + context.sequences + 1;
  return std::upper_bound(context.offsets, end, row) - context.offsets - 1;
}

/// Tokens of a sequence that are attended.
static int64_t keysOfSequence(const Walk &walk,
                              const encast_abi_context &context,
                              int64_t sequence) {
  return walk.attended
             ? walk.attended[sequence]
             : context.offsets[sequence + 1] - context.offsets[sequence];
}

/// Pairs of the first `queries` tokens of a sequence with its first `attended`
/// ones that are at most `window` tokens apart.
static int64_t pairsInWindow(int64_t queries, int64_t attended,
                             int64_t window) {
  // Query i reads keys max(0, i - window) to min(i + window + 1, attended).
  queries = std::min(queries, attended + window);
  int64_t cut = std::clamp<int64_t>(attended - window - 1, 0, queries);
  int64_t ends =
      cut * (cut - 1) / 2 + cut * (window + 1) + (queries - cut) * attended;
  int64_t late = std::max<int64_t>(queries - window, 0);
  return ends - late * (late - 1) / 2;
}

int64_t keysOfQueries(const Walk &walk, uint32_t domain, int64_t window) {
  const encast_abi_context &context = walk.perThread[0].context;
  auto pairs = [&](int64_t sequence, int64_t queries) {
    int64_t attended = keysOfSequence(walk, context, sequence);
    return window ? pairsInWindow(queries, attended, window)
                  : queries * attended;
  };
  int64_t keys = 0;
  if (domain == ENCAST_DOMAIN_ATTENTION_TOKENS ||
      domain == ENCAST_DOMAIN_TOKENS || walk.mode == ENCAST_MODE_ALL)
    for (int64_t s = 0; s < context.sequences; ++s)
      keys += pairs(s, context.offsets[s + 1] - context.offsets[s]);
  else
    for (int64_t i = 0; i < context.selected; ++i) {
      int64_t s = sequenceOfRow(context, walk.selectedRows[i]);
      int64_t position = walk.selectedRows[i] - context.offsets[s];
      keys += pairs(s, position + 1) - pairs(s, position);
    }
  return keys;
}

namespace {

int64_t dividedUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// What a call or an item may take at most in floating-point operations, so
/// that a cancel waits some 30 milliseconds at most; tiles make up to six
/// products of one.
constexpr double kMostFlops = 3e9, kMostFlopsOnTiles = 8e9;

/// Parts into which the panels of a call over `rows` rows are cut at least.
int64_t fewestParts(const encast_abi_call &call, int64_t rows) {
  double flops = static_cast<double>(call.flops_per_row) * rows;
  return std::min<int64_t>(call.panels, 1 + flops / kMostFlops);
}

/// Cuts [0, rows) into parts at multiples of `tile`, as equal as that allows.
struct RowCut {
  int64_t rows, tile, tiles, parts;
  RowCut(int64_t rows, int64_t tile, int64_t parts)
      : rows(rows), tile(tile), tiles(dividedUp(rows, tile)),
        parts(std::min(parts, tiles)) {}
  int64_t begin(int64_t part) const {
    return std::min(rows, tiles * part / parts * tile);
  }
};

/// Query rows that follow each other and lie in one sequence.
struct QueryGroup {
  int64_t row = 0, rows = 0; ///< In the domain.
  int64_t sequence = 0;
};

/// Walks over the query groups of an attention step.
class QueryGroups {
public:
  QueryGroups(const Walk &walk, const encast_abi_context &context,
              const encast_abi_step &step)
      : walk(walk), context(context),
        selects(step.domain != ENCAST_DOMAIN_ATTENTION_TOKENS &&
                walk.mode == ENCAST_MODE_SELECTED),
        runs(step.domain == ENCAST_DOMAIN_ATTENTION_RUNS) {
    next();
  }

  bool atEnd() const { return group.rows == 0; }
  const QueryGroup &get() const { return group; }

  void next() {
    int64_t row = group.row + group.rows;
    group = {};
    if (selects ? row == context.selected : ++sequence == context.sequences)
      return;
    if (selects)
      sequence = sequenceOfRow(context, walk.selectedRows[row]);
    int64_t begin = context.offsets[sequence];
    int64_t end = context.offsets[sequence + 1];
    group = {row, end - begin, sequence};
    if (!selects)
      return;
    group.rows = 1;
    while (row + group.rows < context.selected &&
           joins(row + group.rows, begin, end))
      ++group.rows;
  }
  /// Position in its sequence of a row of the domain.
  int64_t position(int64_t row) const {
    return tokenRow(row) - context.offsets[group.sequence];
  }

private:
  int64_t tokenRow(int64_t row) const {
    return selects ? walk.selectedRows[row] : row;
  }
  /// Whether a row belongs to the group of the row before, which lies in a
  /// sequence of token rows [begin, end).
  bool joins(int64_t row, int64_t begin, int64_t end) const {
    int64_t token = tokenRow(row);
    return token >= begin && token < end &&
           (!runs || token == tokenRow(row - 1) + 1);
  }

  const Walk &walk;
  const encast_abi_context &context;
  const bool selects, runs;
  int64_t sequence = -1;
  QueryGroup group;
};

/// One thread's walk.
class ThreadWalk {
public:
  ThreadWalk(const Walk &walk, int thread)
      : walk(walk), thread(thread), own(walk.perThread[thread]),
        context(own.context), state(*walk.state),
        calls(walk.view.rows<encast_abi_call>(walk.variant->calls)),
        kernelState(walk.usesTiles) {}

  void walkAll();

private:
  bool stepRuns(const encast_abi_step &step) const;
  void walkStep(const encast_abi_step &step);
  void walkBlocks(const encast_abi_step &step, int64_t rows);
  void walkShared(const encast_abi_step &step, int64_t rows);
  void walkAttention(const encast_abi_step &step);
  RowCut cutQueries(const encast_abi_step &step, const QueryGroup &group) const;
  template <typename Function> void runPhase(int64_t count, Function compute);
  void waitForPhases();
  void runCalls(const encast_abi_step &step, const encast_abi_item &item);
  void runPanels(uint64_t index, encast_abi_item item);
  void runCall(uint64_t index, const encast_abi_item &item);
  void runPerHead(encast_abi_function function, encast_abi_item item);
  void setSequence(encast_abi_item &item, int64_t sequence) const;
  void reportProgress(double done);

  bool isCancelled() const {
    return walk.sessionState->load(std::memory_order_relaxed) ==
           walk.cancelledState;
  }

  const Walk &walk;
  const int thread;
  WalkThread &own;
  encast_abi_context &context;
  WalkState &state;
  const encast_abi_call *calls;
  KernelState kernelState;
  // Where this thread is, which may be behind others.
  uint32_t phase = 0;
  int64_t firstItem = 0; ///< Of the phase.
};

void ThreadWalk::walkAll() {
  const auto *steps = walk.view.rows<encast_abi_step>(walk.variant->steps);
  uint64_t count = walk.variant->steps.count;
  for (uint64_t i = 0; i < count; ++i) {
    if (stepRuns(steps[i]))
      walkStep(steps[i]);
    bool endsLayer = steps[i].layer &&
                     (i + 1 == count || steps[i + 1].layer != steps[i].layer);
    if (endsLayer && thread == 0 && walk.progress)
      reportProgress(static_cast<double>(i + 1) / count);
  }
  runPhase(walk.threads,
           [&](int64_t part) { walk.finish(walk.finishData, part); });
  if (thread == 0)
    waitForPhases();
}

void ThreadWalk::reportProgress(double done) {
  waitForPhases();
  if (isCancelled())
    return;
  kernelState.leave(); // it may run anything, on tiles too
  walk.progress(walk.progressData, done);
  kernelState.enter();
}

/// Waits until all phases before the one at hand are complete.
void ThreadWalk::waitForPhases() {
  state.phases.waitUntil([this](uint32_t done) { return done >= phase; },
                         walk.spins);
}

/// Computes those of `count` items that this thread can claim, in their order;
/// none if others were faster.
template <typename Function>
void ThreadWalk::runPhase(int64_t count, Function compute) {
  int64_t end = firstItem + count;
  int64_t item = state.claimed.load(std::memory_order_relaxed);
  if (item < end)
    waitForPhases();
  while (item < end) {
    if (!state.claimed.compare_exchange_weak(item, item + 1,
                                             std::memory_order_relaxed))
      continue;
    if (!isCancelled())
      compute(item - firstItem);
    // Whoever counts the last item has seen what all wrote.
    if (state.done.fetch_add(1, std::memory_order_acq_rel) + 1 == end)
      state.phases.store(phase + 1);
    item = state.claimed.load(std::memory_order_relaxed);
  }
  firstItem = end;
  ++phase;
}

bool ThreadWalk::stepRuns(const encast_abi_step &step) const {
  if (!rowsOfDomain(context, step.domain))
    return false;
  for (uint32_t i = 0; i < step.call_count; ++i)
    if (callRuns(walk, calls[step.first_call + i]))
      return true;
  return false;
}

void ThreadWalk::walkStep(const encast_abi_step &step) {
  int64_t rows = rowsOfDomain(context, step.domain);
  if (step.heads)
    walkAttention(step);
  else if (walk.threads > 1 && rows <= step.max_rows && rows <= step.split_rows)
    walkShared(step, rows);
  else
    walkBlocks(step, rows);
}

void ThreadWalk::walkBlocks(const encast_abi_step &step, int64_t rows) {
  int64_t mostTiles = step.max_rows / step.row_tile;
  int64_t tiles = dividedUp(rows, step.row_tile);
  int64_t rounds = dividedUp(dividedUp(tiles, mostTiles), walk.threads);
  RowCut cut(rows, step.row_tile, rounds * walk.threads);
  context.block = own.block;
  runPhase(cut.parts, [&](int64_t part) {
    encast_abi_item item = {};
    item.row = item.block = cut.begin(part);
    item.rows = cut.begin(part + 1) - item.row;
    runCalls(step, item);
  });
}

void ThreadWalk::walkShared(const encast_abi_step &step, int64_t rows) {
  context.block = walk.perThread[0].block;
  // Two parts per thread: one that comes late still finds work.
  int64_t parts = int64_t(2) * walk.threads;
  for (uint32_t i = 0; i < step.call_count; ++i) {
    uint64_t index = step.first_call + i;
    const encast_abi_call &call = calls[index];
    if (!callRuns(walk, call))
      continue;
    RowCut cut = call.panels ? RowCut(call.panels, call.panel_tile,
                                      std::max(parts, fewestParts(call, rows)))
                             : RowCut(rows, step.row_tile, parts);
    runPhase(cut.parts, [&](int64_t part) {
      int64_t begin = cut.begin(part), count = cut.begin(part + 1) - begin;
      encast_abi_item item = {};
      item.row = call.panels ? 0 : begin;
      item.rows = call.panels ? rows : count;
      item.panel = call.panels ? begin : 0;
      item.panels = call.panels ? count : 0;
      runCall(index, item);
    });
  }
}

/// Cuts the queries of a group into tiles: as few as max_rows allows, but that
/// many items for each thread that none waits long for the last one, and none
/// that takes long.
RowCut ThreadWalk::cutQueries(const encast_abi_step &step,
                              const QueryGroup &group) const {
  constexpr int64_t itemsPerThread = 4;
  const double mostFlops = walk.usesTiles ? kMostFlopsOnTiles : kMostFlops;
  double flops = 1; // of a row tile with one head
  for (uint32_t i = 0; i < step.call_count; ++i) {
    const encast_abi_call &call = calls[step.first_call + i];
    int64_t keys = keysOfSequence(walk, context, group.sequence);
    if (call.window)
      keys = std::min<int64_t>(keys, 2 * int64_t(call.window) + 1);
    flops += static_cast<double>(call.flops_per_row_and_key) * keys *
             step.row_tile / step.heads;
  }
  int64_t mostTiles = std::min<int64_t>(
      step.max_rows / step.row_tile, static_cast<int64_t>(mostFlops / flops));
  int64_t fewest = dividedUp(dividedUp(group.rows, step.row_tile),
                             std::max<int64_t>(1, mostTiles));
  int64_t share = step.heads * rowsOfDomain(context, step.domain);
  int64_t wanted = dividedUp(itemsPerThread * walk.threads * group.rows, share);
  return RowCut(group.rows, step.row_tile, std::max(fewest, wanted));
}

void ThreadWalk::walkAttention(const encast_abi_step &step) {
  context.block = own.block;
  int64_t count = 0;
  for (QueryGroups groups(walk, context, step); !groups.atEnd(); groups.next())
    count += step.heads * cutQueries(step, groups.get()).parts;

  QueryGroups groups(walk, context, step);
  int64_t first = 0; // item of the group at hand
  runPhase(count, [&](int64_t index) {
    RowCut cut = cutQueries(step, groups.get());
    while (index - first >= step.heads * cut.parts) {
      first += step.heads * cut.parts;
      groups.next();
      cut = cutQueries(step, groups.get());
    }
    // All tiles of a head follow each other: its keys stay in the cache.
    const QueryGroup &group = groups.get();
    int64_t head = (index - first) / cut.parts;
    int64_t tile = (index - first) % cut.parts;
    encast_abi_item item = {};
    item.row = item.block = group.row + cut.begin(tile);
    item.rows = cut.begin(tile + 1) - cut.begin(tile);
    item.panel = head;
    item.position = groups.position(item.row);
    setSequence(item, group.sequence);
    runCalls(step, item);
  });
}

void ThreadWalk::runCalls(const encast_abi_step &step,
                          const encast_abi_item &item) {
  for (uint32_t i = 0; i < step.call_count && !isCancelled(); ++i) {
    uint64_t index = step.first_call + i;
    if (!callRuns(walk, calls[index]))
      continue;
    if (step.heads || !calls[index].panels)
      runCall(index, item);
    else
      runPanels(index, item);
  }
}

/// All panels of a call on one block; a vocabulary takes long.
void ThreadWalk::runPanels(uint64_t index, encast_abi_item item) {
  const encast_abi_call &call = calls[index];
  RowCut cut(call.panels, call.panel_tile, fewestParts(call, item.rows));
  for (int64_t part = 0; part < cut.parts && !isCancelled(); ++part) {
    item.panel = cut.begin(part);
    item.panels = cut.begin(part + 1) - item.panel;
    runCall(index, item);
  }
}

void ThreadWalk::runCall(uint64_t index, const encast_abi_item &item) {
  encast_abi_function function = walk.view.function(calls[index]);
  uint64_t begin = __rdtsc();
  if (calls[index].per_head)
    runPerHead(function, item);
  else
    function(&context, &item);
  own.ticks[index] += __rdtsc() - begin;
}

/// All heads of a sequence's rows follow each other: they share cache lines and
/// pages.
void ThreadWalk::runPerHead(encast_abi_function function,
                            encast_abi_item item) {
  int64_t endRow = item.row + item.rows;
  int64_t firstHead = item.panel, endHead = item.panel + item.panels;
  item.panels = 0;
  for (; item.row < endRow; item.row += item.rows) {
    int64_t sequence = sequenceOfRow(context, item.row);
    setSequence(item, sequence);
    item.position = item.row - item.key;
    item.rows = std::min(endRow, context.offsets[sequence + 1]) - item.row;
    for (item.panel = firstHead; item.panel < endHead && !isCancelled();
         ++item.panel)
      function(&context, &item);
  }
}

void ThreadWalk::setSequence(encast_abi_item &item, int64_t sequence) const {
  item.key = context.offsets[sequence];
  item.keys = keysOfSequence(walk, context, sequence);
  item.packed = ENCAST_PACKED_ROW(item.key, sequence);
}

} // namespace

void walkSteps(const Walk &walk, int thread) {
  ThreadWalk(walk, thread).walkAll();
}

} // namespace encast::runtime
