//===- AttentionRounds.cpp - products and softmax on tiles ----------------===//

#include "codegen/Kernels/AttentionRounds.h"
#include "codegen/Kernels/Polynomials.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>
#include <limits>

using namespace encast;
using namespace Xbyak;

static constexpr int kScoreBytes = 4 * 1024; // of a block of keys
static constexpr int kKeys = int(kTileKeys);

// A round fetches as many keys of the next span into the L2 as one of so many
// tiles must, for all of them together to fetch the span. With a window, half
// as many as it has itself: enough for 128 queries or more that see 64 keys to
// each side.
static constexpr int kFetchingTiles = 8, kFetchingRounds = 2;

// Products between the store of a block of scores and its first reader.
static constexpr size_t kLag = 4;

static constexpr int kWordOfOne = 127 * 128; // bf16
// In place of scores that are masked; 2^score is 0 whatever the offset.
static constexpr float kMasked = -1e30f;

// Sums of probabilities up to this, and queries whose largest score is at most
// that, need no other offset. The score is more than any such sum allows, so
// whether other queries of the tile fail does not matter.
static constexpr float kLargestSum = 0x1p56f;
static constexpr float kLargestScore = 60;

// 1.5 * 2^23: adding it rounds to the nearest integer, which then stands in the
// low bits of the sum.
static constexpr float kRoundToInteger = 0x1.8p+23f;
static constexpr int kRoundToIntegerBits = 0x4b400000;

namespace {
/// Registers of vectors while rounds run.
enum Register {
  RowSum0 = 0, // of 16 queries; Bf16 only
  Corrections = 16,
  Ones = 17,
  WordTemps = 18, // 6 of them
  RoundWord = 28,
  WordBias = 29,
  Signs = 30, // of all words

  Coefficients = 0, // of exp2, not Bf16
  Round = 6,
  HighWord = 7,
  HalfWord = 8,
  PowerTemps = 9, // 12 of them

  MaskTemps = 18 // 6 of them
};
} // namespace

/// Offsets in the tables behind the code.
static constexpr int kCorrectionsAt = 0, kCountAt = 64, kControlAt = 128;
// Masks of the keys of a block up to key i, and from key i on, for i from
// kFirstMask to kLastMask.
static constexpr int kFirstMask = -33, kLastMask = 63;
static constexpr int kMasks = kLastMask - kFirstMask + 1;
static constexpr int kUpToAt = kControlAt + 4 - 4 * kFirstMask;
static constexpr int kFromAt = kUpToAt + 4 * kMasks;

static int align64(int bytes) { return (bytes + 63) / 64 * 64; }

AttentionRounds::AttentionRounds(const KernelRow &row,
                                 const AttentionShape &shape)
    : VectorAssembler(row.vectorBytes), shape(shape),
      planes(activationPlanes(shape.arithmetic)),
      steps(int(planeStride(shape.headSize) / 32)),
      blockBytes(int(kTileKeys * packedRowBytes(shape))),
      valueBytes(2 * steps * kPairBytes),
      roundBlocks(shape.arithmetic == Arithmetic::Bf16 ? 4 : 2),
      products(planeProducts(shape.arithmetic)),
      fetchBytes(roundBlocks * blockBytes /
                 (shape.window < 0 ? kFetchingTiles : kFetchingRounds)),
      probabilityBytes(roundBlocks * planes * kPairBytes),
      probabilitiesOffset(roundBlocks * kScoreBytes),
      valuesOffset(probabilitiesOffset + 2 * probabilityBytes),
      sumsOffset(valuesOffset + valueBytes),
      queriesOffset(sumsOffset + kPairBytes),
      rowSumsOffset(queriesOffset + steps * planes * kPairBytes),
      rowOffsetsOffset(rowSumsOffset + kRowFloatsBytes),
      factorsOffset(rowOffsetsOffset + kRowFloatsBytes),
      variablesOffset(factorsOffset + kRowFloatsBytes),
      scratchBytes(variablesOffset + align64(8 * VariableCount)) {}

// Scores of a round that is not full lie at the end, where the next round's
// scores do not overwrite them too early.
RegExp AttentionRounds::scoresAt(int scores, int half, int tile) const {
  return scratch +
         size_t(scores * kScoreBytes + tile * kPairBytes + half * kTileBytes);
}

RegExp AttentionRounds::probabilitiesAt(const Reg64 &round, int block, int half,
                                        int plane) const {
  return round +
         size_t((block * planes + plane) * kPairBytes + half * kTileBytes);
}

RegExp AttentionRounds::valuesAt(int half, int tile) const {
  return scratch + size_t(valuesOffset + tile * kPairBytes + half * kTileBytes);
}

RegExp AttentionRounds::queriesAt(int half, int step, int plane) const {
  return scratch + size_t(queriesOffset + (plane * steps + step) * kPairBytes +
                          half * kTileBytes);
}

Address AttentionRounds::variable(int index) {
  return qword[scratch + size_t(variablesOffset + 8 * index)];
}

Address AttentionRounds::broadcastVariable(int index) {
  return ptr_b[scratch + size_t(variablesOffset + 8 * index)];
}

Address AttentionRounds::floatVariable(int index) {
  return dword[scratch + size_t(variablesOffset + 8 * index)];
}

void AttentionRounds::loadControl() {
  ldmxcsr(dword[rip + tables + kControlAt]);
}

void AttentionRounds::emitSubroutines() {
  emitRun(run, false);
  emitRun(runWithOffsets, true);
  emitMaxima();
  emitMask();
  emitTables();
}

/// Jumps if the sum of a query is out of its limits, or a word too large.
void AttentionRounds::emitCheck(Label &failed) {
  const uint8_t atMost = 2, atLeast = 13; // ordered
  const Opmask within[2] = {k2, k3};
  for (int half = 0; half < 2; ++half) {
    vmovups(vec(half), vectorAt(rowSums(), half));
    const Opmask notAbove = within[half];
    vcmpps(notAbove, vec(half), constant(kLargestSum), atMost);
    vcmpps(within[half] | notAbove, vec(half), broadcastVariable(SmallestSum),
           atLeast);
  }
  kunpckwd(k2, k3, k2);
  kmovd(temp.cvt32(), k2);
  not_(temp.cvt32());
  test(floatVariable(TileMask), temp.cvt32());
  jnz(failed);
  if (!isBf16())
    return;
  vpmovw2m(k2, Zmm(Signs));
  kortestd(k2, k2);
  jnz(failed);
}

void AttentionRounds::emitFirstBlock() {
  mov(key, variable(FirstKey));
  mov(blocksLeft, variable(Blocks));
  imul(kBlock, key, int(packedRowBytes(shape)));
  mov(vBlock, kBlock);
  add(kBlock, variable(PackedK));
  add(vBlock, variable(PackedV));
  mov(fetchK, variable(FetchK));
  mov(fetchV, variable(FetchV));
}

/// Subroutine: values and sums of the tile over its blocks of keys.
void AttentionRounds::emitRun(Label &label, bool offsets) {
  align(64);
  L(label);
  emitFirstBlock();
  lea(freshRound, ptr[scratch + size_t(probabilitiesOffset)]);
  lea(readyRound,
      ptr[scratch + size_t(probabilitiesOffset + probabilityBytes)]);
  emitRunConstants(offsets);

  // The round that may have fewer blocks is the first one.
  std::vector<Label> firsts(roundBlocks);
  Label nextRound, lastRound, done;
  lea(temp, ptr[blocksLeft - 1]);
  and_(temp, roundBlocks - 1);
  for (int blocks = 1; blocks < roundBlocks; ++blocks) {
    cmp(temp, blocks - 1);
    je(firsts[blocks - 1]);
  }
  for (int blocks = roundBlocks; blocks > 0; --blocks) {
    Label more;
    L(firsts[blocks - 1]);
    emitRound(blocks, 0, true, offsets);
    sub(blocksLeft, blocks);
    jnz(more);
    emitRound(0, blocks, true, offsets);
    jmp(done);
    L(more);
    emitRound(roundBlocks, blocks, true, offsets);
    sub(blocksLeft, roundBlocks);
    jz(lastRound);
    if (blocks > 1)
      jmp(nextRound);
  }
  align(64);
  L(nextRound);
  emitRound(roundBlocks, roundBlocks, false, offsets);
  sub(blocksLeft, roundBlocks);
  jnz(nextRound);
  L(lastRound);
  emitRound(0, roundBlocks, false, offsets);
  L(done);
  mov(variable(FetchK), fetchK);
  mov(variable(FetchV), fetchV);
  ret();
}

void AttentionRounds::emitRunConstants(bool offsets) {
  lea(masks, ptr[rip + tables]);
  if (isBf16()) {
    vmovdqa64(Zmm(Corrections), ptr[masks + kCorrectionsAt]);
    mov(temp.cvt32(), 0x3f803f80);
    vpbroadcastd(Zmm(Ones), temp.cvt32());
    broadcastConstant(vec(RoundWord), kRoundToInteger);
    mov(temp.cvt32(), offsets ? -kWordOfOne : kRoundToIntegerBits - kWordOfOne);
    vpbroadcastd(Zmm(WordBias), temp.cvt32());
    clear(vec(Signs));
    mov(temp, 0x5555555555555555);
    kmovq(k1, temp);
  } else {
    for (int i = 0; i < int(std::size(kExp2)); ++i)
      broadcastConstant(vec(Coefficients + i), kExp2[i]);
    broadcastConstant(vec(Round), kRoundToInteger);
    mov(temp.cvt32(), 0xffff0000);
    vpbroadcastd(Zmm(HighWord), temp.cvt32());
    mov(temp.cvt32(), 0x8000);
    vpbroadcastd(Zmm(HalfWord), temp.cvt32());
  }
}

/// Scores of `fresh` blocks, and values of the `ready` blocks of the round
/// before: the first ones of the run, or more.
void AttentionRounds::emitRound(int fresh, int ready, bool firstValues,
                                bool offsets) {
  xchg(freshRound, readyRound);
  Steps round;
  round.stored.resize(roundBlocks);
  for (int i = 0; i < 4; ++i) {
    pending[i].reset();
    if (ready > 0 && !firstValues)
      pending[i] = Sum{valuesAt(i / 2, 2 * (steps - 1) + i % 2), {}};
  }

  const bool firstRound = ready == 0;
  std::vector<Unit> units = unitsOf(fresh, firstRound, false);
  units.resize(units.size() - unitsLeft(fresh, firstRound));
  if (ready > 0) {
    round.left = unitsOf(ready, firstValues, true);
    round.left.erase(round.left.begin(),
                     round.left.end() -
                         ptrdiff_t(unitsLeft(ready, firstValues)));
  }

  appendScores(round, fresh);
  appendValues(round, ready, firstValues);
  if (fresh == 0 || ready == 0)
    appendStoresLeft(round);
  // Windows have few rounds, and spans enough of them.
  const bool fetches =
      fresh > 0 && ready > 0 && (shape.window >= 0 || !firstValues);
  if (fetches)
    addFetches(round);

  if (firstRound)
    appendFinishedRows(round);
  for (const Unit &unit : round.left)
    appendUnit(round, unit, offsets, 0);
  for (const Unit &unit : units)
    appendUnit(round, unit, offsets,
               std::min(round.stored[unit.scores] + kLag, round.tiles.size()));
  if (fresh == 0)
    appendRowSums(round);
  emitMerged(round);

  if (fresh > 0) {
    add(kBlock, fresh * blockBytes);
    add(key, fresh * kKeys);
  }
  if (ready > 0)
    add(vBlock, ready * blockBytes);
  if (fetches)
    emitFetched();
}

/// The rows of the tile before.
void AttentionRounds::appendFinishedRows(Steps &round) {
  const auto append = [&](Emit emit) {
    round.vectors.push_back({std::move(emit), 0, false});
  };
  append([this] {
    mov(place, variable(FinishedOut));
    lea(number, ptr[valuesAt(0, 0)]);
  });
  for (int row = 0; row < kQueries; ++row)
    append([this] { call(finishedRow); });
  append([this] { mov(variable(FinishedEnd), 0); });
}

/// Lets the products of a round fetch a share of what comes next.
void AttentionRounds::addFetches(Steps &round) {
  const size_t lines = size_t(fetchBytes / kTileRowBytes) * 2;
  size_t line = 0;
  for (size_t i = 0; i < round.tiles.size(); ++i)
    for (; line < lines * (i + 1) / round.tiles.size(); ++line)
      round.tiles[i].emit = [this, line, emit = round.tiles[i].emit] {
        emit();
        const Reg64 &base = line % 2 == 0 ? fetchK : fetchV;
        prefetcht1(ptr[base + line / 2 * kTileRowBytes]);
      };
}

/// Behind the end of it, goes on with something that is there anyway.
void AttentionRounds::emitFetched() {
  Label more;
  add(fetchK, fetchBytes);
  add(fetchV, fetchBytes);
  cmp(fetchK, variable(FetchEnd));
  jb(more);
  mov(variable(FetchEnd), 0);
  mov(fetchK, scratch);
  mov(fetchV, scratch);
  L(more);
}

/// Emits both lists so that they advance alike, as far as one need not wait for
/// the other.
void AttentionRounds::emitMerged(const Steps &round) {
  const size_t tiles = round.tiles.size(), vectors = round.vectors.size();
  size_t tile = 0, vector = 0, units = 0;
  while (tile < tiles || vector < vectors) {
    const bool tileCan = tile < tiles && round.tiles[tile].units <= units;
    const bool vectorCan =
        vector < vectors && round.vectors[vector].tiles <= tile;
    assert((tileCan || vectorCan) && "steps wait for each other");
    if (tileCan && (!vectorCan || tile * vectors <= vector * tiles)) {
      round.tiles[tile++].emit();
    } else {
      units += round.vectors[vector].endsUnit;
      round.vectors[vector++].emit();
    }
  }
}

/// Products of queries and keys.
void AttentionRounds::appendScores(Steps &round, int blocks) {
  const auto query = [&](int half, int step, int plane) -> Operand {
    return {(plane * steps + step) * 2 + half, queriesAt(half, step, plane),
            false, 0};
  };
  const auto keys = [&](int block, int tile, int step, int plane) -> Operand {
    const int index = (tile * steps + step) * planes + plane;
    return {block * blockBytes + index,
            kBlock + size_t(block * blockBytes + index * kTileBytes), true, 0};
  };
  const auto sumOf = [&](int block, int half, int tile) -> Sum {
    const int scores = roundBlocks - blocks + block;
    return {scoresAt(scores, half, tile), {}, scores};
  };
  for (int block = 0; block < blocks; ++block) {
    if (queriesStay()) {
      for (int tile = 0; tile < 2; ++tile) {
        std::vector<Product> list;
        for (int step = 0; step < steps; ++step)
          for (int half = 0; half < 2; ++half)
            list.push_back(
                {half, query(half, step, 0), keys(block, tile, step, 0)});
        const Sum sums[4] = {sumOf(block, 0, tile), sumOf(block, 1, tile)};
        appendProducts(round, list, sums, {4, 5, 6, 7}, {2});
      }
      continue;
    }
    std::vector<Product> list;
    int turn = 0;
    for (int step = 0; step < steps; ++step)
      for (const PlaneProduct &product : products) {
        // From one product to the next the last tiles are the first ones.
        for (int i = 0; i < 4; ++i) {
          const int half = (i / 2 + turn) % 2, tile = (i % 2 + half) % 2;
          list.push_back({2 * half + tile,
                          query(half, step, product.activation),
                          keys(block, tile, step, product.weight)});
        }
        ++turn;
      }
    const Sum sums[4] = {sumOf(block, 0, 0), sumOf(block, 0, 1),
                         sumOf(block, 1, 0), sumOf(block, 1, 1)};
    appendProducts(round, list, sums, {4}, {6, 7});
  }
}

/// Products of probabilities and values, 32 dims at a time.
void AttentionRounds::appendValues(Steps &round, int blocks, bool first) {
  const auto unitsBefore = [&](int half, int block) {
    for (size_t i = round.left.size(); i > 0; --i)
      if (round.left[i - 1].half == half && round.left[i - 1].block == block)
        return i;
    return size_t(0);
  };
  for (int step = 0; blocks > 0 && step < steps; ++step) {
    std::vector<Product> list;
    int turn = 0;
    for (int block = 0; block < blocks; ++block)
      for (const PlaneProduct &product : products) {
        for (int i = 0; i < 4; ++i) {
          const int half = (i / 2 + turn) % 2, tile = (i % 2 + half) % 2;
          const int p = (block * planes + product.activation) * 2 + half;
          const int v = (step * planes + product.weight) * 2 + tile;
          list.push_back(
              {2 * half + tile,
               {p, probabilitiesAt(readyRound, block, half, product.activation),
                false, unitsBefore(half, block)},
               {block * blockBytes + v,
                vBlock + size_t(block * blockBytes + v * kTileBytes), true,
                0}});
        }
        ++turn;
      }
    Sum sums[4];
    for (int i = 0; i < 4; ++i) {
      sums[i].target = valuesAt(i / 2, 2 * step + i % 2);
      if (!first)
        sums[i].start = sums[i].target;
    }
    appendProducts(round, list, sums, {4}, {6, 7});
  }
}

/// Appends a step for each product, with loads of the operands that are not in
/// a tile, and before the first product of a sum the store of the one that was
/// in its tile. Of the operands in aTiles and bTiles the one that is needed
/// last makes room.
void AttentionRounds::appendProducts(Steps &round,
                                     const std::vector<Product> &products,
                                     const Sum (&sums)[4],
                                     const std::vector<int> &aTiles,
                                     const std::vector<int> &bTiles) {
  struct Side {
    std::vector<int> tiles;
    std::vector<int> held; // ids, -1 if nothing
  };
  const auto sideOf = [](const std::vector<int> &tiles) -> Side {
    return {tiles, std::vector<int>(tiles.size(), -1)};
  };
  Side aSide = sideOf(aTiles), bSide = sideOf(bTiles);
  // Operands may take the places of sums that wait.
  for (const std::vector<int> *tiles : {&aTiles, &bTiles})
    for (int tile : *tiles)
      if (tile < 4 && pending[tile])
        appendStore(round, tile);
  bool begun[4] = {};
  for (size_t i = 0; i < products.size(); ++i) {
    std::vector<Emit> loads;
    const auto tileOf = [&](Side &side, const Operand Product::*operand) {
      const Operand &wanted = products[i].*operand;
      size_t best = 0, bestUse = 0;
      for (size_t t = 0; t < side.tiles.size(); ++t) {
        if (side.held[t] == wanted.id)
          return side.tiles[t];
        size_t use = i;
        while (side.held[t] >= 0 && use < products.size() &&
               (products[use].*operand).id != side.held[t])
          ++use;
        if (side.held[t] < 0)
          use = products.size() + 1;
        if (use > bestUse) {
          best = t;
          bestUse = use;
        }
      }
      side.held[best] = wanted.id;
      const Tmm tile(side.tiles[best]);
      loads.push_back([this, tile, wanted] {
        const Address at = ptr[wanted.at + tileRowBytes];
        wanted.streamed ? tileloaddt1(tile, at) : tileloadd(tile, at);
      });
      return side.tiles[best];
    };
    const int b = tileOf(bSide, &Product::b), a = tileOf(aSide, &Product::a);
    const Product &product = products[i];
    const int sum = product.sum;
    const bool begins = !begun[sum];
    begun[sum] = true;
    std::optional<Sum> store;
    size_t units = std::max(product.a.units, product.b.units);
    if (begins) {
      store = pending[sum];
      pending[sum] = sums[sum];
      if (store)
        units = std::max(units, noteStore(round, *store));
    }
    const std::optional<RegExp> start = sums[sum].start;
    round.tiles.push_back({[=] {
                             for (const Emit &load : loads)
                               load();
                             if (store)
                               tilestored(ptr[store->target + tileRowBytes],
                                          Tmm(sum));
                             if (begins && start)
                               tileloadd(Tmm(sum), ptr[*start + tileRowBytes]);
                             else if (begins)
                               tilezero(Tmm(sum));
                             tdpbf16ps(Tmm(sum), Tmm(a), Tmm(b));
                           },
                           units});
  }
}

/// Takes down that the next step stores a sum. Returns the units that must have
/// read the scores in its place before.
size_t AttentionRounds::noteStore(Steps &round, const Sum &sum) {
  if (sum.scores < 0)
    return 0;
  round.stored[sum.scores] = round.tiles.size() + 1;
  for (size_t i = round.left.size(); i > 0; --i)
    if (round.left[i - 1].scores == sum.scores)
      return i;
  return 0;
}

/// Appends the store of a sum that waits in its tile.
void AttentionRounds::appendStore(Steps &round, int sum) {
  const RegExp target = pending[sum]->target;
  const size_t units = noteStore(round, *pending[sum]);
  pending[sum].reset();
  round.tiles.push_back(
      {[=] { tilestored(ptr[target + tileRowBytes], Tmm(sum)); }, units});
}

void AttentionRounds::appendStoresLeft(Steps &round) {
  for (int sum = 0; sum < 4; ++sum)
    if (pending[sum])
      appendStore(round, sum);
}

/// The units of a round in their order. Bf16 keeps the sums of 16 queries in
/// registers, except in the first round and in windows, where scores are few
/// and those that are there come first.
std::vector<AttentionRounds::Unit>
AttentionRounds::unitsOf(int blocks, bool firstRound, bool ready) const {
  const bool byHalf = isBf16() && !firstRound && shape.window < 0;
  std::vector<Unit> units;
  for (int i = 0; i < 2 * blocks; ++i) {
    const int half = byHalf ? i / blocks : i % 2;
    const int block = byHalf ? i % blocks : i / 2;
    units.push_back({half, block, roundBlocks - blocks + block,
                     kKeys * (ready ? block - blocks : block),
                     ready ? readyRound : freshRound, half == 0,
                     firstRound && block == 0, !byHalf || block == 0,
                     !byHalf || block == blocks - 1});
  }
  return units;
}

/// Units that a round leaves to the next one, the last ones.
size_t AttentionRounds::unitsLeft(int blocks, bool firstRound) const {
  if (blocks == 0)
    return 0;
  return size_t(isBf16() && firstRound && blocks > 1 ? 4 : 2);
}

void AttentionRounds::appendUnit(Steps &round, const Unit &unit, bool offsets,
                                 size_t tiles) {
  const auto append = [&](Emit emit, bool endsUnit = false) {
    round.vectors.push_back({std::move(emit), tiles, endsUnit});
  };
  if (shape.window >= 0)
    append([=] { emitRowMasks(unit); });
  else if (unit.firstOfBlock)
    append([=] { emitMaskCheck(unit); });
  if (isBf16() && unit.loads)
    append([=] { emitSums(unit, true); });
  for (int row = 0; row < kTileRows; ++row)
    append(
        [=] {
          if (shape.window >= 0)
            emitRowMask(unit, row);
          if (isBf16())
            emitProbabilityWords(unit, row, offsets);
          else
            emitProbabilityPlanes(unit, row, offsets);
        },
        row == kTileRows - 1 && !(isBf16() && unit.stores));
  if (isBf16() && unit.stores)
    append([=] { emitSums(unit, false); }, true);
}

/// Moves the sums of 16 queries from or to the workspace.
void AttentionRounds::emitSums(const Unit &unit, bool load) {
  for (int row = 0; row < kTileRows; ++row) {
    const Vec sum = vec(RowSum0 + row);
    const Address at =
        vectorAt(scratch + size_t(sumsOffset + unit.half * kTileBytes), row);
    if (load && unit.begins)
      clear(sum);
    else if (load)
      vmovaps(sum, at);
    else
      vmovaps(at, sum);
  }
}

/// The sum of each query, from those of its lanes.
void AttentionRounds::appendRowSums(Steps &round) {
  for (int half = 0; half < 2; ++half)
    round.vectors.push_back({[=] {
                               emitReducedRows(half, sumsOffset, false);
                               vmovups(vectorAt(rowSums(), half), vec(0));
                             },
                             0, false});
}

/// x = the scores of a query, with its offset if there are any.
void AttentionRounds::emitScoresIn(const Unit &unit, int row, bool offsets,
                                   const Vec (&x)[2], const Vec &temp) {
  if (offsets)
    vbroadcastss(
        temp, dword[rowOffsets() + size_t(4 * (unit.half * kTileRows + row))]);
  for (int tile = 0; tile < 2; ++tile) {
    const Address at = vectorAt(scoresAt(unit.scores, unit.half, tile), row);
    if (offsets)
      vaddps(x[tile], temp, at);
    else
      vmovaps(x[tile], at);
  }
}

/// Scores become bf16 words as integers, where the bits below the exponent are
/// f of 1 + f instead of 2^f: a table of the difference by the upper six of
/// their seven bits corrects that. Words below zero become zero. Those that are
/// too large have a sign or are NaN; so have scores below -2^23 or so, where
/// rounding by an addition fails. With offsets such scores count.
void AttentionRounds::emitProbabilityWords(const Unit &unit, int row,
                                           bool offsets) {
  const int temps = WordTemps + 3 * (row % 2);
  const Zmm words(temps), correction(temps + 1);
  const Vec scores[2] = {words, correction};
  if (offsets) {
    emitScoresIn(unit, row, true, scores, vec(temps + 2));
    for (const Vec &score : scores)
      vcvtps2dq(score, score);
  } else {
    for (int tile = 0; tile < 2; ++tile)
      vaddps(scores[tile], vec(RoundWord),
             vectorAt(scoresAt(unit.scores, unit.half, tile), row));
  }
  for (const Vec &score : scores)
    vpsubd(score, score, vec(WordBias));
  vpackusdw(words, words, correction);
  vpsrlw(correction, words, 1);
  vpermb(correction | k1 | T_z, correction, Zmm(Corrections));
  if (shape.window >= 0)
    vpsubw(words | k2 | T_z, words, correction);
  else
    vpsubw(words, words, correction);
  vpord(Zmm(Signs), Zmm(Signs), words);
  vmovdqa64(
      vectorAt(probabilitiesAt(unit.target, unit.block, unit.half, 0), row),
      words);
  vdpbf16ps(Zmm(RowSum0 + row), words, Zmm(Ones));
}

/// p = 2^x; n is left with the integer nearest to x. Too small an x gives 0.
void AttentionRounds::emitPowersOf2(const Vec (&x)[2], const Vec (&n)[2],
                                    const Vec (&p)[2]) {
  const int degree = int(std::size(kExp2)) - 1;
  const auto coefficient = [&](int i) { return vec(Coefficients + i); };
  for (int i = 0; i < 2; ++i)
    vaddps(n[i], x[i], vec(Round));
  for (int i = 0; i < 2; ++i)
    vsubps(n[i], n[i], vec(Round));
  for (int i = 0; i < 2; ++i)
    vsubps(x[i], x[i], n[i]);
  for (int i = 0; i < 2; ++i)
    vmovaps(p[i], coefficient(degree));
  for (int power = degree - 1; power >= 0; --power)
    for (int i = 0; i < 2; ++i)
      vfmadd213ps(p[i], x[i], coefficient(power));
  const Opmask seen[2] = {k2, k3};
  for (int i = 0; i < 2; ++i)
    if (shape.window >= 0)
      vscalefps(p[i] | seen[i] | T_z, p[i], n[i]);
    else
      vscalefps(p[i], p[i], n[i]);
}

/// Planes of probabilities are cut off, not rounded, but for the last one of
/// two; three of them are exact.
void AttentionRounds::emitProbabilityPlanes(const Unit &unit, int row,
                                            bool offsets) {
  const int temps = PowerTemps + 6 * (row % 2);
  const Vec x[2] = {vec(temps), vec(temps + 1)};
  const Vec n[2] = {vec(temps + 2), vec(temps + 3)};
  const Vec rest[2] = {vec(temps + 4), vec(temps + 5)};
  emitScoresIn(unit, row, offsets, x, n[0]);
  emitPowersOf2(x, n, rest);
  const Address sum =
      vectorAt(scratch + size_t(sumsOffset + unit.half * kTileBytes), row);
  if (unit.begins) {
    vaddps(n[0], rest[0], rest[1]);
  } else {
    vmovaps(n[0], sum);
    vaddps(n[0], n[0], rest[0]);
    vaddps(n[0], n[0], rest[1]);
  }
  vmovaps(sum, n[0]);
  for (int plane = 0; plane < planes; ++plane) {
    const bool last = plane == planes - 1;
    if (last && planes == 2)
      for (int i = 0; i < 2; ++i)
        vpaddd(rest[i], rest[i], vec(HalfWord));
    for (int i = 0; i < 2; ++i)
      vpandd(x[i], rest[i], vec(HighWord));
    // Words of the first vector below those of the second one.
    vpsrld(n[0], x[0], 16);
    vpord(n[0], n[0], x[1]);
    vmovdqa64(
        vectorAt(probabilitiesAt(unit.target, unit.block, unit.half, plane),
                 row),
        n[0]);
    if (!last)
      for (int i = 0; i < 2; ++i)
        vsubps(rest[i], rest[i], x[i]);
  }
}

/// Where a window ends or begins: masks for the queries of a unit.
void AttentionRounds::emitRowMasks(const Unit &unit) {
  const auto clamp = [&](const Reg64 &value, int low, int high) {
    mov(temp, high);
    cmp(value, temp);
    cmovg(value, temp);
    mov(temp, low);
    cmp(value, temp);
    cmovl(value, temp);
  };
  const int window = int(shape.window);
  // The last key of the sequence, relative to the block.
  mov(seenKeys, variable(Keys));
  sub(seenKeys, key);
  sub(seenKeys, unit.keyOffset + 1);
  clamp(seenKeys, 0, kLastMask);
  mov(seenKeys.cvt32(), dword[masks + seenKeys * 4 + kUpToAt]);
  // The first and the last key that the tile's first query sees.
  mov(place, variable(TilePosition));
  sub(place, key);
  sub(place, unit.keyOffset);
  lea(number, ptr[place - window]);
  add(place, window);
  clamp(place, kFirstMask, kLastMask - (kQueries - 1));
  clamp(number, kFirstMask, kLastMask - (kQueries - 1));
}

/// Masks of a query, for its words or for its two vectors.
void AttentionRounds::emitRowMask(const Unit &unit, int row) {
  const int at = 4 * (unit.half * kTileRows + row);
  const Reg32 seen = temp.cvt32();
  mov(seen, dword[masks + place * 4 + (kUpToAt + at)]);
  and_(seen, dword[masks + number * 4 + (kFromAt + at)]);
  and_(seen, seenKeys.cvt32());
  kmovd(k2, seen);
  if (!isBf16())
    kshiftrd(k3, k2, kTileRows);
}

/// Masks the scores of the block if it has keys behind the last one.
void AttentionRounds::emitMaskCheck(const Unit &unit) {
  Label done;
  lea(temp, ptr[key + unit.keyOffset]);
  cmp(temp, variable(LastWhole));
  jle(done);
  lea(place, ptr[scoresAt(unit.scores, 0, 0)]);
  call(mask);
  L(done);
}

/// Subroutine: of the scores at `place`, of the block of keys from `temp` on,
/// replaces those that a query may not see.
void AttentionRounds::emitMask() {
  const Zmm keys[2] = {Zmm(MaskTemps), Zmm(MaskTemps + 1)};
  const Zmm first(MaskTemps + 2), last(MaskTemps + 3), lastKey(MaskTemps + 4);
  const Zmm scores(MaskTemps + 5);
  const uint8_t atMost = 2, atLeast = 5;
  align(64);
  L(mask);
  // All relative to the block.
  vmovdqa64(keys[0], ptr[rip + tables + kCountAt]);
  mov(number.cvt32(), kTileRows);
  vpbroadcastd(keys[1], number.cvt32());
  vpaddd(keys[1], keys[1], keys[0]);
  mov(number, variable(Keys));
  dec(number);
  sub(number, temp);
  vpbroadcastd(lastKey, number.cvt32());
  if (shape.window >= 0) {
    mov(number, variable(TilePosition));
    sub(number, temp);
    add(number, int(shape.window));
    vpbroadcastd(last, number.cvt32());
    sub(number, int(shape.window));
    sub(number, int(shape.window));
    vpbroadcastd(first, number.cvt32());
  }
  Label nextRow;
  mov(number, kQueries);
  L(nextRow);
  if (shape.window >= 0)
    vpminsd(scores, last, lastKey);
  else
    vmovdqa64(scores, lastKey);
  const Opmask seen[2] = {k2, k3};
  for (int tile = 0; tile < 2; ++tile) {
    const Opmask notBehind = seen[tile];
    vpcmpd(notBehind, keys[tile], scores, atMost);
    if (shape.window >= 0)
      vpcmpd(seen[tile] | notBehind, keys[tile], first, atLeast);
  }
  for (int tile = 0; tile < 2; ++tile) {
    const Address at = ptr[place + size_t(tile * kPairBytes)];
    broadcastConstant(scores, kMasked);
    vmovaps(scores | seen[tile], at);
    vmovaps(at, scores);
  }
  if (shape.window >= 0) {
    vpaddd(first, first, constant(int32_t(1)));
    vpaddd(last, last, constant(int32_t(1)));
  }
  add(place, kTileRowBytes);
  dec(number);
  jnz(nextRow);
  ret();
}

/// Subroutine: finds the largest score of each query in the span, and changes
/// the offsets of those for which it is far from 0.
void AttentionRounds::emitMaxima() {
  align(64);
  L(maxima);
  emitFirstBlock();
  const RegExp largest = scratch + size_t(probabilitiesOffset);
  broadcastConstant(vec(0), std::numeric_limits<float>::lowest());
  for (int row = 0; row < kQueries; ++row)
    vmovaps(vectorAt(largest, row), vec(0));

  Label nextBlock, nextRow, whole;
  L(nextBlock);
  Steps round;
  round.stored.resize(roundBlocks);
  appendScores(round, 1);
  appendStoresLeft(round);
  emitMerged(round);
  const int scores = roundBlocks - 1;
  if (shape.window < 0) {
    cmp(key, variable(LastWhole));
    jle(whole);
  }
  mov(temp, key);
  lea(place, ptr[scoresAt(scores, 0, 0)]);
  call(mask);
  L(whole);
  lea(place, ptr[scoresAt(scores, 0, 0)]);
  lea(pointer, ptr[largest]);
  mov(rowsLeft, kQueries);
  L(nextRow);
  vmovaps(vec(0), ptr[pointer]);
  vmaxps(vec(0), vec(0), ptr[place]);
  vmaxps(vec(0), vec(0), ptr[place + kPairBytes]);
  vmovaps(ptr[pointer], vec(0));
  add(place, kTileRowBytes);
  add(pointer, kTileRowBytes);
  dec(rowsLeft);
  jnz(nextRow);
  add(kBlock, blockBytes);
  add(key, kKeys);
  dec(blocksLeft);
  jnz(nextBlock);

  // Where no key is seen, or all are NaN, there is no largest score.
  const float masked = isBf16() ? kMasked / kBf16ScoreUnit : kMasked;
  const uint8_t above = 0x1e, below = 0x11; // false for NaN
  for (int half = 0; half < 2; ++half) {
    const Vec score = vec(0), offset = vec(1);
    emitReducedRows(half, probabilitiesOffset, true);
    vaddps(score, score, vectorAt(rowOffsets(), half));
    if (isBf16())
      vmulps(score, score, constant(1 / kBf16ScoreUnit));
    vcmpps(k2, score, constant(kLargestScore), above);
    vcmpps(k3, score, broadcastVariable(SmallestScore), below);
    vcmpps(k3 | k3, score, constant(masked / 2), above);
    korw(k2, k2, k3);
    vrndscaleps(Zmm(0), Zmm(0), 8); // to nearest even
    const Address offsets = vectorAt(rowOffsets(), half);
    vmovups(offset, offsets);
    vfnmadd231ps(offset | k2, score,
                 constant(isBf16() ? kBf16ScoreUnit : 1.0f));
    vmovups(offsets, offset);
  }
  ret();
}

/// vec(0) = the sums, or maxima, of 16 rows of 16 floats of a half.
void AttentionRounds::emitReducedRows(int half, int offset, bool maximum) {
  const RegExp rows = scratch + size_t(offset + half * kTileBytes);
  // vec(i) = vec(i) and vec(j), interleaved somehow and combined.
  const Vec temp = vec(16);
  const auto combine = [&](int target, const Vec &x, const Vec &y) {
    if (maximum)
      vmaxps(vec(target), x, y);
    else
      vaddps(vec(target), x, y);
  };
  for (int row = 0; row < kTileRows; ++row)
    vmovaps(vec(row), vectorAt(rows, row));
  for (int i = 0; i < 16; i += 2) {
    vunpcklps(temp, vec(i), vec(i + 1));
    vunpckhps(vec(i + 1), vec(i), vec(i + 1));
    combine(i, temp, vec(i + 1));
  }
  for (int i = 0; i < 16; i += 4) {
    vunpcklpd(temp, vec(i), vec(i + 2));
    vunpckhpd(vec(i + 2), vec(i), vec(i + 2));
    combine(i, temp, vec(i + 2));
  }
  for (int distance : {4, 8})
    for (int i = 0; i < 16; i += 2 * distance) {
      vshuff32x4(Zmm(16), Zmm(i), Zmm(i + distance), 0x88);
      vshuff32x4(Zmm(i + distance), Zmm(i), Zmm(i + distance), 0xdd);
      combine(i, temp, vec(i + distance));
    }
}

void AttentionRounds::emitTables() {
  align(64);
  L(tables);
  // f of the word minus that of 2^f, for two values of f next to each other.
  for (int i = 0; i < 64; ++i) {
    double sum = 0;
    for (int word : {2 * i, 2 * i + 1})
      sum += word -
             kBf16ScoreUnit * (std::exp2(word / double(kBf16ScoreUnit)) - 1);
    db(uint8_t(std::lround(sum / 2)));
  }
  for (uint32_t i = 0; i < kTileRows; ++i)
    dd(i);
  dd(kFlushingControl);
  const auto masksOf = [&](bool upTo) {
    for (int limit = kFirstMask; limit <= kLastMask; ++limit) {
      uint32_t seen = 0;
      for (int i = 0; i < kKeys; ++i) {
        const int key = isBf16() ? int(probabilityKey(shape.arithmetic, i)) : i;
        seen |= uint32_t(upTo ? key <= limit : key >= limit) << i;
      }
      dd(seen);
    }
  };
  if (shape.window >= 0) {
    masksOf(true);
    masksOf(false);
  }
}
