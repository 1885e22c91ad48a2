//===- LinearDots.cpp - bf16 matrix product by AVX512-BF16 ----------------===//

#include "codegen/Kernels/LinearDots.h"
#include "codegen/Kernels/TilePacking.h"
#include "codegen/Kernels/VectorMath.h"

#include <algorithm>
#include <cstddef>
#include <utility>

using namespace encast;
using namespace Xbyak;

static constexpr int kLineBytes = 64;
static constexpr int kVectorBytes = int(kPanelColumns * sizeof(float));
static constexpr int kPanels = 2; // of a pair

namespace {
/// 8-byte places on the stack.
enum Local {
  A,
  Rows,
  CPanelBytes,
  Ahead,
  // Of the pair.
  PairsLeft,
  PairB,
  PairC,
  PairBias,
  PairResidual,
  LocalCount
};
} // namespace

LinearDots::LinearDots(const LinearShape &shape)
    : shape(shape), steps(int(planeStride(shape.k) / 32)),
      pairBytes(int(2 * tilePairElements(shape.k, 1))) {}

bool LinearDots::generate(std::vector<uint8_t> &code, std::string &error) {
  enter(LocalCount);
  emitArguments();
  emitPairs();
  leave();
  for (int rows = 1; rows <= kRows; ++rows) {
    beginSubroutine(tiles[rows]);
    emitTile(rows);
    endSubroutine();
  }
  return finish(code, error);
}

void LinearDots::emitArguments() {
  copyArguments(args, temp,
                {{A, offsetof(LinearArgs, a)},
                 {Rows, offsetof(LinearArgs, rows)},
                 {CPanelBytes, offsetof(LinearArgs, cPanelBytes)},
                 {Ahead, offsetof(LinearArgs, ahead)},
                 {PairsLeft, offsetof(LinearArgs, panels)},
                 {PairB, offsetof(LinearArgs, b)},
                 {PairC, offsetof(LinearArgs, c)},
                 {PairBias, offsetof(LinearArgs, bias)},
                 {PairResidual, offsetof(LinearArgs, residual)}});
  shr(local(PairsLeft), 1);
  // Each tile of rows fetches an equal share of a step of the next pair.
  emitShareOfTile(local(Rows), kRows, int(kPanels * kHalfBytes) / kLineBytes);
  mov(prefetchLines, rax);
}

void LinearDots::emitPairs() {
  Label nextPair, nextTile, lastPair, hasNext;
  L(nextPair);
  mov(prefetch, local(PairB));
  cmp(local(PairsLeft), 1);
  je(lastPair);
  add(prefetch, pairBytes);
  jmp(hasNext);
  L(lastPair);
  cmp(local(Ahead), 0);
  je(hasNext);
  mov(prefetch, local(Ahead));
  L(hasNext);

  mov(tileA, local(A));
  mov(c, local(PairC));
  if (shape.residual)
    mov(residual, local(PairResidual));
  mov(rowsLeft, local(Rows));
  L(nextTile);
  mov(temp, rowsLeft);
  emitTileHeight(temp);
  sub(rowsLeft, temp);
  emitCases(temp, 1, kRows, [&](int rows) { call(tiles[rows]); });
  test(rowsLeft, rowsLeft);
  jnz(nextTile);

  add(local(PairB), pairBytes);
  imul(temp, local(CPanelBytes), kPanels);
  add(local(PairC), temp);
  if (shape.bias)
    add(local(PairBias), kPanels * kVectorBytes);
  if (shape.residual)
    add(local(PairResidual), results() * kVectorBytes);
  dec(local(PairsLeft));
  jnz(nextPair);
}

void LinearDots::emitTile(int rows) {
  mov(a, tileA);
  mov(b, local(PairB));
  mov(stepsLeft, steps);
  if (shape.accumulate)
    emitSumsIn(rows);
  else
    clearSums(rows);
  emitDots(rows, {aRowBytes(), kHalfBytes, kPanels * kHalfBytes}, [&] {
    Label nextLine;
    mov(linesLeft, prefetchLines);
    L(nextLine);
    prefetcht1(ptr[prefetch]);
    add(prefetch, kLineBytes);
    dec(linesLeft);
    jnz(nextLine);
  });
  emitEpilogue(rows);
  emitResultsOut(rows);
  add(tileA, int(rows * aRowBytes()));
  add(c, int(rows * cRowBytes()));
  if (shape.residual)
    add(residual, int(rows * residualRowBytes()));
}

void LinearDots::emitSumsIn(int rows) {
  mov(temp, c);
  for (int panel = 0; panel < kPanels; ++panel) {
    for (int row = 0; row < rows; ++row)
      vmovups(sum(row, panel), ptr[temp + size_t(row * cRowBytes())]);
    if (panel + 1 < kPanels)
      add(temp, local(CPanelBytes));
  }
}

void LinearDots::emitEpilogue(int rows) {
  if (shape.bias) {
    mov(temp, local(PairBias));
    for (int half = 0; half < 2; ++half) {
      vmovups(vec(kTemps), vectorAt(temp, half));
      for (int row = 0; row < rows; ++row)
        vaddps(sum(row, half), sum(row, half), vec(kTemps));
    }
  }
  emitActivatedResults(rows);
  for (int row = 0; row < rows; ++row) {
    if (shape.gated)
      vmulps(sum(row, 0), sum(row, 0), sum(row, 1));
    if (shape.residual)
      for (int column = 0; column < results(); ++column)
        vaddps(result(row, column), result(row, column),
               vectorAt(residual + size_t(row * residualRowBytes()), column));
  }
}

/// Of the gates alone, if there are any.
void LinearDots::emitActivatedResults(int rows) {
  std::vector<Vec> values;
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < results(); ++column)
      values.push_back(result(row, column));
  emitActivations(*this, shape.activation, values, kTemps);
}

void LinearDots::emitResultsOut(int rows) {
  mov(temp, c);
  for (int column = 0; column < results(); ++column) {
    for (int row = 0; row < rows; ++row) {
      const RegExp place = temp + size_t(row * cRowBytes());
      if (shape.cPlanes)
        storePlanes(place, 2 * shape.cPlaneStride, shape.cPlanes,
                    result(row, column), Zmm(kTemps + row % 8));
      else
        vmovups(ptr[place], result(row, column));
    }
    if (column + 1 < results())
      add(temp, local(CPanelBytes));
  }
}
