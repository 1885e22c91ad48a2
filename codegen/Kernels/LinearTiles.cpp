//===- LinearTiles.cpp - bf16 matrix products on tiles --------------------===//

#include "codegen/Kernels/LinearTiles.h"
#include "codegen/Kernels/VectorMath.h"

#include <algorithm>
#include <cassert>
#include <cstddef>

using namespace encast;
using namespace Xbyak;

static constexpr int kTileRows = 16;
static constexpr int kTileBytes = 1024;
static constexpr int kBlockRows = 2 * kTileRows;
static constexpr int kStepColumns = 32; // k of a step
static constexpr int kStepElementBytes = 64;
// A row of sums: 32 columns in f32.
static constexpr int kSumRowBytes = 128;
// What the tiles of A and B of a block and a chunk may take. A chunk of B has
// to stay in the L1 (48 KB) while those of A pass.
static constexpr int kChunkBytes = 64 << 10;
// Rows that the workspace holds sums for. A multiple of kBlockRows; more would
// crowd the rows of A out of the L2.
static constexpr int kGroupRows = 512;
// Lines of 64 bytes are prefetched in twos.
static constexpr int kPrefetchUnitBytes = 128;

namespace {
/// 8-byte places on the stack.
enum Local {
  Rows,      // of the call that are left, this group's included
  GroupRows, // of this group
  GroupA,    // its first row
  GroupC,    // same, in the first panel
  GroupResidual,
  B, // first panel of the call
  Bias,
  Panels, // of the call
  CPanelBytes,
  Few,        // 1 if the call has less than 16 rows
  TailTiles,  // first rows of the halves of the last block if it is not full:
  TailTiles1, // relative to the block, maybe negative
  PanelsLeft,
  PairC, // first row of the group
  PairBias,
  PairResidual,
  ChunkA, // first row of the group, first step of the chunk
  ChunkB,
  ChunksLeft, // of those between the first and the last one
  RowsLeft,   // of the group, this block's included
  Tiles,      // first rows of the halves, relative to the block
  Tiles1,
  BlockA, // first row, first step of the chunk
  BlockC,
  BlockResidual,
  BlockSums,   // where the sums wait between chunks
  PendingRows, // of the block whose sums are finished, 0 if there is none
  PendingC,
  PendingBias,
  PendingResidual,
  LocalCount
};
} // namespace

const std::vector<PlaneProduct> &encast::planeProducts(Arithmetic arithmetic) {
  static const std::vector<PlaneProduct> none,
      bf16 = {{0, 0}}, bf16x3 = {{1, 0}, {0, 0}, {0, 1}},
      bf16x3w = {{2, 0}, {1, 0}, {0, 0}},
      bf16x6 = {{0, 2}, {0, 1}, {1, 1}, {1, 0}, {2, 0}, {0, 0}};
  switch (arithmetic) {
  case Arithmetic::F32:
    return none;
  case Arithmetic::Bf16:
    return bf16;
  case Arithmetic::Bf16x3:
    return bf16x3;
  case Arithmetic::Bf16x3w:
    return bf16x3w;
  case Arithmetic::Bf16x6:
    return bf16x6;
  }
  return none;
}

LinearTiles::LinearTiles(const KernelRow &row, const LinearShape &shape)
    : VectorAssembler(row.vectorBytes), row(row), shape(shape),
      products(planeProducts(row.arithmetic)),
      steps((shape.k + kStepColumns - 1) / kStepColumns) {
  const int64_t most =
      kChunkBytes / (stepBytes() + int64_t(2) * kTileBytes *
                                       activationPlanes(row.arithmetic));
  const int64_t count = (steps + most - 1) / most;
  for (int64_t i = 0; i < count; ++i)
    chunks.push_back(int(steps / count + (i < steps % count)));
}

int64_t LinearTiles::stepBytes() const {
  return int64_t(2) * kTileBytes * weightPlanes(row.arithmetic);
}

int LinearTiles::resultColumns() const {
  return int(shape.gated ? kPanelColumns : 2 * kPanelColumns);
}

// The workspace: room for the rows that a tile overlaps, `finished`, the sums
// of a group, room again in front of its last block, copies of few rows of A.
static constexpr int64_t kFinishedOffset = kTileRows * kSumRowBytes;
static constexpr int64_t kSumsOffset =
    kFinishedOffset + kBlockRows * kSumRowBytes;

int64_t LinearTiles::copyOffset() const {
  return kSumsOffset + (kGroupRows + kTileRows) * kSumRowBytes;
}

int64_t LinearTiles::workspaceBytes() const {
  return (copyOffset() + 2 * kTileRows * shape.lda + 63) / 64 * 64;
}

bool LinearTiles::generate(std::vector<uint8_t> &code, std::string &error) {
  enter(LocalCount);
  emitArguments();
  emitCopyOfFewRows();
  Label nextGroup;
  L(nextGroup);
  emitGroup();
  cmp(local(Rows), 0);
  jne(nextGroup);

  for (int half = 0; half < 2; ++half)
    for (int column = 0; column < 2; ++column)
      tilestored(sumAt(half, column), sum(half, column));
  call(drain);
  leave();

  for (auto &[key, label] : otherSteps) {
    beginSubroutine(label);
    emitOtherSteps(key.first, key.second);
    endSubroutine();
  }
  beginSubroutine(drain);
  emitDrain();
  endSubroutine();
  return finish(code, error);
}

void LinearTiles::emitArguments() {
  const std::pair<Local, size_t> copies[] = {
      {Rows, offsetof(LinearArgs, rows)},
      {GroupA, offsetof(LinearArgs, a)},
      {GroupC, offsetof(LinearArgs, c)},
      {GroupResidual, offsetof(LinearArgs, residual)},
      {B, offsetof(LinearArgs, b)},
      {Bias, offsetof(LinearArgs, bias)},
      {Panels, offsetof(LinearArgs, panels)},
      {CPanelBytes, offsetof(LinearArgs, cPanelBytes)}};
  for (auto [place, offset] : copies) {
    mov(temp, ptr[args + offset]);
    mov(local(place), temp);
  }
  mov(finished, ptr[args + offsetof(LinearArgs, workspace)]);
  add(finished, int(kFinishedOffset));
  // No block came before the first one: what its first step stores is lost.
  mov(stores[0], finished);
  lea(stores[1], ptr[finished + kTileRows * kSumRowBytes]);
  mov(local(PendingRows), 0);

  mov(aRowBytes, 2 * shape.lda);
  mov(bRowBytes, kStepElementBytes);
  mov(sumRowBytes, kSumRowBytes);
}

/// Less than 16 rows are read from a copy.
void LinearTiles::emitCopyOfFewRows() {
  const int64_t copiedBytes =
      activationPlanes(row.arithmetic) * planeBytes(); // of each row
  Label enough, nextRow, nextVector;
  mov(local(Few), 0);
  cmp(local(Rows), kTileRows);
  jae(enough);
  mov(local(Few), 1);
  mov(a[0], local(GroupA));
  lea(a[1], ptr[finished + int(copyOffset() - kFinishedOffset)]);
  mov(local(GroupA), a[1]);
  mov(b, local(Rows));
  L(nextRow);
  mov(temp, copiedBytes - vectorBytes);
  L(nextVector);
  vmovups(vec(0), ptr[a[0] + temp]);
  vmovups(ptr[a[1] + temp], vec(0));
  sub(temp, vectorBytes);
  jns(nextVector);
  add(a[0], aRowBytes);
  add(a[1], aRowBytes);
  dec(b);
  jnz(nextRow);
  L(enough);
}

void LinearTiles::emitGroup() {
  mov(temp, kGroupRows);
  cmp(temp, local(Rows));
  cmova(temp, local(Rows));
  mov(local(GroupRows), temp);

  // A step's share of the next pair: a step of it, divided by the blocks.
  // rax, rcx and rdx get their meaning behind this.
  static_assert(kBlockRows == 32, "a shift divides");
  mov(rcx, temp);
  add(rcx, kBlockRows - 1);
  shr(rcx, 5);
  lea(rax, ptr[rcx - 1]);
  add(rax, int(stepBytes() / kPrefetchUnitBytes));
  xor_(edx, edx);
  div(rcx);
  imul(prefetchBytes, rax, kPrefetchUnitBytes);
  mov(aRowBytes, 2 * shape.lda);

  // Tiles of a last block that is not full end with its last row, or begin with
  // its first one if there are not enough rows before.
  Label tilesDone;
  mov(local(TailTiles), 0);
  mov(local(TailTiles1), 0);
  cmp(local(Few), 0);
  jne(tilesDone);
  and_(temp, kBlockRows - 1);
  sub(temp, kTileRows);
  mov(local(TailTiles1), temp);
  jns(tilesDone);
  mov(local(TailTiles), temp);
  L(tilesDone);

  const std::pair<Local, Local> copies[] = {{ChunkB, B},
                                            {PanelsLeft, Panels},
                                            {PairC, GroupC},
                                            {PairBias, Bias},
                                            {PairResidual, GroupResidual}};
  for (auto [to, from] : copies) {
    mov(temp, local(from));
    mov(local(to), temp);
  }

  Label nextPair, notLastPair;
  L(nextPair);
  cmp(local(PanelsLeft), 2);
  jne(notLastPair);
  xor_(prefetchBytes, prefetchBytes);
  L(notLastPair);
  mov(temp, local(GroupA));
  mov(local(ChunkA), temp);

  const Start start = shape.accumulate ? Start::C : Start::Zero;
  emitPhase(start, chunks.front(), chunks.size() == 1);
  for (size_t first = 1; first + 1 < chunks.size();) {
    size_t behind = first;
    while (behind + 1 < chunks.size() && chunks[behind] == chunks[first])
      ++behind;
    Label nextChunk;
    mov(local(ChunksLeft), int(behind - first));
    L(nextChunk);
    emitPhase(Start::Chunk, chunks[first], /*last=*/false);
    dec(local(ChunksLeft));
    jnz(nextChunk);
    first = behind;
  }
  if (chunks.size() > 1)
    emitPhase(Start::Chunk, chunks.back(), /*last=*/true);

  mov(temp, local(CPanelBytes));
  add(temp, temp);
  add(local(PairC), temp);
  if (shape.bias)
    add(local(PairBias), kSumRowBytes);
  if (shape.residual)
    add(local(PairResidual), resultColumns() * int(sizeof(float)));
  sub(local(PanelsLeft), 2);
  jnz(nextPair);

  mov(temp, local(GroupRows));
  sub(local(Rows), temp);
  const std::tuple<bool, Local, int64_t> advances[] = {
      {true, GroupA, 2 * shape.lda},
      {true, GroupC, cRowBytes()},
      {shape.residual, GroupResidual, 4 * shape.ldr}};
  for (auto [used, place, rowBytes] : advances) {
    if (!used)
      continue;
    imul(starts[0], temp, int(rowBytes));
    add(local(place), starts[0]);
  }
}

/// All blocks of rows in a chunk of k.
void LinearTiles::emitPhase(Start start, int chunkSteps, bool last) {
  const std::pair<Local, Local> copies[] = {{BlockA, ChunkA},
                                            {BlockC, PairC},
                                            {BlockResidual, PairResidual},
                                            {RowsLeft, GroupRows}};
  for (auto [to, from] : copies) {
    mov(temp, local(from));
    mov(local(to), temp);
  }
  lea(temp, ptr[finished + int(kSumsOffset - kFinishedOffset)]);
  mov(local(BlockSums), temp);
  mov(prefetch, local(ChunkB));
  add(prefetch, int(pairBytes()));

  Label nextBlock, noEpilogue, stepsDone;
  L(nextBlock);
  emitBlockPointers(start);
  emitFirstStep(start);
  // Sums of a block that is not full are dealt with at once.
  cmp(local(PendingRows), kBlockRows);
  jne(noEpilogue);
  emitPendingPointers();
  call(otherSteps[{chunkSteps, true}]);
  jmp(stepsDone);
  L(noEpilogue);
  call(drain);
  call(otherSteps[{chunkSteps, false}]);
  L(stepsDone);

  for (int half = 0; half < 2; ++half) {
    mov(stores[half], local(Tiles + half));
    static_assert(kSumRowBytes == 128, "a shift multiplies");
    shl(stores[half], 7);
    if (last)
      add(stores[half], finished);
    else
      add(stores[half], local(BlockSums));
  }
  if (last) {
    mov(temp, kBlockRows);
    cmp(temp, local(RowsLeft));
    cmova(temp, local(RowsLeft));
    mov(local(PendingRows), temp);
    const std::pair<Local, Local> pending[] = {
        {PendingC, BlockC},
        {PendingBias, PairBias},
        {PendingResidual, BlockResidual}};
    for (auto [to, from] : pending) {
      mov(temp, local(from));
      mov(local(to), temp);
    }
  } else {
    mov(local(PendingRows), 0);
  }
  add(local(BlockA), int(kBlockRows * 2 * shape.lda));
  mov(temp, kBlockRows * cRowBytes());
  add(local(BlockC), temp);
  if (shape.residual) {
    mov(temp, kBlockRows * 4 * shape.ldr);
    add(local(BlockResidual), temp);
  }
  add(local(BlockSums), kBlockRows * kSumRowBytes);
  sub(local(RowsLeft), kBlockRows);
  ja(nextBlock);

  add(local(ChunkA), chunkSteps * kStepElementBytes);
  add(local(ChunkB), int(chunkSteps * stepBytes()));
}

/// Points at the operands of the block's halves.
void LinearTiles::emitBlockPointers(Start start) {
  Label tail, done;
  cmp(local(RowsLeft), kBlockRows);
  jb(tail);
  mov(local(Tiles), 0);
  mov(local(Tiles1), kTileRows);
  jmp(done);
  L(tail);
  // Tiles that overlap the block before must not reach its sums.
  add(local(BlockSums), kTileRows * kSumRowBytes);
  for (int half = 0; half < 2; ++half) {
    mov(temp, local(TailTiles + half));
    mov(local(Tiles + half), temp);
  }
  L(done);

  mov(b, local(ChunkB));
  for (int half = 0; half < 2; ++half) {
    imul(a[half], local(Tiles + half), int(2 * shape.lda));
    add(a[half], local(BlockA));
    if (start == Start::Chunk) {
      mov(starts[half], local(Tiles + half));
      shl(starts[half], 7);
      add(starts[half], local(BlockSums));
    }
    if (start == Start::C) {
      imul(starts[half], local(Tiles + half), int(cRowBytes()));
      add(starts[half], local(BlockC));
    }
  }
  if (start == Start::Chunk)
    mov(startRowBytes, kSumRowBytes);
  if (start == Start::C) {
    mov(startRowBytes, cRowBytes());
    emitCopyOfFewSums();
  }
}

/// Less than 16 rows of c are read from a copy.
void LinearTiles::emitCopyOfFewSums() {
  Label enough, nextRow;
  cmp(local(Few), 0);
  je(enough);
  mov(temp, local(BlockSums));
  mov(starts[1], local(Rows));
  L(nextRow);
  for (int column = 0; column < 2; ++column) {
    vmovups(vec(column), vectorAt(starts[0], column));
    vmovups(vectorAt(temp, column), vec(column));
  }
  add(starts[0], startRowBytes);
  add(temp, kSumRowBytes);
  dec(starts[1]);
  jnz(nextRow);
  mov(starts[0], local(BlockSums));
  mov(starts[1], starts[0]);
  mov(startRowBytes, kSumRowBytes);
  L(enough);
}

Address LinearTiles::sumAt(int half, int column) {
  return ptr[stores[half] + sumRowBytes + column * kStepElementBytes];
}

void LinearTiles::emitFirstStep(Start start) {
  emitStep(0, {}, [&](int half, int column) {
    const Tmm tile = sum(half, column);
    tilestored(sumAt(half, column), tile);
    if (start == Start::Zero)
      tilezero(tile);
    else
      tileloadd(tile,
                ptr[starts[half] + startRowBytes + column * kStepElementBytes]);
  });
}

/// The steps of a chunk behind the first one.
void LinearTiles::emitOtherSteps(int chunkSteps, bool epilogue) {
  const int count = chunkSteps - 1;
  int row = 0;
  for (int step = 1; step < chunkSteps; ++step) {
    std::vector<Filler> rows;
    for (; epilogue && row < kBlockRows * step / count; ++row)
      rows.push_back([=] { emitRow(finished, row * kSumRowBytes, row); });
    emitStep(step, rows, nullptr);
  }
  for (; epilogue && row < kBlockRows; ++row)
    emitRow(finished, row * kSumRowBytes, row);
}

/// The products of a step. `beside` is spread between them, `beforeFirst` is
/// called for each tile of sums before its first product.
void LinearTiles::emitStep(
    int step, const std::vector<Filler> &rows,
    const std::function<void(int half, int column)> &beforeFirst) {
  std::vector<Filler> beside;
  const int units = int(stepBytes()) / kPrefetchUnitBytes;
  for (int unit = 0; unit < units; ++unit)
    beside.push_back([=] { emitPrefetchUnit(unit); });
  // Rows stand evenly between the prefetches.
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t place = (i + 1) * size_t(units) / rows.size() + i;
    beside.insert(beside.begin() + ptrdiff_t(place), rows[i]);
  }

  size_t placed = 0, multiplied = 0;
  const size_t all = products.size() * 4;
  int inB = -1; // plane in the tiles of B
  int half = 0; // of the tile of A
  int inA = -1; // its plane
  for (const PlaneProduct &product : products) {
    // The half that is there comes first.
    const int first = inA == product.activation ? half : 0;
    bool loaded[2] = {inB == product.weight, inB == product.weight};
    for (int turn = 0; turn < 2; ++turn) {
      half = first ^ turn;
      bool loadedA = turn == 0 && inA == product.activation;
      for (int column = 0; column < 2; ++column) {
        if (!loaded[column])
          tileloadd(bTile(column),
                    ptr[b + bRowBytes + int(step * stepBytes()) +
                        (2 * product.weight + column) * kTileBytes]);
        loaded[column] = true;
        if (!loadedA)
          tileloaddt1(
              aTile,
              ptr[a[half] + aRowBytes + int(product.activation * planeBytes()) +
                  step * kStepElementBytes]);
        loadedA = true;
        if (beforeFirst && &product == &products.front())
          beforeFirst(half, column);
        tdpbf16ps(sum(half, column), aTile, bTile(column));
        ++multiplied;
        for (; placed < beside.size() * multiplied / all; ++placed)
          beside[placed]();
      }
    }
    inA = product.activation;
    inB = product.weight;
  }
  add(prefetch, prefetchBytes);
}

void LinearTiles::emitPrefetchUnit(int unit) {
  Label enough;
  cmp(prefetchBytes, unit * kPrefetchUnitBytes);
  jbe(enough, T_SHORT);
  for (int line = 0; line < kPrefetchUnitBytes; line += 64)
    prefetcht1(ptr[prefetch + unit * kPrefetchUnitBytes + line]);
  L(enough);
}

/// Points at the operands of the epilogue.
void LinearTiles::emitPendingPointers() {
  mov(c[0], local(PendingC));
  mov(c[1], local(CPanelBytes));
  add(c[1], c[0]);
  if (shape.residual)
    mov(residual, local(PendingResidual));
  if (shape.bias)
    mov(bias, local(PendingBias));
}

/// The epilogue of a row of sums, 32 columns at `sums`: row `row` behind the
/// pointers of the epilogue.
void LinearTiles::emitRow(const Reg64 &sums, int64_t sumsOffset, int row) {
  const Vec left = vec(0), right = vec(1);
  const int results = shape.gated ? 1 : 2;
  vmovups(left, ptr[sums + int(sumsOffset)]);
  vmovups(right, ptr[sums + int(sumsOffset) + vectorBytes]);
  if (shape.bias) {
    vaddps(left, left, vectorAt(bias, 0));
    vaddps(right, right, vectorAt(bias, 1));
  }
  std::vector<MathLane> lanes;
  for (int i = 0; i < results; ++i)
    lanes.emplace_back(vec(i), vec(2 + 3 * i), vec(3 + 3 * i), vec(4 + 3 * i));
  emitActivation(*this, shape.activation, lanes);
  if (shape.gated)
    vmulps(left, left, right);
  if (shape.residual)
    for (int i = 0; i < results; ++i)
      vaddps(vec(i), vec(i), vectorAt(residual + int(row * 4 * shape.ldr), i));
  if (shape.cPlanes > 0)
    return emitPlanes(left, right, row);
  for (int i = 0; i < results; ++i)
    vmovups(ptr[c[i] + int(row * cRowBytes())], vec(i));
}

/// Stores the planes of a row of results; the columns of both panels adjoin.
void LinearTiles::emitPlanes(const Vec &left, const Vec &right, int row) {
  const Vec planes = vec(2), half = vec(3);
  const auto subtract = [&](const Vec &value, int index) {
    // What the plane holds, as f32.
    if (index == 0)
      vpmovzxwd(half, Ymm(planes.getIdx()));
    else {
      vextracti64x4(Ymm(half.getIdx()), Zmm(planes.getIdx()), 1);
      vpmovzxwd(half, Ymm(half.getIdx()));
    }
    vpslld(half, half, 16);
    vsubps(value, value, half);
  };
  for (int plane = 0; plane < shape.cPlanes; ++plane) {
    const Address place =
        ptr[c[0] + int(row * cRowBytes() + plane * 2 * shape.cPlaneStride)];
    if (shape.gated) {
      vcvtneps2bf16(Ymm(planes.getIdx()), left);
      vmovups(place, Ymm(planes.getIdx()));
    } else {
      vcvtne2ps2bf16(planes, right, left);
      vmovups(place, planes);
    }
    if (plane + 1 == shape.cPlanes)
      return;
    subtract(left, 0);
    if (!shape.gated)
      subtract(right, 1);
  }
}

/// The epilogue of the block before, with nothing beside it.
void LinearTiles::emitDrain() {
  const Reg64 sums = stores[0], rows = stores[1];
  Label nextRow, done;
  mov(rows, local(PendingRows));
  test(rows, rows);
  jz(done);
  emitPendingPointers();
  mov(sums, finished);
  L(nextRow);
  emitRow(sums, 0, 0);
  add(sums, kSumRowBytes);
  for (const Reg64 &panel : c)
    add(panel, int(cRowBytes()));
  if (shape.residual)
    add(residual, int(4 * shape.ldr));
  dec(rows);
  jnz(nextRow);
  L(done);
}
