//===- AttentionDots.cpp - flash attention by AVX512-BF16 -----------------===//

#include "codegen/Kernels/AttentionDots.h"
#include "codegen/Kernels/Polynomials.h"

#include <algorithm>
#include <cstddef>
#include <limits>

using namespace encast;
using namespace Xbyak;

// Keys of a chunk, in blocks of kTileKeys, and rows of queries times heads that
// share a sweep over them.
static constexpr int kChunkKeys = 128;
static constexpr int kChunkBlocks = kChunkKeys / int(kTileKeys);
static constexpr int64_t kGroupRows = 480;

static constexpr int kLanes = 16, kVectorBytes = 64;
static constexpr int64_t kScoreRowBytes = int64_t(kChunkKeys) * 4;
static constexpr int64_t kWordRowBytes =
    int64_t(kChunkKeys) * 2; // of probabilities

// Registers of a row: scores and the old maximum, what is left of them beside
// an integer, and their powers.
static constexpr int kScore = 0, kRest = 9, kPower = 18;

namespace {
/// 8-byte places on the stack.
enum Local {
  // Of the call.
  CallerControl,
  PackedK,
  PackedV,
  Keys,
  QueriesLeft, // from the group on
  // Of a group of queries.
  GroupQ,
  GroupOut,
  GroupPosition,
  GroupQueries,
  RangeEnd, // behind the last key
  // Of a chunk of keys.
  IsFirst,
  IsLast,
  IsMasked,
  // Of a head.
  HeadQ,
  HeadOut,
  HeadsLeft,
  // Of a tile.
  TileOut,
  TilePosition,
  TileQueriesLeft, // of the group, from the tile on
  LocalCount
};
} // namespace

static constexpr int kScoresOffset = 0;
static constexpr int kWordsOffset = int(12 * kScoreRowBytes);
static constexpr int kFactorsOffset = kWordsOffset + int(12 * kWordRowBytes);
static constexpr int kStatesOffset = kFactorsOffset + kVectorBytes;

AttentionDots::AttentionDots(const AttentionShape &shape)
    : shape(shape), steps(int(planeStride(shape.headSize) / 32)),
      groupQueries(hasWindow()
                       ? kRows
                       : int(std::max<int64_t>(
                             kGroupRows / shape.queryHeads / kRows, 1)) *
                             kRows),
      outElementBytes(shape.outPlanes > 0 ? 2 : 4),
      valueRowBytes(steps * 2 * kVectorBytes),
      sumsOffset(kRows * valueRowBytes),
      maximaOffset(sumsOffset + kRows * kVectorBytes),
      stateBytes(maximaOffset + kVectorBytes) {}

int64_t AttentionDots::workspaceBytes() const {
  return kStatesOffset + shape.queryHeads * tilesOfGroup() * stateBytes;
}

bool AttentionDots::generate(std::vector<uint8_t> &code, std::string &error) {
  enter(LocalCount);
  stmxcsr(local(CallerControl));
  ldmxcsr(dword[rip + control]);
  emitArguments();
  emitGroups();
  ldmxcsr(local(CallerControl));
  leave();
  for (int rows = 1; rows <= kRows; ++rows) {
    beginSubroutine(scores[rows]);
    emitScores(rows);
    endSubroutine();
    beginSubroutine(values[rows]);
    emitValues(rows);
    endSubroutine();
  }
  for (int blocks = 1; blocks <= kChunkBlocks; ++blocks)
    for (bool masked : {false, true}) {
      beginSubroutine(probabilities[{blocks, masked}]);
      emitProbabilities(blocks, masked);
      endSubroutine();
    }
  emitTables();
  return finish(code, error);
}

void AttentionDots::emitArguments() {
  copyArguments(args, temp,
                {{PackedK, offsetof(TileAttentionArgs, packedK)},
                 {PackedV, offsetof(TileAttentionArgs, packedV)},
                 {Keys, offsetof(TileAttentionArgs, keys)},
                 {QueriesLeft, offsetof(TileAttentionArgs, queries)},
                 {GroupQ, offsetof(TileAttentionArgs, q)},
                 {GroupOut, offsetof(TileAttentionArgs, out)},
                 {GroupPosition, offsetof(TileAttentionArgs, position)}});
  mov(workspace, ptr[args + offsetof(TileAttentionArgs, workspace)]);
}

void AttentionDots::emitGroups() {
  Label nextGroup, nextChunk;
  L(nextGroup);
  mov(temp, groupQueries);
  cmp(temp, local(QueriesLeft));
  cmovg(temp, local(QueriesLeft));
  mov(local(GroupQueries), temp);
  emitKeyRange();
  mov(local(IsFirst), 1);
  L(nextChunk);
  emitChunk();
  mov(local(IsFirst), 0);
  imul(temp, blocks, blockBytes());
  add(kChunk, temp);
  add(vChunk, temp);
  shl(blocks, 5);
  add(firstKey, blocks);
  cmp(local(IsLast), 0);
  je(nextChunk);

  add(local(GroupQ), int(groupQueries * shape.ldq * 2));
  add(local(GroupOut), int(groupQueries * outRowBytes()));
  add(local(GroupPosition), groupQueries);
  sub(local(QueriesLeft), groupQueries);
  jg(nextGroup);
}

/// The keys of the group, from the first one of a block on: with a window those
/// of any query, or the last block, masked, if none sees a key.
void AttentionDots::emitKeyRange() {
  const Reg64 end = left;
  mov(end, local(Keys));
  xor_(firstKey, firstKey);
  if (hasWindow()) {
    const int window = int(shape.window);
    mov(pointer, local(GroupPosition));
    lea(temp, ptr[pointer - window]);
    cmp(temp, firstKey);
    cmovg(firstKey, temp);
    lea(temp, ptr[end - 1]);
    cmp(firstKey, temp);
    cmovg(firstKey, temp);
    and_(firstKey, -int(kTileKeys));
    add(pointer, local(GroupQueries));
    add(pointer, window);
    cmp(end, pointer);
    cmovg(end, pointer);
  }
  mov(local(RangeEnd), end);
  mov(kChunk, firstKey);
  shr(kChunk, 5);
  imul(kChunk, kChunk, blockBytes());
  mov(vChunk, kChunk);
  add(kChunk, local(PackedK));
  add(vChunk, local(PackedV));
}

/// All tiles of the group, head by head, over the chunk at firstKey.
void AttentionDots::emitChunk() {
  const Reg64 end = blocks;
  lea(end, ptr[firstKey + kChunkKeys]);
  and_(end, -kChunkKeys);
  xor_(temp, temp);
  cmp(end, local(RangeEnd));
  setge(temp.cvt8());
  mov(local(IsLast), temp);
  cmovg(end, local(RangeEnd));
  sub(end, firstKey);
  add(end, int(kTileKeys) - 1);
  shr(end, 5);
  emitIsMasked();

  Label nextHead, nextTile;
  lea(state, ptr[workspace + kStatesOffset]);
  const auto copy = [&](Local target, Local source) {
    mov(temp, local(source));
    mov(local(target), temp);
  };
  copy(HeadQ, GroupQ);
  copy(HeadOut, GroupOut);
  mov(local(HeadsLeft), int(shape.queryHeads));
  L(nextHead);
  mov(tileQ, local(HeadQ));
  copy(TileOut, HeadOut);
  copy(TilePosition, GroupPosition);
  copy(TileQueriesLeft, GroupQueries);
  L(nextTile);
  mov(tileRows, local(TileQueriesLeft));
  emitTileHeight(tileRows);
  emitTile();
  add(state, stateBytes);
  imul(temp, tileRows, int(shape.ldq * 2));
  add(tileQ, temp);
  imul(temp, tileRows, int(outRowBytes()));
  add(local(TileOut), temp);
  add(local(TilePosition), tileRows);
  sub(local(TileQueriesLeft), tileRows);
  jg(nextTile);
  add(local(HeadQ), int(planeStride(shape.headSize) * 2));
  add(local(HeadOut), int(shape.headSize * outElementBytes));
  dec(local(HeadsLeft));
  jnz(nextHead);
}

/// Whether a query of the group does not see a key of the blocks.
void AttentionDots::emitIsMasked() {
  Label masked;
  mov(pointer, blocks);
  shl(pointer, 5);
  add(pointer, firstKey);
  mov(local(IsMasked), 1);
  cmp(pointer, local(Keys));
  jg(masked);
  if (hasWindow()) {
    const int window = int(shape.window);
    mov(temp, local(GroupPosition));
    lea(left, ptr[temp + window + 1]);
    cmp(pointer, left);
    jg(masked);
    add(temp, local(GroupQueries));
    sub(temp, window + 1);
    cmp(firstKey, temp);
    jl(masked);
  }
  mov(local(IsMasked), 0);
  L(masked);
}

void AttentionDots::emitTile() {
  Label later, unmasked, done, notLast;
  emitCases(tileRows, 1, kRows, [&](int rows) { call(scores[rows]); });
  cmp(local(IsFirst), 0);
  je(later);
  emitFirstState();
  L(later);
  cmp(local(IsMasked), 0);
  je(unmasked);
  emitCases(blocks, 1, kChunkBlocks,
            [&](int count) { call(probabilities[{count, true}]); });
  jmp(done);
  L(unmasked);
  emitCases(blocks, 1, kChunkBlocks,
            [&](int count) { call(probabilities[{count, false}]); });
  L(done);
  emitCases(tileRows, 1, kRows, [&](int rows) { call(values[rows]); });
  cmp(local(IsLast), 0);
  je(notLast);
  emitOut();
  L(notLast);
}

/// Maxima and sums; values start when they are added to.
void AttentionDots::emitFirstState() {
  broadcastConstant(vec(0), std::numeric_limits<float>::lowest());
  vmovups(ptr[state + maximaOffset], vec(0));
  clear(vec(0));
  for (int row = 0; row < kRows; ++row)
    vmovups(vectorAt(state + sumsOffset, row), vec(0));
}

void AttentionDots::emitScores(int rows) {
  Label nextBlock;
  lea(pointer, ptr[workspace + kScoresOffset]);
  mov(b, kChunk);
  mov(left, blocks);
  L(nextBlock);
  mov(a, tileQ);
  mov(stepsLeft, steps);
  clearSums(rows);
  emitDots(rows, {shape.ldq * 2, steps * kHalfBytes, kHalfBytes}, [] {});
  for (int row = 0; row < rows; ++row)
    for (int half = 0; half < 2; ++half)
      vmovups(vectorAt(pointer + size_t(row * kScoreRowBytes), half),
              sum(row, half));
  add(pointer, 2 * kVectorBytes);
  add(b, int(steps * kHalfBytes));
  dec(left);
  jnz(nextBlock);
}

/// Makes probabilities and the factor of each row of scores, and adds them to
/// its sums.
void AttentionDots::emitProbabilities(int blocks, bool masked) {
  const int vectors = 2 * blocks;
  Label nextRow;
  broadcastConstant(unit, 1 / kBf16ScoreUnit);
  broadcastConstant(cubic, kExp2OfBf16[3]);
  vmovups(order, ptr[rip + wordOrder]);
  lea(scoreRow, ptr[workspace + kScoresOffset]);
  lea(wordRow, ptr[workspace + kWordsOffset]);
  lea(sumRow, ptr[state + sumsOffset]);
  xor_(number, number);
  mov(left, tileRows);
  L(nextRow);
  emitScoresIn(vectors, masked);
  const Zmm old(kScore + vectors);
  const Address maximumAt = dword[state + number * 4 + maximaOffset];
  vbroadcastss(old, maximumAt);
  emitMaximum(vectors);
  vmovss(maximumAt, Xmm(maximum.getIdx()));
  vmulps(maximum, maximum, unit);
  emitPowers(vectors + 1);
  vmovss(dword[workspace + number * 4 + kFactorsOffset], Xmm(kScore + vectors));

  // Block by block, so that blocks that are masked change no bit.
  const Zmm sums(kRest);
  vmulps(sums, old, ptr[sumRow]);
  for (int block = 0; block < blocks; ++block) {
    const Zmm low(kScore + 2 * block), high(kScore + 2 * block + 1);
    const Zmm words(kPower + block);
    vcvtne2ps2bf16(words, high, low);
    vpermq(words, order, words);
    vmovups(vectorAt(wordRow, block), words);
    vaddps(low, low, high);
  }
  for (int block = 0; block < blocks; ++block)
    vaddps(sums, sums, Zmm(kScore + 2 * block));
  vmovups(ptr[sumRow], sums);

  add(scoreRow, int(kScoreRowBytes));
  add(wordRow, int(kWordRowBytes));
  add(sumRow, kVectorBytes);
  inc(number);
  dec(left);
  jnz(nextRow);
}

/// Loads the scores of a row; those of keys that it does not see are -infinity.
void AttentionDots::emitScoresIn(int vectors, bool masked) {
  if (!masked) {
    for (int i = 0; i < vectors; ++i)
      vmovups(Zmm(kScore + i), vectorAt(scoreRow, i));
    return;
  }
  // First and last key, from the first one of the chunk on.
  const Zmm none(kRest), first(kRest + 1), last(kRest + 2);
  const uint8_t lessOrEqual = 2;
  broadcastConstant(none, -std::numeric_limits<float>::infinity());
  mov(other, local(Keys));
  dec(other);
  if (hasWindow()) {
    mov(temp, local(TilePosition));
    add(temp, number);
    add(temp, int(shape.window));
    cmp(other, temp);
    cmovg(other, temp);
    sub(temp, int(2 * shape.window));
    sub(temp, firstKey);
    vpbroadcastd(first, temp.cvt32());
  }
  sub(other, firstKey);
  vpbroadcastd(last, other.cvt32());
  lea(temp, ptr[rip + keyNumbers]);
  for (int i = 0; i < vectors; ++i) {
    const uint8_t notLess = 5;
    vpcmpd(k1, last, vectorAt(temp, i), notLess);
    if (hasWindow())
      vpcmpd(k1 | k1, first, vectorAt(temp, i), lessOrEqual);
    vblendmps(Zmm(kScore + i) | k1, none, vectorAt(scoreRow, i));
  }
}

/// Sets all lanes of `maximum` to that of the row and the old one.
void AttentionDots::emitMaximum(int vectors) {
  const Zmm turned(kRest);
  vmaxps(maximum, Zmm(kScore), Zmm(kScore + 1));
  for (int i = 2; i <= vectors; ++i)
    vmaxps(maximum, maximum, Zmm(kScore + i));
  emitOfAllLanes(maximum, turned, [&] { vmaxps(maximum, maximum, turned); });
}

/// Makes all lanes of a register what `join`, which takes `turned` into it,
/// makes of all of them, in a fixed order.
void AttentionDots::emitOfAllLanes(const Zmm &value, const Zmm &turned,
                                   const std::function<void()> &join) {
  for (uint8_t lanes : {0x4e, 0xb1}) {
    vshuff32x4(turned, value, value, lanes);
    join();
  }
  for (uint8_t lanes : {0x4e, 0xb1}) {
    vpermilps(turned, value, lanes);
    join();
  }
}

/// 2^(x / 128 - maximum) of the first `count` registers.
void AttentionDots::emitPowers(int count) {
  const auto forEach = [&](const auto &body) {
    for (int i = 0; i < count; ++i)
      body(Zmm(kScore + i), Zmm(kRest + i), Zmm(kPower + i));
  };
  const uint8_t toNearestOrEven = 8; // raising no exception
  forEach([&](auto x, auto, auto) { vfmsub213ps(x, unit, maximum); });
  forEach([&](auto x, auto f, auto) { vreduceps(f, x, toNearestOrEven); });
  forEach([&](auto x, auto f, auto) { vsubps(x, x, f); });
  forEach([&](auto, auto f, auto p) {
    vmovaps(p, f);
    vfmadd213ps(p, cubic, constant(kExp2OfBf16[2]));
  });
  for (int power = 1; power >= 0; --power)
    forEach([&](auto, auto f, auto p) {
      vfmadd213ps(p, f, constant(kExp2OfBf16[power]));
    });
  forEach([&](auto x, auto, auto p) { vscalefps(x, p, x); });
}

/// o = o * factor + p v, 32 dims at a time.
void AttentionDots::emitValues(int rows) {
  const Reg64 o = left, v = pointer, stepsOfDims = temp;
  Label nextDims, first, ready;
  mov(o, state);
  mov(v, vChunk);
  mov(stepsOfDims, steps);
  L(nextDims);
  cmp(local(IsFirst), 0);
  jne(first);
  for (int row = 0; row < rows; ++row) {
    const Zmm factor(kTemps + row % 4);
    vbroadcastss(factor, dword[workspace + kFactorsOffset + size_t(row) * 4]);
    for (int half = 0; half < 2; ++half)
      vmulps(sum(row, half), factor,
             vectorAt(o + size_t(row) * size_t(valueRowBytes), half));
  }
  jmp(ready);
  L(first);
  clearSums(rows);
  L(ready);
  lea(a, ptr[workspace + kWordsOffset]);
  mov(b, v);
  mov(stepsLeft, blocks);
  emitDots(rows, {kWordRowBytes, kHalfBytes, blockBytes()}, [] {});
  for (int row = 0; row < rows; ++row)
    for (int half = 0; half < 2; ++half)
      vmovups(vectorAt(o + size_t(row) * size_t(valueRowBytes), half),
              sum(row, half));
  add(o, 2 * kVectorBytes);
  add(v, int(2 * kHalfBytes));
  dec(stepsOfDims);
  jnz(nextDims);
}

/// out = o / sum. The largest score adds 1 to a sum; only that of a query that
/// sees no key is less, 0, and so are its values.
void AttentionDots::emitOut() {
  const int headSize = int(shape.headSize);
  const Reg64 o = a, sums = b, place = pointer;
  const Zmm factor = zmm0, turned = zmm1;
  Label nextRow;
  if (headSize % kLanes != 0) {
    mov(temp.cvt32(), (1 << headSize % kLanes) - 1);
    kmovw(k2, temp.cvt32());
  }
  mov(o, state);
  lea(sums, ptr[state + sumsOffset]);
  mov(place, local(TileOut));
  mov(left, tileRows);
  L(nextRow);
  vmovups(factor, ptr[sums]);
  emitOfAllLanes(factor, turned, [&] { vaddps(factor, factor, turned); });
  broadcastConstant(turned, 1.0f);
  vmaxps(factor, turned, factor); // keeps a NaN
  vdivps(factor, turned, factor);
  for (int first = 0; first < headSize; first += kLanes) {
    const bool whole = first + kLanes <= headSize;
    const Zmm value(2 + first / kLanes % 4), term(6 + first / kLanes % 4);
    const RegExp at = place + size_t(first) * size_t(outElementBytes);
    vmulps(value, factor, vectorAt(o, first / kLanes));
    if (shape.outPlanes == 0)
      vmovups(whole ? ptr[at] : ptr[at] | k2, value);
    else
      storePlanes(at, 2 * shape.outPlaneStride, shape.outPlanes, value, term,
                  whole ? k0 : k2);
  }
  add(o, valueRowBytes);
  add(sums, kVectorBytes);
  add(place, int(outRowBytes()));
  dec(left);
  jnz(nextRow);
}

void AttentionDots::emitTables() {
  align(64);
  L(keyNumbers);
  for (int key = 0; key < kChunkKeys; ++key)
    dd(uint32_t(key));
  // Four keys of each half of a block in turns, as probabilityKey() says.
  L(wordOrder);
  for (int i = 0; i < 8; ++i)
    dq(uint64_t(probabilityKey(Arithmetic::Bf16, int64_t(4) * i) / 4));
  L(control);
  dd(kFlushingControl);
}
