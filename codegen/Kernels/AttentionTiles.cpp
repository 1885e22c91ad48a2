//===- AttentionTiles.cpp - flash attention on tiles ----------------------===//

#include "codegen/Kernels/AttentionTiles.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>

using namespace encast;
using namespace Xbyak;

// Rows of tiles whose sums wait in the workspace while keys are walked span by
// span, and the most queries that share a span.
static constexpr int64_t kGroupRows = 512;
static constexpr int64_t kMaxGroupQueries = 256;
// Of packed keys and values, to stay in an L2 of 1 MB or more.
static constexpr int64_t kSpanBytes = 512 << 10;

// Scores start a page half away from keys: a load whose address agrees with
// that of a store before it in the low 12 bits waits for the store.
static constexpr int kPageBytes = 4096;

// The smallest sum of probabilities that needs no other offset, and a score
// that is smaller than any such sum allows.
static constexpr float kSmallestSum = 0x1p-56f, kSmallestScore = -70;

namespace {
enum Local { CallerControl, LocalCount };
} // namespace

AttentionTiles::AttentionTiles(const KernelRow &row,
                               const AttentionShape &shape)
    : AttentionRounds(row, shape),
      groupQueries(
          int(std::clamp(kGroupRows / shape.queryHeads / kQueries * kQueries,
                         int64_t(kQueries), kMaxGroupQueries))),
      spanKeys(std::max<int64_t>(1, kSpanBytes / (2 * int64_t(blockBytes))) *
               kTileKeys),
      stateBytes(valueBytes + 2 * kRowFloatsBytes),
      outElementBytes(shape.outPlanes > 0 ? 2 : 4) {}

int64_t AttentionTiles::workspaceBytes() const {
  const int64_t states =
      hasSpans() ? shape.queryHeads * (groupQueries / kQueries) : 0;
  return kPageBytes + scratchBytes + states * stateBytes;
}

void AttentionTiles::advance(Variable target, int64_t amount) {
  mov(temp, variable(target));
  add(temp, int(amount));
  mov(variable(target), temp);
}

void AttentionTiles::copy(Variable target, Variable source) {
  mov(temp, variable(source));
  mov(variable(target), temp);
}

bool AttentionTiles::generate(std::vector<uint8_t> &code, std::string &error) {
  enter(LocalCount);
  stmxcsr(local(CallerControl));
  emitArguments();
  loadControl();
  emitGroups();
  emitFinishedRows();
  ldmxcsr(local(CallerControl));
  leave();
  emitFinishedRow();
  emitSubroutines();
  return finish(code, error);
}

void AttentionTiles::emitArguments() {
  mov(scratch, ptr[args + offsetof(TileAttentionArgs, workspace)]);
  mov(temp, ptr[args + offsetof(TileAttentionArgs, packedK)]);
  add(temp, kPageBytes / 2);
  sub(temp, scratch);
  and_(temp, kPageBytes - kTileRowBytes);
  add(scratch, temp);
  const auto keep = [&](Variable target, size_t source) {
    mov(temp, ptr[args + source]);
    mov(variable(target), temp);
  };
  keep(PackedK, offsetof(TileAttentionArgs, packedK));
  keep(PackedV, offsetof(TileAttentionArgs, packedV));
  keep(GroupQ, offsetof(TileAttentionArgs, q));
  keep(GroupOut, offsetof(TileAttentionArgs, out));
  keep(GroupPosition, offsetof(TileAttentionArgs, position));
  keep(QueriesLeft, offsetof(TileAttentionArgs, queries));
  keep(Keys, offsetof(TileAttentionArgs, keys));
  keep(Ahead, offsetof(TileAttentionArgs, ahead));
  mov(tileRowBytes, kTileRowBytes);
  mov(variable(FinishedEnd), 0);
  mov(variable(HasOffsets), 0);
}

void AttentionTiles::emitGroups() {
  Label nextGroup, nextSpan;
  L(nextGroup);
  mov(temp, groupQueries);
  cmp(temp, variable(QueriesLeft));
  cmovg(temp, variable(QueriesLeft));
  mov(variable(GroupQueries), temp);
  mov(variable(SpanKey), 0);
  L(nextSpan);
  emitFetchRange();
  emitHeads();
  if (hasSpans()) {
    advance(SpanKey, spanKeys);
    cmp(temp, variable(Keys));
    jl(nextSpan);
  }
  advance(GroupQ, groupQueries * shape.ldq * 2);
  advance(GroupOut, groupQueries * shape.ldo * outElementBytes);
  advance(GroupPosition, groupQueries);
  advance(QueriesLeft, -groupQueries);
  test(temp, temp);
  jg(nextGroup);
}

/// What tiles fetch while they walk the span: the next one, or the first one
/// for the next group or call; nothing if there is only one. With a window:
/// what the group's queries see of the head ahead.
void AttentionTiles::emitFetchRange() {
  const int rowBytes = int(packedRowBytes(shape));
  const Reg64 first = place, end = temp, keys = number;
  Label some, done;
  mov(keys, variable(Keys));
  if (hasSpans())
    cmp(keys, int(spanKeys));
  else
    cmp(variable(Ahead), 0);
  jg(some);
  mov(variable(FetchK), scratch);
  mov(variable(FetchV), scratch);
  mov(variable(FetchEnd), 0);
  jmp(done);
  L(some);
  if (hasSpans()) {
    xor_(first, first);
    mov(temp, variable(SpanKey));
    add(temp, int(spanKeys));
    cmp(temp, keys);
    cmovl(first, temp);
    lea(end, ptr[first + size_t(spanKeys)]);
  } else {
    emitWindow(GroupPosition, GroupQueries);
  }
  cmp(end, keys);
  cmovg(end, keys);
  if (!hasSpans()) {
    add(first, variable(Ahead));
    add(end, variable(Ahead));
  }
  imul(first, first, rowBytes);
  imul(end, end, rowBytes);
  add(end, variable(PackedK));
  mov(variable(FetchEnd), end);
  mov(temp, variable(PackedK));
  add(temp, first);
  mov(variable(FetchK), temp);
  add(first, variable(PackedV));
  mov(variable(FetchV), first);
  L(done);
}

/// All tiles of the group over the span, head by head.
void AttentionTiles::emitHeads() {
  Label nextHead, nextTile;
  lea(temp, ptr[scratch + size_t(scratchBytes)]);
  mov(variable(State), temp);
  copy(HeadQ, GroupQ);
  copy(HeadOut, GroupOut);
  mov(variable(HeadsLeft), int(shape.queryHeads));
  L(nextHead);
  copy(TileQ, HeadQ);
  copy(TileOut, HeadOut);
  copy(TilePosition, GroupPosition);
  copy(TileQueriesLeft, GroupQueries);
  L(nextTile);
  emitTile();
  advance(State, stateBytes);
  advance(TileQ, kQueries * shape.ldq * 2);
  advance(TileOut, kQueries * shape.ldo * outElementBytes);
  advance(TilePosition, kQueries);
  advance(TileQueriesLeft, -kQueries);
  test(temp, temp);
  jg(nextTile);
  advance(HeadQ, planeStride(shape.headSize) * 2);
  advance(HeadOut, shape.headSize * outElementBytes);
  advance(HeadsLeft, -1);
  test(temp, temp);
  jnz(nextHead);
}

void AttentionTiles::emitTile() {
  Label checked, failed, firstSpan, lastSpan, done;
  emitQueriesIn();
  emitKeyRange();
  emitFirstOffsets();
  cmp(variable(HasOffsets), 0);
  jne(failed);
  call(run);
  emitCheck(failed);
  L(checked);
  if (hasSpans()) {
    cmp(variable(SpanKey), 0);
    je(firstSpan);
    emitAddSpansBefore();
    L(firstSpan);
    mov(temp, variable(SpanKey));
    add(temp, int(spanKeys));
    cmp(temp, variable(Keys));
    jge(lastSpan);
    emitKeepSpan();
    jmp(done);
  }
  L(lastSpan);
  emitFinish();
  jmp(done);

  // Where one tile needs offsets, the next ones are likely to need some, too.
  L(failed);
  mov(variable(HasOffsets), 1);
  call(maxima);
  call(runWithOffsets);
  jmp(checked);
  L(done);
}

/// Copies the queries of the tile; rows without a query become zero.
void AttentionTiles::emitQueriesIn() {
  Label nextRow, fillRow, done;
  const Reg64 emptyRows = number;
  mov(rowsLeft, kQueries);
  cmp(rowsLeft, variable(TileQueriesLeft));
  cmovg(rowsLeft, variable(TileQueriesLeft));
  mov(variable(TileQueries), rowsLeft);
  mov(temp.cvt32(), -1);
  if (hasSpans()) {
    bzhi(temp.cvt32(), temp.cvt32(), rowsLeft.cvt32());
  } else {
    const Reg64 seeing = number, none = place;
    xor_(none, none);
    mov(seeing, variable(Keys));
    sub(seeing, variable(TilePosition));
    add(seeing, int(shape.window));
    cmp(seeing, none);
    cmovl(seeing, none);
    cmp(seeing, rowsLeft);
    cmovg(seeing, rowsLeft);
    bzhi(temp.cvt32(), temp.cvt32(), seeing.cvt32());
  }
  mov(variable(TileMask), temp);
  mov(emptyRows, kQueries);
  sub(emptyRows, rowsLeft);

  const auto forEachTile = [&](const std::function<void(int, int)> &body) {
    for (int plane = 0; plane < planes; ++plane)
      for (int step = 0; step < steps; ++step)
        body(plane, step);
  };
  const auto copied = [&](int plane, int step) {
    return ptr[place + size_t((plane * steps + step) * kPairBytes)];
  };
  mov(pointer, variable(TileQ));
  lea(place, ptr[queriesAt(0, 0, 0)]);
  L(nextRow);
  forEachTile([&](int plane, int step) {
    vmovdqu64(vec(0), ptr[pointer + size_t(plane * shape.qPlaneStride * 2 +
                                           int64_t(step) * kTileRowBytes)]);
    vmovdqa64(copied(plane, step), vec(0));
  });
  add(pointer, int(shape.ldq * 2));
  add(place, kTileRowBytes);
  dec(rowsLeft);
  jnz(nextRow);
  clear(vec(0));
  L(fillRow);
  dec(emptyRows);
  jl(done);
  forEachTile(
      [&](int plane, int step) { vmovdqa64(copied(plane, step), vec(0)); });
  add(place, kTileRowBytes);
  jmp(fillRow);
  L(done);
}

/// place, temp = the first block of keys that queries from a position on see,
/// the last one if they see none, and the end of their windows; `number` holds
/// the keys.
void AttentionTiles::emitWindow(Variable position, Variable queries) {
  const Reg64 first = place, end = temp, keys = number;
  const int window = int(shape.window);
  mov(pointer, variable(position));
  xor_(first, first);
  lea(temp, ptr[pointer - window]);
  cmp(first, temp);
  cmovl(first, temp);
  lea(temp, ptr[keys - 1]);
  cmp(first, temp);
  cmovg(first, temp);
  and_(first, -int(kTileKeys));
  lea(end, ptr[pointer + window]);
  add(end, variable(queries));
}

/// The blocks of keys that the tile walks: the last one, masked, if it sees no
/// key.
void AttentionTiles::emitKeyRange() {
  const Reg64 first = place, end = temp, keys = number;
  mov(keys, variable(Keys));
  if (hasSpans()) {
    mov(first, variable(SpanKey));
    lea(end, ptr[first + size_t(spanKeys)]);
  } else {
    emitWindow(TilePosition, TileQueries);
  }
  cmp(end, keys);
  cmovg(end, keys);
  mov(variable(FirstKey), first);
  sub(end, first);
  add(end, int(kTileKeys) - 1);
  shr(end, 5);
  mov(variable(Blocks), end);
  sub(keys, int(kTileKeys));
  mov(variable(LastWhole), keys);
}

/// Offsets of the queries before the span, and when to change them.
void AttentionTiles::emitFirstOffsets() {
  const auto setLimits = [&](float sum, float score) {
    for (auto [limit, value] :
         {std::pair(SmallestSum, sum), std::pair(SmallestScore, score)}) {
      int32_t bits;
      std::memcpy(&bits, &value, sizeof(bits));
      mov(floatVariable(limit), bits);
    }
  };
  Label laterSpan, done;
  if (hasSpans()) {
    cmp(variable(SpanKey), 0);
    jne(laterSpan);
  }
  clear(vec(0));
  for (int half = 0; half < 2; ++half)
    vmovups(vectorAt(rowOffsets(), half), vec(0));
  setLimits(kSmallestSum, kSmallestScore);
  if (!hasSpans())
    return;
  jmp(done);
  // Beside what the first span found, small scores may vanish.
  L(laterSpan);
  mov(pointer, variable(State));
  for (int half = 0; half < 2; ++half) {
    vmovups(vec(0), vectorAt(stateOffsets(), half));
    vmovups(vectorAt(rowOffsets(), half), vec(0));
  }
  setLimits(0.0f, -std::numeric_limits<float>::infinity());
  L(done);
}

/// values, sums += what the spans before have left, times 2^(the change of the
/// offset).
void AttentionTiles::emitAddSpansBefore() {
  mov(pointer, variable(State));
  for (int half = 0; half < 2; ++half) {
    const Vec factor = vec(0), sum = vec(1);
    vmovups(factor, vectorAt(rowOffsets(), half));
    vsubps(factor, factor, vectorAt(stateOffsets(), half));
    if (isBf16())
      vmulps(factor, factor, constant(1 / kBf16ScoreUnit));
    broadcastConstant(sum, 1.0f);
    vscalefps(factor, sum, factor);
    vmovups(vectorAt(factors(), half), factor);
    vmovups(sum, vectorAt(rowSums(), half));
    vfmadd231ps(sum, factor, vectorAt(stateSums(), half));
    vmovups(vectorAt(rowSums(), half), sum);
  }
  Label nextRow;
  const Reg64 row = rowsLeft;
  xor_(row, row);
  lea(place, ptr[valuesAt(0, 0)]);
  L(nextRow);
  vbroadcastss(vec(0), dword[factors() + row * 4]);
  for (int tile = 0; tile < 2 * steps; ++tile) {
    const int at = tile * kPairBytes;
    vmovups(vec(1), ptr[place + at]);
    vfmadd231ps(vec(1), vec(0), ptr[pointer + at]);
    vmovups(ptr[place + at], vec(1));
  }
  add(place, kTileRowBytes);
  add(pointer, kTileRowBytes);
  inc(row);
  cmp(row, kQueries);
  jb(nextRow);
}

/// Leaves values, sums and offsets to the next span.
void AttentionTiles::emitKeepSpan() {
  Label nextRow;
  mov(pointer, variable(State));
  for (int half = 0; half < 2; ++half) {
    vmovups(vec(0), vectorAt(rowSums(), half));
    vmovups(vectorAt(stateSums(), half), vec(0));
    vmovups(vec(0), vectorAt(rowOffsets(), half));
    vmovups(vectorAt(stateOffsets(), half), vec(0));
  }
  lea(place, ptr[valuesAt(0, 0)]);
  mov(rowsLeft, kQueries);
  L(nextRow);
  for (int tile = 0; tile < 2 * steps; ++tile) {
    const int at = tile * kPairBytes;
    vmovups(vec(0), ptr[place + at]);
    vmovups(ptr[pointer + at], vec(0));
  }
  add(place, kTileRowBytes);
  add(pointer, kTileRowBytes);
  dec(rowsLeft);
  jnz(nextRow);
}

/// Leaves values and sums to be written row by row, beside the first products
/// of the next tile. Of a query that sees no key the values are 0 and so is the
/// factor; else a sum of 0 is that of NaN.
void AttentionTiles::emitFinish() {
  const Opmask seeing[2] = {k2, k3};
  kmovd(k2, floatVariable(TileMask));
  kshiftrd(k3, k2, kTileRows);
  for (int half = 0; half < 2; ++half) {
    broadcastConstant(vec(0), 1.0f);
    vdivps(vec(0) | seeing[half] | T_z, vec(0), vectorAt(rowSums(), half));
    vmovups(vectorAt(factors(), half), vec(0));
  }
  copy(FinishedOut, TileOut);
  mov(temp, variable(TileQueries));
  imul(temp, temp, kTileRowBytes);
  lea(temp, ptr[valuesAt(0, 0) + temp]);
  mov(variable(FinishedEnd), temp);
}

/// Writes what is left when there is no other tile.
void AttentionTiles::emitFinishedRows() {
  Label nextRow;
  mov(place, variable(FinishedOut));
  lea(number, ptr[valuesAt(0, 0)]);
  L(nextRow);
  call(finishedRow);
  cmp(number, variable(FinishedEnd));
  jb(nextRow);
}

/// Subroutine: out at `place` = values / sum, of the row at `number`; advances
/// both. Nothing behind the last row.
void AttentionTiles::emitFinishedRow() {
  const int headSize = int(shape.headSize);
  const Vec factor = vec(kFinishTemps);
  Label done;
  align(64);
  L(finishedRow);
  cmp(number, variable(FinishedEnd));
  jae(done);
  if (headSize % kTileRows != 0) {
    mov(temp.cvt32(), (1 << headSize % kTileRows) - 1);
    kmovw(k2, temp.cvt32());
  }
  // A row has 64 bytes of each tile of values, and 4 of the factors.
  lea(temp, ptr[valuesAt(0, 0)]);
  neg(temp);
  add(temp, number);
  shr(temp, 4);
  vbroadcastss(factor, dword[factors() + temp]);
  for (int tile = 0; tile * kTileRows < headSize; ++tile) {
    const Vec value = vec(kFinishTemps + 1 + tile % 4);
    vmulps(value, factor, ptr[number + size_t(tile * kPairBytes)]);
    emitOutTile(value, tile);
  }
  add(place, int(shape.ldo * outElementBytes));
  add(number, kTileRowBytes);
  L(done);
  ret();
}

/// Writes 16 dims of a row, or those that the head has. Changes `value`.
void AttentionTiles::emitOutTile(const Vec &value, int tile) {
  const bool whole = (tile + 1) * kTileRows <= int(shape.headSize);
  const RegExp at = place + size_t(tile * kTileRows * outElementBytes);
  if (shape.outPlanes == 0)
    vmovups(whole ? ptr[at] : ptr[at] | k2, value);
  else
    storePlanes(at, 2 * shape.outPlaneStride, shape.outPlanes, value,
                vec(kFinishTemps + 5 + tile % 4), whole ? k0 : k2);
}
