//===- AttentionPack.cpp - keys and values as tiles read them -------------===//

#include "codegen/Kernels/AttentionPack.h"

#include <cstddef>

using namespace encast;
using namespace Xbyak;

static constexpr int kTileRows = 16;
static constexpr int kTileRowBytes = 64;
static constexpr int kTileBytes = kTileRows * kTileRowBytes;
static constexpr int kStepBytes = 64; // of 32 dims

/// Tokens from this one of a sequence on are written past the caches: packed
/// rows of so many fall out of the L2 before they are read, in models of the
/// usual width, and a line that is not read first is written in half the time.
static constexpr int kStreamedPosition = 2048;

namespace {
enum Local { Position, Locals }; // of the first token
} // namespace

AttentionPack::AttentionPack(const KernelRow &row, const AttentionShape &shape)
    : VectorAssembler(row.vectorBytes), shape(shape),
      planes(activationPlanes(shape.arithmetic)),
      steps(planeStride(shape.headSize) / 32),
      blockBytes(int(kTileKeys * packedRowBytes(shape))) {}

bool AttentionPack::generate(std::vector<uint8_t> &code, std::string &error) {
  const int blockRowsBytes = int(kTileKeys * shape.ldkv * 2);
  enter(Locals);
  emitFirstBlock();
  Label nextBlock, whole, streamed, done, allWritten;
  L(nextBlock);
  emitTokens();
  cmp(present.cvt32(), -1);
  je(whole);
  emitBlock(Block::Partial);
  jmp(done);
  L(whole);
  cmp(local(Position), kStreamedPosition);
  jge(streamed);
  emitBlock(Block::Whole);
  jmp(done);
  L(streamed);
  emitBlock(Block::Streamed);
  L(done);
  xor_(firstRow, firstRow);
  add(k, blockRowsBytes);
  add(v, blockRowsBytes);
  add(packedK, blockBytes);
  add(packedV, blockBytes);
  sub(rowsLeft, int(kTileKeys));
  jg(nextBlock);
  cmp(local(Position), kStreamedPosition);
  jl(allWritten);
  sfence(); // Other threads wait for ordinary stores only.
  L(allWritten);
  leave();

  // Of the low and the high halves of 128-bit lanes: the quarters that make a
  // row of the first tile, then of the second one.
  align(64);
  L(interleave);
  for (uint64_t quarter :
       {0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15})
    dq(quarter);
  return finish(code, error);
}

/// The block of the first token, as if all of its rows were at hand.
void AttentionPack::emitFirstBlock() {
  const Reg64 positions = written;
  mov(k, ptr[args + offsetof(AttentionPackArgs, k)]);
  mov(v, ptr[args + offsetof(AttentionPackArgs, v)]);
  mov(packedK, ptr[args + offsetof(AttentionPackArgs, packedK)]);
  mov(packedV, ptr[args + offsetof(AttentionPackArgs, packedV)]);
  mov(rowsLeft, ptr[args + offsetof(AttentionPackArgs, rows)]);
  mov(positions, ptr[args + offsetof(AttentionPackArgs, positions)]);
  mov(firstRow.cvt32(), dword[positions]);
  mov(local(Position), firstRow);
  mov(next.cvt32(), dword[positions + rowsLeft * 4]);
  and_(firstRow, int(kTileKeys) - 1);
  add(rowsLeft, firstRow);
  imul(bits, firstRow, int(shape.ldkv * 2));
  sub(k, bits);
  sub(v, bits);
  imul(bits, firstRow, int(packedRowBytes(shape)));
  sub(packedK, bits);
  sub(packedV, bits);
}

/// Which tokens of the block are at hand, and which are to be written.
void AttentionPack::emitTokens() {
  Label goesOn, done;
  const Reg64 end = bits;
  mov(end, int(kTileKeys));
  cmp(end, rowsLeft);
  cmovg(end, rowsLeft);
  mov(written, -1);
  shlx(written, written, firstRow);
  bzhi(present, written, end);
  test(next, next);
  jnz(goesOn);
  cmp(rowsLeft, int(kTileKeys));
  jle(done);
  L(goesOn);
  mov(written, present);
  L(done);
}

void AttentionPack::emitBlock(Block block) {
  Label nextStep;
  if (block == Block::Whole) {
    // The last one fetches its own lines, as the next may be another thread's.
    mov(kStep, blockBytes);
    xor_(ahead, ahead);
    cmp(rowsLeft, int(kTileKeys));
    cmovg(ahead, kStep);
  }
  mov(kStep, k);
  mov(vStep, v);
  mov(packedKStep, packedK);
  mov(packedVStep, packedV);
  mov(stepsLeft, steps);
  L(nextStep);
  for (int plane = 0; plane < planes; ++plane) {
    for (int half = 0; half < 2; ++half)
      emitKeyTile(half, plane, block);
    emitValueTiles(plane, block);
  }
  add(kStep, kStepBytes);
  add(vStep, kStepBytes);
  add(packedKStep, planes * kTileBytes);
  add(packedVStep, planes * 2 * kTileBytes);
  dec(stepsLeft);
  jnz(nextStep);
}

void AttentionPack::emitRow(const Vec &vec, const Reg64 &rows, int64_t token,
                            int plane, Block block) {
  Label absent;
  if (block == Block::Partial) {
    clear(vec);
    bt(present.cvt32(), uint8_t(token));
    jnc(absent);
  }
  vmovdqu64(
      vec,
      ptr[rows + size_t(token * shape.ldkv + plane * shape.kvPlaneStride) * 2]);
  L(absent);
}

void AttentionPack::emitWholeLine(const RegExp &line, const Zmm &value,
                                  Block block) {
  if (block == Block::Streamed)
    return vmovntdq(ptr[line], value);
  // A store alone begins to wait for its line when its turn has come.
  prefetchw(ptr[line + ahead]);
  vmovdqa64(ptr[line], value);
}

void AttentionPack::emitKeyTile(int half, int plane, Block block) {
  for (int row = 0; row < kTileRows; ++row)
    emitRow(vec(row), kStep, half * kTileRows + row, plane, block);
  transpose16();
  if (block == Block::Partial) {
    rorx(bits.cvt32(), written.cvt32(), uint8_t(half * kTileRows));
    kmovw(k1, bits.cvt32());
  }
  const size_t tile = size_t(half) * size_t(steps * planes) + size_t(plane);
  for (int row = 0; row < kTileRows; ++row) {
    const RegExp line =
        packedKStep + tile * kTileBytes + size_t(row) * kTileRowBytes;
    if (block == Block::Partial)
      vmovdqa32(ptr[line] | k1, Zmm(row));
    else
      emitWholeLine(line, Zmm(row), block);
  }
}

/// Transposes 16 x 16 twos of bf16 in vec(0) to vec(15).
void AttentionPack::transpose16() {
  for (int i = 0; i < 16; i += 2) {
    vpunpckldq(vec(16 + i), vec(i), vec(i + 1));
    vpunpckhdq(vec(17 + i), vec(i), vec(i + 1));
  }
  // Lane l of vec(4 * g + j): column 4 * l + j of rows 4 * g on.
  for (int i = 0; i < 16; i += 4)
    for (int j = 0; j < 2; ++j) {
      vpunpcklqdq(vec(i + 2 * j), vec(16 + i + j), vec(18 + i + j));
      vpunpckhqdq(vec(i + 2 * j + 1), vec(16 + i + j), vec(18 + i + j));
    }
  const uint8_t even = 0x88, odd = 0xdd; // lanes 0 and 2, or 1 and 3, of both
  for (int j = 0; j < 4; ++j) {
    vshufi32x4(Zmm(16 + j), Zmm(j), Zmm(4 + j), even);
    vshufi32x4(Zmm(20 + j), Zmm(j), Zmm(4 + j), odd);
    vshufi32x4(Zmm(24 + j), Zmm(8 + j), Zmm(12 + j), even);
    vshufi32x4(Zmm(28 + j), Zmm(8 + j), Zmm(12 + j), odd);
  }
  for (int j = 0; j < 4; ++j) {
    vshufi32x4(Zmm(j), Zmm(16 + j), Zmm(24 + j), even);
    vshufi32x4(Zmm(4 + j), Zmm(20 + j), Zmm(28 + j), even);
    vshufi32x4(Zmm(8 + j), Zmm(16 + j), Zmm(24 + j), odd);
    vshufi32x4(Zmm(12 + j), Zmm(20 + j), Zmm(28 + j), odd);
  }
}

void AttentionPack::emitValueTiles(int plane, Block block) {
  const Vec first = vec(0), second = vec(1), low = vec(2), high = vec(3);
  const Zmm tileRow(4);
  for (int64_t row = 0; row < kTileRows; ++row) {
    const int64_t keys[2] = {probabilityKey(shape.arithmetic, 2 * row),
                             probabilityKey(shape.arithmetic, 2 * row + 1)};
    emitRow(first, vStep, keys[0], plane, block);
    emitRow(second, vStep, keys[1], plane, block);
    if (block == Block::Partial)
      emitValueMask(keys[0], keys[1]);
    vpunpcklwd(low, first, second);
    vpunpckhwd(high, first, second);
    for (int tile = 0; tile < 2; ++tile) {
      vmovdqa64(tileRow, ptr[rip + interleave + tile * 64]);
      vpermi2q(tileRow, low, high);
      const RegExp line = packedVStep + size_t(plane * 2 + tile) * kTileBytes +
                          size_t(row) * kTileRowBytes;
      if (block == Block::Partial)
        vmovdqu16(ptr[line] | k1, tileRow);
      else
        emitWholeLine(line, tileRow, block);
    }
  }
}

/// k1 = words of two tokens in turns, as far as they are to be written.
void AttentionPack::emitValueMask(int64_t first, int64_t second) {
  const auto wordsOf = [&](const Opmask &mask, int64_t key, int words) {
    rorx(bits.cvt32(), written.cvt32(), uint8_t(key));
    and_(bits.cvt32(), 1);
    imul(bits.cvt32(), bits.cvt32(), words);
    kmovd(mask, bits.cvt32());
  };
  wordsOf(k1, first, 0x55555555);
  wordsOf(k2, second, int(0xaaaaaaaa));
  kord(k1, k1, k2);
}
