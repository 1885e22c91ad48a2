//===- LinearF32.cpp - f32 matrix product with epilogue -------------------===//

#include "codegen/Kernels/LinearF32.h"
#include "codegen/Kernels/VectorMath.h"

#include <algorithm>
#include <cassert>
#include <cstddef>

using namespace encast;
using namespace Xbyak;

// k-steps in a round of the loop: of the full tile and of the others.
static constexpr int kUnrollFull = 8;
static constexpr int kUnroll = 4;
// A longer k is cut into chunks of about this length: then the rows of a tile
// stay in the L1 while a chunk of the panels passes, and the chunk in the L2.
static constexpr int64_t kChunkLength = 768;
// A k-step of a panel in f32, or two of bf16: one cache line.
static constexpr int kLineBytes = int(kPanelColumns * sizeof(float));
// Lines that are asked for at once when a chunk begins, one in each page of the
// next chunk. A line in a new page holds up everything behind it until its
// address is translated; translations asked for together overlap.
static constexpr int kPageLines = 18;
static constexpr int kPageBytes = 4096;

// The last group fetches weights behind b, as many lines as it has itself up to
// three times this number, unless there are so few rows that weights come
// slower than they are used: then they may be another thread's.
static constexpr int64_t kMaxLengthBehind = 1024;
static constexpr int kMinRowsToFetchBehind = 48;

// Chains of FMA that hide its latency, 4 cycles on two ports, and how many a
// group of panels is widened to where a tile has less.
static constexpr int kEnoughChains = 8;
static constexpr int kWideChains = 12;
// Panels that the pointers of b reach; one of them is the workspace's for bf16.
static constexpr int kMaxPanels = 8, kMaxBf16Panels = 6;

namespace {
/// 8-byte places on the stack.
enum Local {
  // Of the arguments.
  A,
  Rows,
  CPanelBytes,
  Workspace,
  // Of the place in the loops.
  PanelsLeft,
  ChunksLeft, // from the chunk at hand on
  ChunkA,     // first row of a, at the chunk's first k
  ChunkB,     // first panel of the group, there
  TileA,      // ChunkA at the first row of the tile
  GroupC,     // first row of c in the group
  GroupBias,
  GroupResidual,
  TileResidual,  // GroupResidual at the first row of the tile
  PrefetchLines, // of the next chunk in kUnrollFull k-steps
  PrefetchEnd,   // end of its first panel
  TileWeights,   // Weights of the next tile; of bf16 only
  LocalCount
};
} // namespace

/// Bytes of that many rows.
static int rowOffset(int rows, int64_t stride) {
  return int(rows * stride * int64_t(sizeof(float)));
}

LinearF32::LinearF32(const KernelRow &row, const LinearShape &shape)
    : VectorAssembler(row.vectorBytes), row(row), shape(shape),
      panelBytes(stepBytes(shape.k)),
      chunks(shape.gated ? 1
                         : std::max<int64_t>(1, (shape.k + kChunkLength / 2) /
                                                    kChunkLength)),
      lastChunkLength(shape.k - (chunks - 1) * kChunkLength),
      maxChunkLength(chunks > 1 ? std::max(kChunkLength, lastChunkLength)
                                : lastChunkLength) {}

int64_t LinearF32::workspaceBytes() const {
  return shape.bf16Weights ? row.panelTile * maxChunkLength * kLineBytes : 0;
}

int64_t LinearF32::stepBytes(int64_t steps) const {
  return (steps + stepsPerLine() - 1) / stepsPerLine() * kLineBytes;
}

int LinearF32::panelsForRows(int rows) const {
  Tile tile{rows, row.panelTile};
  if (accumulators(tile) >= kEnoughChains)
    return row.panelTile;
  return std::min(shape.bf16Weights ? kMaxBf16Panels : kMaxPanels,
                  kWideChains / (rows * vectorsPerPanel()));
}

LinearF32::Vec LinearF32::spare(Tile tile, int index) const {
  return vec(accumulators(tile) + index);
}

LinearF32::Vec LinearF32::passing(Tile tile, int kept, int index) const {
  const int first = accumulators(tile) + kept;
  return vec(first + index % (registers() - first));
}

Address LinearF32::aAt(int row, int k) {
  const RegExp base = a[row / 3];
  const int offset = k * int(sizeof(float));
  if (row % 3 == 0)
    return dword[base + offset];
  return dword[base + aRowBytes * (row % 3) + offset];
}

Address LinearF32::bAt(int vector, int k) {
  const int panel = vector / vectorsPerPanel();
  const int offset = k / stepsPerLine() * kLineBytes +
                     vector % vectorsPerPanel() * vectorBytes;
  const RegExp base = b[panel / 3];
  if (panel % 3 == 0)
    return ptr[base + offset];
  return ptr[base + bPanelBytes * (panel % 3) + offset];
}

Address LinearF32::keptAt(Tile tile, int vector, int k) {
  return vectorAt(kept, k * vectors(tile) + vector);
}

bool LinearF32::generate(std::vector<uint8_t> &code, std::string &error) {
  enter(LocalCount);
  emitArguments();
  // The panels that a group size leaves over go to the next smaller one.
  for (int rows = 1; panelsForRows(rows) > row.panelTile; ++rows) {
    Label otherRows;
    cmp(local(Rows), rows);
    jne(otherRows);
    emitGroups(panelsForRows(rows), rows);
    L(otherRows);
  }
  for (int panels = row.panelTile; panels > 0; --panels)
    emitGroups(panels, row.rowTile);
  leave();
  for (auto &[size, label] : tiles) {
    beginSubroutine(label);
    emitTile({size.first, size.second});
    endSubroutine();
  }
  return finish(code, error);
}

void LinearF32::emitArguments() {
  const Reg64 args = rdi;
  copyArguments(args, temp,
                {{A, offsetof(LinearArgs, a)},
                 {Rows, offsetof(LinearArgs, rows)},
                 {CPanelBytes, offsetof(LinearArgs, cPanelBytes)},
                 {Workspace, offsetof(LinearArgs, workspace)},
                 {PanelsLeft, offsetof(LinearArgs, panels)},
                 {ChunkB, offsetof(LinearArgs, b)},
                 {GroupC, offsetof(LinearArgs, c)},
                 {GroupBias, offsetof(LinearArgs, bias)},
                 {GroupResidual, offsetof(LinearArgs, residual)}});
  // The tiles of a chunk fetch equal shares of the next one. This is before
  // rax, rcx and rdx get their meaning.
  emitShareOfTile(local(Rows), row.rowTile, kUnrollFull / stepsPerLine());
  mov(local(PrefetchLines), rax);

  mov(aRowBytes, shape.lda * int64_t(sizeof(float)));
  mov(bPanelBytes, panelBytes);
}

void LinearF32::emitGroups(int panels, int maxRows) {
  Label nextGroup, nextChunk, nextTile, lastTile, tooFewPanels;
  L(nextGroup);
  cmp(local(PanelsLeft), panels);
  jb(tooFewPanels);
  if (panels > 2) {
    // Two groups of two are better than one of three and one of one.
    cmp(local(PanelsLeft), panels + 1);
    je(tooFewPanels);
  }
  mov(temp, local(A));
  mov(local(ChunkA), temp);
  mov(local(ChunksLeft), int(chunks));

  L(nextChunk);
  emitPrefetchOfNextChunk(panels);
  if (shape.bf16Weights) {
    Label oneTile;
    mov(local(TileWeights), Widen);
    cmp(local(Rows), maxRows);
    jbe(oneTile);
    mov(local(TileWeights), WidenAndKeep);
    L(oneTile);
  }
  mov(temp, local(ChunkA));
  mov(local(TileA), temp);
  mov(c, local(GroupC));
  if (shape.residual) {
    mov(temp, local(GroupResidual));
    mov(local(TileResidual), temp);
  }
  mov(rowsLeft, local(Rows));
  L(nextTile);
  cmp(rowsLeft, 2 * maxRows);
  jb(lastTile);
  call(tiles[{maxRows, panels}]);
  sub(rowsLeft, maxRows);
  jmp(nextTile);

  // Less than two tiles are left: one, or two halves.
  L(lastTile);
  mov(temp, rowsLeft);
  cmp(temp, maxRows);
  Label fits;
  jbe(fits);
  inc(temp);
  shr(temp, 1);
  L(fits);
  sub(rowsLeft, temp);
  emitCases(temp, 1, maxRows, [&](int rows) { call(tiles[{rows, panels}]); });
  test(rowsLeft, rowsLeft);
  jnz(lastTile);

  if (chunks > 1) {
    add(local(ChunkA), int(kChunkLength * sizeof(float)));
    add(local(ChunkB), int(stepBytes(kChunkLength)));
    dec(local(ChunksLeft));
    jnz(nextChunk);
  }
  // ChunkB is behind the last chunk of the first panel, if there are several.
  add(local(ChunkB), int(panels * panelBytes -
                         (chunks > 1 ? chunks * stepBytes(kChunkLength) : 0)));
  imul(temp, local(CPanelBytes), panels);
  add(local(GroupC), temp);
  if (shape.bias)
    add(local(GroupBias), panels * int(kPanelColumns * sizeof(float)));
  if (shape.residual)
    add(local(GroupResidual), panels * resultColumns() * int(sizeof(float)));
  sub(local(PanelsLeft), panels);
  jmp(nextGroup);
  L(tooFewPanels);
}

/// Points `prefetch` at what comes behind the chunk at hand: the group's next
/// chunk, the first one of the next group, or the weights of another linear.
void LinearF32::emitPrefetchOfNextChunk(int panels) {
  const auto setTarget = [&](int64_t distance, int64_t length) {
    mov(prefetch, local(ChunkB));
    add(prefetch, int(distance));
    lea(temp, ptr[prefetch + int(stepBytes(length))]);
    mov(local(PrefetchEnd), temp);
    const int pages = kPageLines / std::min(panels, row.panelTile);
    for (int page = 0; page < pages; ++page)
      if (int64_t(page) * kPageBytes < stepBytes(length))
        emitPrefetchLine(panels, page * kPageBytes);
  };
  const int64_t chunkBytes = stepBytes(kChunkLength);
  const int64_t toNextGroup = panels * panelBytes - (chunks - 1) * chunkBytes;
  Label lastChunk, lastGroup, done;
  mov(prefetchStride, bPanelBytes);
  if (chunks > 1) {
    cmp(local(ChunksLeft), 1);
    je(lastChunk);
    setTarget(chunkBytes, std::min(kChunkLength, lastChunkLength));
    jmp(done);
    L(lastChunk);
  }
  cmp(local(PanelsLeft), panels);
  je(lastGroup);
  setTarget(toNextGroup, chunks > 1 ? kChunkLength : shape.k);
  jmp(done);
  L(lastGroup);
  mov(local(PrefetchEnd), 0);
  cmp(local(Rows), kMinRowsToFetchBehind);
  jb(done);
  const int64_t length = std::min(lastChunkLength, kMaxLengthBehind);
  mov(prefetchStride, stepBytes(length));
  setTarget(toNextGroup, length);
  L(done);
}

void LinearF32::emitTile(Tile tile) {
  mov(a[0], local(TileA));
  for (int row = 3; row < tile.rows; row += 3) {
    lea(a[row / 3], ptr[a[row / 3 - 1] + aRowBytes * 2]);
    add(a[row / 3], aRowBytes);
  }
  mov(b[0], local(ChunkB));
  for (int panel = 3; panel < tile.panels; panel += 3) {
    lea(b[panel / 3], ptr[b[panel / 3 - 1] + bPanelBytes * 2]);
    add(b[panel / 3], bPanelBytes);
  }
  xor_(prefetchLines, prefetchLines);
  cmp(prefetch, local(PrefetchEnd));
  cmovb(prefetchLines, local(PrefetchLines));

  if (shape.residual)
    emitPrefetchOfResidual(tile);

  // Between chunks the sums wait in c, where accumulating ones come from.
  Label zeros, summing, store;
  if (shape.accumulate) {
    emitSums(tile, /*load=*/true);
  } else {
    if (chunks > 1) {
      cmp(local(ChunksLeft), int(chunks));
      je(zeros);
      emitSums(tile, /*load=*/true);
      jmp(summing);
    }
    L(zeros);
    for (int i = 0; i < accumulators(tile); ++i)
      clear(vec(i));
    L(summing);
  }

  Label epilogue;
  if (shape.bf16Weights) {
    // The tiles behind the first one load what it kept.
    mov(kept, local(Workspace));
    if (isOneOfSeveral(tile)) {
      Label widen, load;
      cmp(local(TileWeights), Widen);
      je(widen);
      jb(load);
      mov(local(TileWeights), Load);
      emitProducts(tile, WidenAndKeep, store);
      jmp(epilogue);
      L(load);
      emitProducts(tile, Load, store);
      jmp(epilogue);
      L(widen);
    }
    emitProducts(tile, Widen, store);
  } else {
    emitProducts(tile, Load, store);
  }
  L(epilogue);
  emitEpilogue(tile);
  L(store);
  if (shape.gated)
    emitGatedResults(tile);
  else
    emitSums(tile, /*load=*/false);

  add(local(TileA), rowOffset(tile.rows, shape.lda));
  add(c, rowOffset(tile.rows, shape.ldc));
  if (shape.residual)
    add(local(TileResidual), rowOffset(tile.rows, shape.ldr));
}

/// The sums of a chunk of k. Leaves for `chunkDone` if others follow.
void LinearF32::emitProducts(Tile tile, Weights weights, Label &chunkDone) {
  const bool full = tile.rows == row.rowTile && tile.panels == row.panelTile;
  const int unroll = full ? kUnrollFull : kUnroll;
  const bool fromKept = weights == Load && shape.bf16Weights;
  const int64_t lastRounds = lastChunkLength / unroll;
  if (lastRounds > 0) {
    mov(kLeft, lastRounds);
    if (chunks > 1) {
      mov(temp, kChunkLength / unroll);
      cmp(local(ChunksLeft), 1);
      cmovne(kLeft, temp);
    }
    Label nextRound;
    align(32);
    L(nextRound);
    for (int k = 0; k < unroll; ++k) {
      if (k % stepsPerLine() == 0) {
        Label noPrefetch;
        cmp(prefetchLines, k / stepsPerLine() * kUnrollFull / unroll);
        jbe(noPrefetch);
        emitPrefetchLine(tile.panels, 0);
        add(prefetch, kLineBytes);
        L(noPrefetch);
      }
      // The same place of the next tile's rows, which the first group meets
      // cold. AVX2 loses more by the instructions than it gains.
      if (full && isAvx512() && k < tile.rows)
        prefetcht1(aAt(k, int(tile.rows * shape.lda)));
      emitStep(tile, weights, k);
    }
    for (int row = 0; row < tile.rows; row += 3)
      add(a[row / 3], unroll * int(sizeof(float)));
    if (!fromKept)
      for (int panel = 0; panel < tile.panels; panel += 3)
        add(b[panel / 3], int(stepBytes(unroll)));
    if (fromKept || weights == WidenAndKeep)
      add(kept, unroll * tile.panels * kLineBytes);
    dec(kLeft);
    jnz(nextRound);
  }
  if (chunks > 1) {
    cmp(local(ChunksLeft), 1);
    jne(chunkDone);
  }
  for (int k = 0; k < lastChunkLength % unroll; ++k)
    emitStep(tile, weights, k);
}

void LinearF32::emitStep(Tile tile, Weights weights, int k) {
  const int vectorCount = vectors(tile);
  if (tile.rows >= vectorCount) {
    for (int v = 0; v < vectorCount; ++v)
      emitWeights(tile, weights, spare(tile, v), v, k);
    for (int m = 0; m < tile.rows; ++m) {
      Vec aBroadcast = passing(tile, vectorCount, m);
      vbroadcastss(aBroadcast, aAt(m, k));
      for (int v = 0; v < vectorCount; ++v)
        vfmadd231ps(acc(tile, m, v), aBroadcast, spare(tile, v));
    }
    return;
  }
  for (int m = 0; m < tile.rows; ++m)
    vbroadcastss(spare(tile, m), aAt(m, k));
  for (int v = 0; v < vectorCount; ++v) {
    Vec bVector = passing(tile, tile.rows, v);
    emitWeights(tile, weights, bVector, v, k);
    for (int m = 0; m < tile.rows; ++m)
      vfmadd231ps(acc(tile, m, v), spare(tile, m), bVector);
  }
}

/// A vector of weights of a k-step.
void LinearF32::emitWeights(Tile tile, Weights weights, const Vec &to,
                            int vector, int k) {
  if (weights == Load) {
    vmovups(to, shape.bf16Weights ? keptAt(tile, vector, k) : bAt(vector, k));
    return;
  }
  vmovups(to, bAt(vector, k));
  if (k % 2 == 0)
    vpslld(to, to, 16);
  else
    vandps(to, to, constant(int32_t(0xffff0000)));
  if (weights == WidenAndKeep)
    vmovups(keptAt(tile, vector, k), to);
}

/// Fetches one line of each panel of the next chunk. Spread over the k-steps,
/// because lines that are asked for at once fill the buffers that the loads of
/// this chunk need.
void LinearF32::emitPrefetchLine(int panels, int offset) {
  for (int panel = 0; panel < std::min(panels, row.panelTile); ++panel)
    prefetcht1(panel == 0 ? ptr[prefetch + offset]
                          : ptr[prefetch + prefetchStride * panel + offset]);
}

/// Has the residual at hand when the sums are.
void LinearF32::emitPrefetchOfResidual(Tile tile) {
  mov(temp, local(TileResidual));
  for (int m = 0; m < tile.rows; ++m)
    for (int panel = 0; panel < tile.panels; ++panel)
      prefetcht1(ptr[temp + rowOffset(m, shape.ldr) +
                     rowOffset(panel, resultColumns())]);
}

void LinearF32::emitEpilogue(Tile tile) {
  if (shape.bias) {
    mov(temp, local(GroupBias));
    for (int m = 0; m < tile.rows; ++m)
      for (int v = 0; v < vectors(tile); ++v)
        vaddps(acc(tile, m, v), acc(tile, m, v), vectorAt(temp, v));
  }

  if (shape.gated)
    emitGatePairs(tile);
  emitActivatedSums(tile);
  if (shape.gated)
    for (int i = 0; i < accumulators(tile); i += 2)
      vmulps(vec(i), vec(i), vec(i + 1));

  if (!shape.residual)
    return;
  mov(temp, local(TileResidual));
  if (shape.gated)
    return emitGatedResidual(tile);
  for (int m = 0; m < tile.rows; ++m)
    for (int v = 0; v < vectors(tile); ++v)
      vaddps(acc(tile, m, v), acc(tile, m, v),
             vectorAt(temp + rowOffset(m, shape.ldr), v));
}

/// Makes an even accumulator gates and the next one the others.
void LinearF32::emitGatePairs(Tile tile) {
  if (!isAvx512())
    return; // They are two vectors of a panel.
  const int count = accumulators(tile);
  const int others = count;
  for (int i = 0; i + 1 < count; i += 2) {
    vshuff64x2(Zmm(others), Zmm(i), Zmm(i + 1), 0xee);
    vinsertf64x4(Zmm(i), Zmm(i), Ymm(i + 1), 1);
    vmovaps(Zmm(i + 1), Zmm(others));
  }
  if (count % 2 == 1)
    vextractf64x4(Ymm(others), Zmm(count - 1), 1);
}

/// Of the gates alone, if there are any.
void LinearF32::emitActivatedSums(Tile tile) {
  const int count = accumulators(tile);
  const int step = shape.gated ? 2 : 1;
  std::vector<Vec> values;
  for (int i = 0; i < count; i += step)
    values.push_back(vec(i));
  emitActivations(*this, shape.activation, values,
                  (count + step - 1) / step * step);
}

/// Adds the residual at `temp` to the even accumulators.
void LinearF32::emitGatedResidual(Tile tile) {
  const auto residualOf = [&](int result) {
    return ptr[temp + rowOffset(result / tile.panels, shape.ldr) +
               rowOffset(result % tile.panels, resultColumns())];
  };
  const int results = tile.rows * tile.panels;
  if (!isAvx512()) {
    for (int i = 0; i < results; ++i)
      vaddps(vec(2 * i), vec(2 * i), residualOf(i));
    return;
  }
  for (int i = 0; i < results; i += 2) {
    const int pair = results;
    vmovups(Ymm(pair), residualOf(i));
    if (i + 1 < results)
      vinsertf64x4(Zmm(pair), Zmm(pair), residualOf(i + 1), 1);
    vaddps(vec(i), vec(i), Zmm(pair));
  }
}

/// Moves the accumulators from or to c.
void LinearF32::emitSums(Tile tile, bool load) {
  mov(temp, c);
  for (int panel = 0; panel < tile.panels; ++panel) {
    for (int m = 0; m < tile.rows; ++m)
      for (int v = 0; v < vectorsPerPanel(); ++v) {
        const Vec sum = acc(tile, m, panel * vectorsPerPanel() + v);
        const Address place = vectorAt(temp + rowOffset(m, shape.ldc), v);
        if (load)
          vmovups(sum, place);
        else
          vmovups(place, sum);
      }
    if (panel + 1 < tile.panels)
      add(temp, local(CPanelBytes));
  }
}

/// Moves the even accumulators to c.
void LinearF32::emitGatedResults(Tile tile) {
  mov(temp, c);
  for (int panel = 0; panel < tile.panels; ++panel) {
    for (int m = 0; m < tile.rows; ++m) {
      const int result = m * tile.panels + panel;
      const Address place = ptr[temp + rowOffset(m, shape.ldc)];
      if (!isAvx512())
        vmovups(place, vec(2 * result));
      else if (result % 2 == 0)
        vmovups(place, Ymm(result));
      else
        vextractf64x4(place, Zmm(result - 1), 1);
    }
    if (panel + 1 < tile.panels)
      add(temp, local(CPanelBytes));
  }
}
