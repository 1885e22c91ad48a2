//===- AttentionPack.h - keys and values as tiles read them -----*- C++ -*-===//
///
/// \file
/// The layout of packed keys and values, and the generator behind the rows of
/// Kernels.def that make it.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_KERNELS_ATTENTIONPACK_H
#define ENCAST_CODEGEN_KERNELS_ATTENTIONPACK_H

#include "codegen/Kernels/KernelArgs.h"
#include "codegen/Kernels/Kernels.h"
#include "codegen/Kernels/VectorAssembler.h"

namespace encast {

/// Keys of a block: the rows of a tile of values, in twos.
constexpr int64_t kTileKeys = 32;

/// Scores of Bf16 are in units of 1/128: bf16 words as integers.
constexpr float kBf16ScoreUnit = 128;

/// The key of a block whose probability stands at `position` of a row of
/// probabilities. Bf16 converts two vectors of 16 keys by one instruction that
/// takes four keys of each in turns; the others put key i of both vectors side
/// by side.
constexpr int64_t probabilityKey(Arithmetic arithmetic, int64_t position) {
  if (arithmetic == Arithmetic::Bf16)
    return position / 8 * 4 + position % 4 + position % 8 / 4 * 16;
  return position / 2 + position % 2 * 16;
}

/// The element of packed keys that holds a plane of dimension `dim` of `key`. A
/// block of 32 keys is [2 tiles of 16 keys][32 dims][planes][two of dims][16
/// keys][2 dims].
constexpr int64_t packedKeyElement(const AttentionShape &shape, int64_t key,
                                   int64_t dim, int64_t plane) {
  const int64_t planes = activationPlanes(shape.arithmetic);
  const int64_t steps = planeStride(shape.headSize) / 32;
  const int64_t tile = ((key / 16) * steps + dim / 32) * planes + plane;
  return tile * 512 + dim % 32 / 2 * 32 + key % 16 * 2 + dim % 2;
}

/// The same of packed values, for the key that stands at `position` of the rows
/// of probabilities (probabilityKey) of block `block`. A block of 32 keys is
/// [32 dims][planes][2 tiles of 16 dims][two of positions][16 dims][2
/// positions].
constexpr int64_t packedValueElement(const AttentionShape &shape, int64_t block,
                                     int64_t position, int64_t dim,
                                     int64_t plane) {
  const int64_t planes = activationPlanes(shape.arithmetic);
  const int64_t steps = planeStride(shape.headSize) / 32;
  const int64_t tile =
      ((block * steps + dim / 32) * planes + plane) * 2 + dim % 32 / 16;
  return tile * 512 + position / 2 * 32 + dim % 16 * 2 + position % 2;
}

/// Packs tokens as AttentionPackArgs says, 32 dims of 32 tokens at a time:
///
///            32 dims                    16 keys, 2 dims of each
///          +---------+                      +---------+
///   16 k   |  16 x   |   transpose 16 x 16  |  tile   |   zmm0..zmm15
///   rows   | 2 dims  |   twos of dims       |  of k   |
///          +---------+                      +---------+
///                                     16 dims, 2 keys of each
///   2 v    +---------+   interleave    +---------+---------+
///   rows   |         |   words         | 1 row of| 2 tiles |   zmm0..zmm4
///          +---------+                 +---------+---------+
///
///   for each block of 32 tokens, for each 32 dims, for each plane
///     two tiles of k, 16 rows of two tiles of v
///
/// Blocks are those of the sequence. Of the first and the last one there may be
/// some tokens only: others, which another call packs, are left as they are;
/// behind the last token of the sequence there is zero.
class AttentionPack final : public VectorAssembler {
public:
  AttentionPack(const KernelRow &row, const AttentionShape &shape);
  bool generate(std::vector<uint8_t> &code, std::string &error);

private:
  /// How a block is written: tokens of it, all of it, all of it past the
  /// caches.
  enum class Block { Partial, Whole, Streamed };

  void emitFirstBlock();
  void emitTokens();
  void emitBlock(Block block);
  void emitKeyTile(int half, int plane, Block block);
  void emitValueTiles(int plane, Block block);
  void emitValueMask(int64_t first, int64_t second);
  /// A row of 32 dims of the token, or zeros if it is not at hand.
  void emitRow(const Vec &vec, const Xbyak::Reg64 &rows, int64_t token,
               int plane, Block block);
  /// Stores a line of a block that is not partial, and fetches that of the next
  /// block.
  void emitWholeLine(const Xbyak::RegExp &line, const Xbyak::Zmm &value,
                     Block block);
  void transpose16();

  const AttentionShape shape;
  const int planes;
  const int64_t steps; // of 32 dims
  const int blockBytes;
  Xbyak::Label interleave;

  const Xbyak::Reg64 args = rdi;
  const Xbyak::Reg64 k = rax, v = rbx;             // the block's first row
  const Xbyak::Reg64 packedK = rcx, packedV = rdx; // the block
  const Xbyak::Reg64 rowsLeft = r12;               // from the block on
  const Xbyak::Reg64 firstRow = r14; // of the block that is at hand
  const Xbyak::Reg64 next = r15;     // 0: the last row ends its sequence
  // A bit for each row of the block: at hand, to be written.
  const Xbyak::Reg64 present = rsi, written = rbp;
  const Xbyak::Reg64 bits = r13;
  const Xbyak::Reg64 ahead = bits; // of a whole block: bytes to the next one
  const Xbyak::Reg64 kStep = r8, vStep = r9; // the same at 32 dims
  const Xbyak::Reg64 packedKStep = r10, packedVStep = r11;
  const Xbyak::Reg64 stepsLeft = rdi; // args are read then
};

} // namespace encast

#endif // ENCAST_CODEGEN_KERNELS_ATTENTIONPACK_H
