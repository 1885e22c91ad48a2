//===- LinearTiles.cpp - bf16 matrix products on tiles --------------------===//

#include "codegen/Kernels/LinearTiles.h"
#include "codegen/Kernels/VectorMath.h"

#include <algorithm>
#include <cstddef>

using namespace encast;
using namespace Xbyak;

static constexpr int kTileRows = 16;
static constexpr int kTileRowBytes = 64;
static constexpr int kTileBytes = kTileRows * kTileRowBytes;
static constexpr int kBlockRows = 2 * kTileRows;
static constexpr int kStepLength = 32; // k of a step, which fill a tile's row
// Sums of a row, a half and a block: 32 columns in f32.
static constexpr int kSumRowBytes = 2 * kTileRowBytes;
static constexpr int kHalfSumBytes = kTileRows * kSumRowBytes;
static constexpr int kBlockSumBytes = kBlockRows * kSumRowBytes;
// What the tiles of A and B of a block and a chunk may take. A chunk of B has
// to stay in the L1 (48 KB) while those of A pass.
static constexpr int kChunkBytes = 64 << 10;
// Where f32 weights are split, two chunks of planes of B have to stay there.
static constexpr int kSplitChunkSteps = 2;
static constexpr int kSplitPlaneBytes = kSplitChunkSteps * 2 * kTileBytes;
static constexpr int kSplitPlanes = 3;
static constexpr int kSplitChunkBytes = kSplitPlanes * kSplitPlaneBytes;
// Places in a step where rows of tiles are split, and the step's share of each.
static constexpr int kSites = 8;
static constexpr int kSiteRows = 2 * kTileRows / kSites;
static constexpr int kSplitRowBytes = 2 * kTileRowBytes; // in f32
// How far ahead f32 weights are fetched: what two steps take.
static constexpr int kAheadBytes = 8 << 10;
// Blocks whose sums the workspace holds; the rows of A of more would not stay
// in the L2.
static constexpr int kGroupBlocks = 16;
static constexpr int kGroupRows = kGroupBlocks * kBlockRows;
// Lines are prefetched in twos.
static constexpr int kCacheLine = 64;
static constexpr int kPrefetchUnitBytes = 2 * kCacheLine;

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
  Ahead,
  Few,       // 1 if the call has less than 16 rows
  TailTile0, // first rows of the halves of the last block, if it is not full:
  TailTile1, // relative to the block, maybe negative
  PanelsLeft,
  PairC, // first row of the group
  PairBias,
  PairResidual,
  ChunkA, // first row of the group, first step of the chunk
  ChunkB,
  NextPair,       // what ChunkB will be in it
  NextChunkBytes, // of f32 weights, 0 behind the last pair
  ChunksLeft,     // of those between the first and the last one
  RowsLeft,       // of the group, this block's included
  Tile0,          // first rows of the halves, relative to the block
  Tile1,
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
      steps((shape.k + kStepLength - 1) / kStepLength) {
  const int most = chunkLimit();
  const int64_t count = (steps + most - 1) / most;
  for (int64_t i = 0; i < count; ++i)
    chunks.push_back(int(steps / count + (i < steps % count)));
}

int LinearTiles::chunkLimit() const {
  if (splits())
    return kSplitChunkSteps;
  const int planes =
      activationPlanes(row.arithmetic) + weightPlanes(row.arithmetic);
  return kChunkBytes / (2 * kTileBytes * planes);
}

int LinearTiles::stepBytes() const {
  if (splits())
    return 2 * kTileRows * kSplitRowBytes;
  return 2 * kTileBytes * weightPlanes(row.arithmetic);
}

// The workspace: rows that a tile overlaps, `finished`, the sums of a group,
// rows again in front of its last block; where weights are split, where that
// ends for now and how many rows at a place, and two chunks; copies of less
// than 16 rows of A.
static constexpr int kFinishedOffset = kHalfSumBytes;
static constexpr int kSumsOffset = kFinishedOffset + kBlockSumBytes;
static constexpr int kSplitEndOffset =
    kSumsOffset + kGroupBlocks * kBlockSumBytes + kHalfSumBytes;
static constexpr int kSplitShareOffset = kSplitEndOffset + 8;
static constexpr int kSplitOffset = kSplitEndOffset + kCacheLine;

int64_t LinearTiles::copyOffset() const {
  return splits() ? kSplitOffset + 2 * kSplitChunkBytes : kSplitEndOffset;
}

int64_t LinearTiles::workspaceBytes() const {
  const int64_t copyBytes = kTileRows * aRowStride();
  return copyOffset() + (copyBytes + 63) / 64 * 64;
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
  if (splits())
    emitSplitRows();
  return finish(code, error);
}

void LinearTiles::emitArguments() {
  copyArguments(args, temp,
                {{Rows, offsetof(LinearArgs, rows)},
                 {GroupA, offsetof(LinearArgs, a)},
                 {GroupC, offsetof(LinearArgs, c)},
                 {GroupResidual, offsetof(LinearArgs, residual)},
                 {B, offsetof(LinearArgs, b)},
                 {Bias, offsetof(LinearArgs, bias)},
                 {Panels, offsetof(LinearArgs, panels)},
                 {Ahead, offsetof(LinearArgs, ahead)},
                 {CPanelBytes, offsetof(LinearArgs, cPanelBytes)}});
  mov(finished, ptr[args + offsetof(LinearArgs, workspace)]);
  add(finished, kFinishedOffset);
  // No block came before the first one: what its first step stores is lost.
  mov(stores[0], finished);
  lea(stores[1], ptr[finished + kHalfSumBytes]);
  mov(local(PendingRows), 0);

  mov(aRowBytes, aRowStride());
  mov(bRowBytes, kTileRowBytes);
  if (splits()) {
    // The words of half of a row of a tile, each in front of a zero.
    vmovdqu32(leftWords, ptr[rip + splitWords]);
    mov(temp.cvt32(), kTileRows << 16);
    vpbroadcastd(rightWords, temp.cvt32());
    vpaddd(rightWords, rightWords, leftWords);
    mov(temp.cvt32(), 0xaaaaaaaa);
    kmovd(highWords, temp.cvt32());
  }
}

/// Less than 16 rows are read from a copy.
void LinearTiles::emitCopyOfFewRows() {
  const int64_t copiedBytes = // of each row
      activationPlanes(row.arithmetic) * planeBytes();
  Label enough, nextRow, nextVector;
  mov(local(Few), 0);
  cmp(local(Rows), kTileRows);
  jae(enough);
  mov(local(Few), 1);
  mov(a[0], local(GroupA));
  lea(a[1], ptr[finished + (copyOffset() - kFinishedOffset)]);
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

void LinearTiles::copyLocals(
    std::initializer_list<std::pair<int, int>> toAndFrom) {
  for (auto [to, from] : toAndFrom) {
    mov(temp, local(from));
    mov(local(to), temp);
  }
}

void LinearTiles::emitGroup() {
  mov(temp, kGroupRows);
  cmp(temp, local(Rows));
  cmova(temp, local(Rows));
  mov(local(GroupRows), temp);
  emitShare();
  emitTailTiles();
  copyLocals({{ChunkB, B},
              {PanelsLeft, Panels},
              {PairC, GroupC},
              {PairBias, Bias},
              {PairResidual, GroupResidual}});
  if (splits())
    emitFirstSplit();
  Label nextPair;
  L(nextPair);
  if (!splits())
    emitNextPair();
  emitPair();
  sub(local(PanelsLeft), 2);
  jnz(nextPair);

  mov(temp, local(GroupRows));
  sub(local(Rows), temp);
  const auto advance = [&](Local place, int64_t rowBytes) {
    imul(starts[0], temp, int(rowBytes));
    add(local(place), starts[0]);
  };
  advance(GroupA, aRowStride());
  advance(GroupC, cRowStride());
  if (shape.residual)
    advance(GroupResidual, residualRowStride());
}

/// What a step fetches of the next pair, or a place in it splits of the next
/// chunk: as much as it multiplies, divided by the blocks.
void LinearTiles::emitShare() {
  // rax, rcx and rdx, which div needs, get their meaning behind this.
  static_assert(kBlockRows == 32, "a shift divides");
  mov(rcx, local(GroupRows));
  add(rcx, kBlockRows - 1);
  shr(rcx, 5);
  lea(rax, ptr[rcx - 1]);
  add(rax, splits() ? kSiteRows : stepBytes() / kPrefetchUnitBytes);
  xor_(edx, edx);
  div(rcx);
  if (splits())
    mov(ptr[finished + (kSplitShareOffset - kFinishedOffset)], rax);
  else
    imul(prefetchBytes, rax, kPrefetchUnitBytes);
  mov(aRowBytes, aRowStride());
}

/// Where the next pair lies; fetches nothing if there is none.
void LinearTiles::emitNextPair() {
  Label known;
  mov(temp, local(ChunkB));
  add(temp, int(steps * stepBytes()));
  cmp(local(PanelsLeft), 2);
  jne(known);
  mov(starts[0], local(GroupRows));
  mov(temp, local(B));
  cmp(starts[0], local(Rows));
  jne(known);
  mov(temp, local(Ahead));
  test(temp, temp);
  cmovz(prefetchBytes, temp);
  L(known);
  mov(local(NextPair), temp);
}

/// Splits the first chunk of the first pair.
void LinearTiles::emitFirstSplit() {
  mov(source, local(B));
  for (int line = 0; line < kAheadBytes; line += kCacheLine)
    prefetcht1(ptr[source + line]);
  mov(local(NextChunkBytes), chunkBytes(0));
  // As if the other place held the chunk before.
  lea(temp,
      ptr[finished + (kSplitOffset + kSplitChunkBytes - kFinishedOffset)]);
  mov(local(ChunkB), temp);
  emitNextSplit();
  emitSplitRest();
}

/// Splits the chunk behind this one from now on.
void LinearTiles::emitNextSplit() {
  mov(temp, source);
  add(temp, local(NextChunkBytes));
  mov(ptr[finished + (kSplitEndOffset - kFinishedOffset)], temp);
  emitOtherPlace(target);
}

/// Points at the one of the two places of chunks where ChunkB is not.
void LinearTiles::emitOtherPlace(const Reg64 &pointer) {
  lea(pointer, ptr[finished + finished +
                   (2 * (kSplitOffset - kFinishedOffset) + kSplitChunkBytes)]);
  sub(pointer, local(ChunkB));
}

/// Splits what is left of the chunk behind this one, and goes there.
void LinearTiles::emitSplitRest() {
  mov(splitCount, int64_t(kSplitChunkSteps) * 2 * kTileRows);
  call(splitRows);
  emitOtherPlace(temp);
  mov(local(ChunkB), temp);
}

/// A subroutine: splits the next rows, as many as `splitCount` says, but none
/// behind the chunk. Changes no general register but those that it advances.
void LinearTiles::emitSplitRows() {
  const Zmm halves[2] = {zmm24, zmm25}, rounded[2] = {zmm26, zmm27};
  const Zmm plane = zmm28;
  Label nextRow, done;
  align(32);
  L(splitRows);
  L(nextRow);
  cmp(source, ptr[finished + (kSplitEndOffset - kFinishedOffset)]);
  jae(done);
  for (int half = 0; half < 2; ++half) {
    vmovups(halves[half], vectorAt(source, half));
    prefetcht1(ptr[source + (kAheadBytes + half * kCacheLine)]);
  }
  for (int i = 0; i < kSplitPlanes; ++i) {
    vcvtne2ps2bf16(plane, halves[1], halves[0]);
    vmovups(ptr[target + size_t(i) * kSplitPlaneBytes], plane);
    if (i + 1 == kSplitPlanes)
      break;
    vpermw(rounded[0] | highWords | T_z, leftWords, plane);
    vpermw(rounded[1] | highWords | T_z, rightWords, plane);
    for (int half = 0; half < 2; ++half)
      vsubps(halves[half], halves[half], rounded[half]);
  }
  add(source, kSplitRowBytes);
  add(target, kTileRowBytes);
  dec(splitCount);
  jnz(nextRow);
  L(done);
  ret();

  align(64);
  L(splitWords);
  for (int word = 0; word < kTileRows; ++word)
    dd(uint32_t(word) << 16);
}

/// The tiles of a last block that is not full end with its last row, or begin
/// with its first one if there are too few rows before it.
void LinearTiles::emitTailTiles() {
  Label done;
  mov(local(TailTile0), 0);
  mov(local(TailTile1), 0);
  cmp(local(Few), 0);
  jne(done);
  mov(temp, local(GroupRows));
  and_(temp, kBlockRows - 1);
  sub(temp, kTileRows);
  mov(local(TailTile1), temp);
  jns(done);
  mov(local(TailTile0), temp);
  L(done);
}

void LinearTiles::emitPair() {
  copyLocals({{ChunkA, GroupA}});
  const Start start = shape.accumulate ? Start::C : Start::Zero;
  emitNextChunkBytes(0, 1);
  emitChunk(start, chunks.front(), chunks.size() == 1);
  // Those between the first and the last one: a loop for each length.
  for (size_t first = 1; first + 1 < chunks.size();) {
    size_t behind = first;
    while (behind + 1 < chunks.size() && chunks[behind] == chunks[first])
      ++behind;
    Label nextChunk;
    mov(local(ChunksLeft), int(behind - first));
    L(nextChunk);
    emitNextChunkBytes(first, behind);
    emitChunk(Start::Chunk, chunks[first], /*last=*/false);
    dec(local(ChunksLeft));
    jnz(nextChunk);
    first = behind;
  }
  if (chunks.size() > 1) {
    emitNextChunkBytes(chunks.size() - 1, chunks.size());
    emitChunk(Start::Chunk, chunks.back(), /*last=*/true);
  }

  mov(temp, local(CPanelBytes));
  add(temp, temp);
  add(local(PairC), temp);
  if (shape.bias)
    add(local(PairBias), kSumRowBytes);
  if (shape.residual)
    add(local(PairResidual), shape.gated ? kSumRowBytes / 2 : kSumRowBytes);
}

/// Of the chunk behind this one, which is among those of equal length from
/// `first` to `behind`, ChunksLeft of which are left. The first chunk of the
/// next pair follows the last one, if there is a pair left.
void LinearTiles::emitNextChunkBytes(size_t first, size_t behind) {
  if (!splits())
    return;
  Label known;
  const bool last = behind == chunks.size();
  mov(local(NextChunkBytes), chunkBytes(last ? 0 : behind));
  if (last) {
    cmp(local(PanelsLeft), 2);
    jne(known);
    mov(local(NextChunkBytes), 0);
  } else if (behind - first > 1 && chunks[behind] != chunks[first]) {
    cmp(local(ChunksLeft), 1);
    je(known);
    mov(local(NextChunkBytes), chunkBytes(first));
  }
  L(known);
}

/// All blocks of rows in a chunk of k.
void LinearTiles::emitChunk(Start start, int chunkSteps, bool last) {
  copyLocals({{BlockA, ChunkA},
              {BlockC, PairC},
              {BlockResidual, PairResidual},
              {RowsLeft, GroupRows}});
  lea(temp, ptr[finished + kSumsOffset - kFinishedOffset]);
  mov(local(BlockSums), temp);
  if (splits()) {
    emitNextSplit();
  } else {
    mov(prefetch, local(NextPair));
  }

  Label nextBlock, noEpilogue, stepsDone;
  L(nextBlock);
  emitBlockPointers(start);
  emitFirstStep(start);
  cmp(local(PendingRows), kBlockRows);
  jne(noEpilogue);
  emitPendingPointers();
  call(otherSteps[{chunkSteps, true}]);
  jmp(stepsDone);
  L(noEpilogue);
  // A block that was not full is dealt with at once.
  call(drain);
  call(otherSteps[{chunkSteps, false}]);
  L(stepsDone);

  for (int half = 0; half < 2; ++half)
    emitSumPointer(stores[half], half, last);
  mov(local(PendingRows), 0);
  if (last) {
    mov(temp, kBlockRows);
    cmp(temp, local(RowsLeft));
    cmova(temp, local(RowsLeft));
    mov(local(PendingRows), temp);
    copyLocals({{PendingC, BlockC},
                {PendingBias, PairBias},
                {PendingResidual, BlockResidual}});
  }
  const auto advance = [&](Local place, int64_t rowBytes) {
    mov(temp, kBlockRows * rowBytes);
    add(local(place), temp);
  };
  advance(BlockA, aRowStride());
  advance(BlockC, cRowStride());
  if (shape.residual)
    advance(BlockResidual, residualRowStride());
  advance(BlockSums, kSumRowBytes);
  sub(local(RowsLeft), kBlockRows);
  ja(nextBlock);

  add(local(ChunkA), chunkSteps * kTileRowBytes);
  if (splits()) {
    emitSplitRest();
  } else {
    add(local(ChunkB), chunkSteps * stepBytes());
    add(local(NextPair), chunkSteps * stepBytes());
  }
}

/// Points at the sums of a half of the block: finished ones, or those that wait
/// for the next chunk.
void LinearTiles::emitSumPointer(const Reg64 &pointer, int half,
                                 bool areFinished) {
  imul(pointer, local(Tile0 + half), kSumRowBytes);
  if (areFinished)
    add(pointer, finished);
  else
    add(pointer, local(BlockSums));
}

/// Points at the operands of the block's halves.
void LinearTiles::emitBlockPointers(Start start) {
  Label tail, done;
  cmp(local(RowsLeft), kBlockRows);
  jb(tail);
  mov(local(Tile0), 0);
  mov(local(Tile1), kTileRows);
  jmp(done);
  L(tail);
  copyLocals({{Tile0, TailTile0}, {Tile1, TailTile1}});
  // Tiles that overlap the block before must not reach its sums.
  add(local(BlockSums), kHalfSumBytes);
  L(done);

  mov(b, local(ChunkB));
  for (int half = 0; half < 2; ++half) {
    imul(a[half], local(Tile0 + half), int(aRowStride()));
    add(a[half], local(BlockA));
    if (start == Start::Chunk)
      emitSumPointer(starts[half], half, /*areFinished=*/false);
    if (start == Start::C) {
      imul(starts[half], local(Tile0 + half), int(cRowStride()));
      add(starts[half], local(BlockC));
    }
  }
  if (start == Start::Chunk)
    mov(startRowBytes, kSumRowBytes);
  if (start == Start::C) {
    mov(startRowBytes, cRowStride());
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
  static_assert(kSumRowBytes == 2 * kTileRowBytes, "the stride of B, twice");
  return ptr[stores[half] + bRowBytes * 2 + tileColumn(column)];
}

/// Before its first product a tile is stored and set.
void LinearTiles::emitFirstStep(Start start) {
  emitStep(0, {}, [&](int half, int column) {
    const Tmm tile = sum(half, column);
    tilestored(sumAt(half, column), tile);
    if (start == Start::Zero)
      tilezero(tile);
    else
      tileloadd(tile, ptr[starts[half] + startRowBytes + tileColumn(column)]);
  });
}

/// The steps of a chunk behind the first one.
void LinearTiles::emitOtherSteps(int chunkSteps, bool epilogue) {
  const int count = chunkSteps - 1;
  const int rows = epilogue ? kBlockRows : 0;
  int next = 0;
  const auto rowBeside = [&] {
    return [this, row = next++] { emitRow(finished, row); };
  };
  for (int step = 1; step < chunkSteps; ++step) {
    std::vector<Filler> beside;
    while (next < rows * step / count)
      beside.push_back(rowBeside());
    emitStep(step, beside, [](int, int) {});
  }
  while (next < rows) // a chunk of one step
    rowBeside()();
}

/// `index` with its bits in reverse, below `count`, a power of two: so the
/// first ones of a sequence are spread over it.
static int reversedBits(size_t index, size_t count) {
  size_t result = 0;
  for (size_t bit = 1; bit < count; bit *= 2)
    result = 2 * result + (index & bit ? 1 : 0);
  return int(result);
}

/// The products of a step, with rows of an epilogue and prefetches between
/// them. `beforeFirst` is called for each tile of sums before its first
/// product.
void LinearTiles::emitStep(
    int step, const std::vector<Filler> &rows,
    const std::function<void(int half, int column)> &beforeFirst) {
  std::vector<Filler> beside;
  const size_t units =
      splits() ? kSites : size_t(stepBytes() / kPrefetchUnitBytes);
  for (size_t unit = 0, row = 0; unit < units; ++unit) {
    if (splits())
      beside.push_back([=] {
        mov(splitCount, ptr[finished + (kSplitShareOffset - kFinishedOffset)]);
        call(splitRows);
      });
    else
      beside.push_back([=] { emitPrefetchUnit(reversedBits(unit, units)); });
    for (; row < rows.size() * (unit + 1) / units; ++row)
      beside.push_back(rows[row]);
  }

  const size_t all = products.size() * 4;
  size_t multiplied = 0, placed = 0;
  PlaneProduct loaded = {-1, -1}; // planes in the tiles of A and of B
  int half = 0;                   // in the tile of A
  for (const PlaneProduct &product : products) {
    // The half that is there comes first.
    const int firstHalf = product.activation == loaded.activation ? half : 0;
    for (int turn = 0; turn < 2; ++turn) {
      const bool loadA = turn == 1 || product.activation != loaded.activation;
      const bool loadB = turn == 0 && product.weight != loaded.weight;
      half = firstHalf ^ turn;
      for (int column = 0; column < 2; ++column) {
        if (loadB)
          tileloadd(bTile(column), bAt(step, product.weight, column));
        if (loadA && column == 0)
          tileloaddt1(aTile, aAt(half, product.activation, step));
        if (multiplied < 4)
          beforeFirst(half, column);
        tdpbf16ps(sum(half, column), aTile, bTile(column));
        ++multiplied;
        for (; placed < beside.size() * multiplied / all; ++placed)
          beside[placed]();
      }
    }
    loaded = product;
  }
  if (!splits())
    add(prefetch, prefetchBytes);
}

Address LinearTiles::aAt(int half, int plane, int step) {
  const int64_t column = plane * planeBytes() + int64_t(step) * kTileRowBytes;
  return ptr[a[half] + aRowBytes + size_t(column)];
}

Address LinearTiles::bAt(int step, int plane, int column) {
  const int tile = 2 * plane + column;
  if (splits())
    return ptr[b + bRowBytes +
               (plane * kSplitPlaneBytes + (2 * step + column) * kTileBytes)];
  return ptr[b + bRowBytes + size_t(step * stepBytes() + tile * kTileBytes)];
}

void LinearTiles::emitPrefetchUnit(int unit) {
  Label enough;
  cmp(prefetchBytes, unit * kPrefetchUnitBytes);
  jbe(enough, T_SHORT);
  for (int line = 0; line < kPrefetchUnitBytes; line += kCacheLine)
    prefetcht1(ptr[prefetch + (unit * kPrefetchUnitBytes + line)]);
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

/// The epilogue of row `row` of the sums and of what it points at.
void LinearTiles::emitRow(const Reg64 &sums, int row) {
  const Vec left = vec(0), right = vec(1);
  const int results = shape.gated ? 1 : 2;
  const RegExp sumRow = sums + size_t(row) * kSumRowBytes;
  vmovups(left, vectorAt(sumRow, 0));
  vmovups(right, vectorAt(sumRow, 1));
  if (shape.bias) {
    vaddps(left, left, vectorAt(bias, 0));
    vaddps(right, right, vectorAt(bias, 1));
  }
  std::vector<MathLane> lanes = {MathLane(left, vec(2), vec(3), vec(4))};
  if (!shape.gated)
    lanes.emplace_back(right, vec(5), vec(6), vec(7));
  emitActivation(*this, shape.activation, lanes);
  if (shape.gated)
    vmulps(left, left, right);
  if (shape.residual) {
    const RegExp place = residual + size_t(row * residualRowStride());
    for (int i = 0; i < results; ++i)
      vaddps(vec(i), vec(i), vectorAt(place, i));
    emitPrefetchOfNextPair(place);
  }
  if (shape.cPlanes > 0)
    return emitPlanes(left, right, row);
  emitPrefetchOfNextPair(c[0] + size_t(row * cRowStride()));
  for (int i = 0; i < results; ++i)
    vmovups(ptr[c[i] + size_t(row * cRowStride())], vec(i));
}

/// Fetches what the next pair of panels reads or writes in a row of f32. Rows
/// lie far apart, in memory if there are many.
void LinearTiles::emitPrefetchOfNextPair(const RegExp &place) {
  const int lines = shape.gated ? 1 : 2;
  for (int line = lines; line < 2 * lines; ++line)
    prefetcht1(ptr[place + size_t(line * kCacheLine)]);
}

/// Stores the planes of a row of results; the columns of both panels adjoin.
void LinearTiles::emitPlanes(const Vec &left, const Vec &right, int row) {
  const Zmm plane(2), rest(3);
  const Ymm halfPlane(2), halfRest(3);
  const auto subtract = [&](const Vec &value, const Ymm &rounded) {
    vpmovzxwd(rest, rounded);
    vpslld(rest, rest, 16);
    vsubps(value, value, rest);
  };
  for (int i = 0; i < shape.cPlanes; ++i) {
    const int64_t offset = row * cRowStride() + i * shape.cPlaneStride * 2;
    const Address place = ptr[c[0] + size_t(offset)];
    if (shape.gated) {
      vcvtneps2bf16(halfPlane, left);
      vmovups(place, halfPlane);
    } else {
      vcvtne2ps2bf16(plane, right, left);
      vmovups(place, plane);
    }
    if (i + 1 == shape.cPlanes)
      return;
    subtract(left, halfPlane);
    if (!shape.gated) {
      vextracti64x4(halfRest, plane, 1);
      subtract(right, halfRest);
    }
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
  emitRow(sums, 0);
  add(sums, kSumRowBytes);
  for (const Reg64 &panel : c)
    add(panel, int(cRowStride()));
  if (shape.residual)
    add(residual, int(residualRowStride()));
  dec(rows);
  jnz(nextRow);
  L(done);
}
