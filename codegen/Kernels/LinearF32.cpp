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
// A k-step of a panel is a cache line.
static constexpr int kLineBytes = 64;
// Pages whose first line is asked for when a tile begins. A line in a new page
// holds up everything behind it until the address is translated; translations
// asked for together overlap.
static constexpr int kPagesAhead = 4;
static constexpr int kPageBytes = 4096;

// Vectors whose activations are computed side by side.
static constexpr int kLanesAtOnce = 4;

// Chains of FMA that hide its latency, 4 cycles on two ports, and how many a
// group of panels is widened to where a tile has less.
static constexpr int kEnoughChains = 8;
static constexpr int kWideChains = 12;

/// 8-byte places on the stack.
enum Local {
  PanelsLeft,
  GroupB, // first panel of the group
  GroupC, // its first row in c
  GroupBias,
  GroupResidual,
  TileResidual,  // GroupResidual at the first row of the tile
  PrefetchLines, // of the next group in kUnrollFull k-steps
  PrefetchEnd,   // end of the next group
  LocalCount
};

LinearF32::LinearF32(const KernelRow &row, const LinearShape &shape)
    : VectorAssembler(row.vectorBytes), row(row), shape(shape),
      panelBytes(shape.k * kPanelColumns * int64_t(sizeof(float))) {}

int LinearF32::panelsForRows(int rows) const {
  Tile tile{rows, row.panelTile};
  if (accumulators(tile) >= kEnoughChains)
    return row.panelTile;
  // The pointers of b reach 8 panels.
  return std::min(8, kWideChains / (rows * vectorsPerPanel()));
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
  const int offset = k * int(kPanelColumns * sizeof(float)) +
                     vector % vectorsPerPanel() * vectorBytes;
  const RegExp base = b[panel / 3];
  if (panel % 3 == 0)
    return ptr[base + offset];
  return ptr[base + bPanelBytes * (panel % 3) + offset];
}

bool LinearF32::generate(std::vector<uint8_t> &code, std::string &error) {
  enter(LocalCount);
  emitArguments();
  // The panels that a group size leaves over go to the next smaller one.
  for (int rows = 1; panelsForRows(rows) > row.panelTile; ++rows) {
    Label otherRows;
    cmp(qword[args + offsetof(LinearArgs, rows)], rows);
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
  const std::pair<Local, size_t> copies[] = {
      {PanelsLeft, offsetof(LinearArgs, panels)},
      {GroupB, offsetof(LinearArgs, b)},
      {GroupC, offsetof(LinearArgs, c)},
      {GroupBias, offsetof(LinearArgs, bias)},
      {GroupResidual, offsetof(LinearArgs, residual)}};
  for (auto [place, offset] : copies) {
    mov(temp, ptr[args + offset]);
    mov(local(place), temp);
  }
  // Lines of a group / tiles of a group, rounded up, at most one a k-step. This
  // is before rax, rcx and rdx, which div needs, get their meaning.
  mov(rax, ptr[args + offsetof(LinearArgs, rows)]);
  add(rax, row.rowTile - 1);
  xor_(edx, edx);
  mov(ecx, row.rowTile);
  div(rcx);
  mov(rcx, rax);
  lea(rax, ptr[rcx + row.panelTile * kUnrollFull - 1]);
  xor_(edx, edx);
  div(rcx);
  mov(ecx, kUnrollFull);
  cmp(rax, rcx);
  cmova(rax, rcx);
  mov(local(PrefetchLines), rax);

  mov(aRowBytes, shape.lda * int64_t(sizeof(float)));
  mov(bPanelBytes, panelBytes);
}

void LinearF32::emitGroups(int panels, int maxRows) {
  Label nextGroup, nextTile, lastTile, endOfGroup, tooFewPanels;
  L(nextGroup);
  cmp(local(PanelsLeft), panels);
  jb(tooFewPanels);
  if (panels > 2) {
    // Two groups of two are better than one of three and one of one.
    cmp(local(PanelsLeft), panels + 1);
    je(tooFewPanels);
  }
  mov(a[0], ptr[args + offsetof(LinearArgs, a)]);
  mov(c, local(GroupC));
  if (shape.residual) {
    mov(temp, local(GroupResidual));
    mov(local(TileResidual), temp);
  }
  // The next group has as many panels as this one, or all that are left.
  mov(temp, local(PanelsLeft));
  sub(temp, panels);
  mov(prefetch, panels);
  cmp(temp, prefetch);
  cmova(temp, prefetch);
  imul(temp, bPanelBytes);
  mov(prefetch, local(GroupB));
  add(prefetch, int(panels * panelBytes));
  add(temp, prefetch);
  mov(local(PrefetchEnd), temp);

  mov(rowsLeft, ptr[args + offsetof(LinearArgs, rows)]);
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
  for (int rows = maxRows; rows > 0; --rows) {
    Label otherRows;
    cmp(temp, rows);
    jne(otherRows);
    call(tiles[{rows, panels}]);
    jmp(endOfGroup);
    L(otherRows);
  }
  L(endOfGroup);
  test(rowsLeft, rowsLeft);
  jnz(lastTile);

  add(local(GroupB), int(panels * panelBytes));
  mov(temp, ptr[args + offsetof(LinearArgs, cPanelBytes)]);
  imul(temp, temp, panels);
  add(local(GroupC), temp);
  const int columnBytes = panels * int(kPanelColumns * sizeof(float));
  if (shape.bias)
    add(local(GroupBias), columnBytes);
  if (shape.residual)
    add(local(GroupResidual), columnBytes);
  sub(local(PanelsLeft), panels);
  jmp(nextGroup);
  L(tooFewPanels);
}

void LinearF32::emitTile(Tile tile) {
  const bool full = tile.rows == row.rowTile && tile.panels == row.panelTile;
  const int unroll = full ? kUnrollFull : kUnroll;
  const int64_t rounds = shape.k / unroll;

  for (int row = 3; row < tile.rows; row += 3) {
    lea(a[row / 3], ptr[a[row / 3 - 1] + aRowBytes * 2]);
    add(a[row / 3], aRowBytes);
  }
  mov(b[0], local(GroupB));
  for (int panel = 3; panel < tile.panels; panel += 3) {
    lea(b[panel / 3], ptr[b[panel / 3 - 1] + bPanelBytes * 2]);
    add(b[panel / 3], bPanelBytes);
  }
  xor_(prefetchLines, prefetchLines);
  cmp(prefetch, local(PrefetchEnd));
  cmovb(prefetchLines, local(PrefetchLines));
  for (int page = 1; page <= kPagesAhead; ++page)
    prefetcht1(ptr[prefetch + page * kPageBytes]);

  for (int i = 0; i < accumulators(tile); ++i)
    clear(vec(i));
  if (rounds > 0) {
    Label nextRound;
    mov(kLeft, rounds);
    align(32);
    L(nextRound);
    for (int k = 0; k < unroll; ++k) {
      emitPrefetch(k, unroll);
      emitStep(tile, k);
    }
    for (int row = 0; row < tile.rows; row += 3)
      add(a[row / 3], unroll * int(sizeof(float)));
    for (int panel = 0; panel < tile.panels; panel += 3)
      add(b[panel / 3], unroll * int(kPanelColumns * sizeof(float)));
    dec(kLeft);
    jnz(nextRound);
  }
  for (int k = 0; k < shape.k % unroll; ++k)
    emitStep(tile, k);

  emitEpilogue(tile);

  const int64_t floatBytes = sizeof(float);
  add(a[0], int((tile.rows * shape.lda - rounds * unroll) * floatBytes));
  add(c, int(tile.rows * shape.ldc * floatBytes));
  if (shape.residual)
    add(local(TileResidual), int(tile.rows * shape.ldr * floatBytes));
}

void LinearF32::emitStep(Tile tile, int k) {
  const int vectorCount = vectors(tile);
  if (tile.rows >= vectorCount) {
    for (int v = 0; v < vectorCount; ++v)
      vmovups(spare(tile, v), bAt(v, k));
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
    vmovups(bVector, bAt(v, k));
    for (int m = 0; m < tile.rows; ++m)
      vfmadd231ps(acc(tile, m, v), spare(tile, m), bVector);
  }
}

/// Fetches a line of the next group if the round still has one to fetch. Spread
/// over the k-steps, because lines that are asked for at once fill the buffers
/// that the loads of this group need.
void LinearF32::emitPrefetch(int k, int unroll) {
  Label none;
  cmp(prefetchLines, k * kUnrollFull / unroll);
  jbe(none);
  prefetcht1(ptr[prefetch]);
  add(prefetch, kLineBytes);
  L(none);
}

void LinearF32::emitEpilogue(Tile tile) {
  const int floatBytes = sizeof(float);
  if (shape.bias) {
    mov(temp, local(GroupBias));
    for (int m = 0; m < tile.rows; ++m)
      for (int v = 0; v < vectors(tile); ++v)
        vaddps(acc(tile, m, v), acc(tile, m, v), ptr[temp + v * vectorBytes]);
  }

  if (const int temps = activationTemps(shape.activation)) {
    const int count = accumulators(tile);
    const int atOnce = std::min(kLanesAtOnce, (registers() - count) / temps);
    for (int first = 0; first < count; first += atOnce) {
      std::vector<MathLane> lanes;
      for (int i = first; i < std::min(count, first + atOnce); ++i) {
        MathLane lane(vec(i));
        for (int t = 0; t < temps; ++t)
          lane.temps[t] = vec(count + (i - first) * temps + t);
        lanes.push_back(lane);
      }
      emitActivation(*this, shape.activation, lanes);
    }
  }

  if (shape.residual) {
    mov(temp, local(TileResidual));
    for (int m = 0; m < tile.rows; ++m)
      for (int v = 0; v < vectors(tile); ++v)
        vaddps(acc(tile, m, v), acc(tile, m, v),
               ptr[temp + m * int(shape.ldr) * floatBytes + v * vectorBytes]);
  }

  mov(temp, c);
  for (int panel = 0; panel < tile.panels; ++panel) {
    for (int m = 0; m < tile.rows; ++m)
      for (int v = 0; v < vectorsPerPanel(); ++v)
        vmovups(ptr[temp + m * int(shape.ldc) * floatBytes + v * vectorBytes],
                acc(tile, m, panel * vectorsPerPanel() + v));
    if (panel + 1 < tile.panels)
      add(temp, ptr[args + offsetof(LinearArgs, cPanelBytes)]);
  }
}
