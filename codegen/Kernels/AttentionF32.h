//===- AttentionF32.h - f32 flash attention ---------------------*- C++ -*-===//
///
/// \file
/// The generator behind the attention rows of Kernels.def.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_KERNELS_ATTENTIONF32_H
#define ENCAST_CODEGEN_KERNELS_ATTENTIONF32_H

#include "codegen/Kernels/KernelArgs.h"
#include "codegen/Kernels/Kernels.h"
#include "codegen/Kernels/VectorAssembler.h"

#include <functional>

namespace encast {

/// softmax(q k^T * scale) v as KernelArgs.h says, in transposed form: a query
/// of a head is a lane, so that maxima and sums need no horizontal step. The
/// heads of a query are lanes side by side. A block of lanes is three vectors
/// wide, or two or one for the last queries. The two products use one register
/// tile, drawn with the numbers of AVX-512; AVX2 has 4 rows:
///
///                lanes 0..15  16..31      32..47
///               +-----------+-----------+-----------+
///   row 0       | acc(0, 0) | acc(0, 1) | acc(0, 2) |  zmm0..zmm23 (ymm0..11)
///   ...         |           |           |           |
///   row 7       | acc(7, 0) | acc(7, 1) | acc(7, 2) |
///               +-----------+-----------+-----------+
///   vector side |  lane(0)  |  lane(1)  |  lane(2)  |  zmm24..26 (ymm12..14),
///   row side    |              broadcast            |  zmm27..31 (ymm15)
///
///   scores  S^T[key][lane] = sum over dim of k[key][dim] * q^T[dim][lane]
///   values  o^T[dim][lane] += sum over key of v[key][dim] * P^T[key][lane]
///
///   for each group of blocks of lanes
///     transpose q into the workspace, times scale * log2(e)
///     for each block of keys (up to the next multiple of kAttentionKeyBlock),
///     for each block of the group
///       scores of the block into S^T, and the maximum of each lane
///       where a maximum grew: rescale sums and o^T of all lanes by
///         2^(old - new), which is exactly 1 for the other lanes
///       P^T = 2^(S^T - maximum) in place, added to the sums in key order
///       values
///     transpose o^T / sums out
///
/// With a window a group is one block, and its keys are those of any of its
/// lanes. Only tiles that reach beyond the window of a lane are masked:
///
///   keys        first ............................................. end
///   first lane  |<------- its window ------->|
///   last lane              |<------- its window ------->|
///   tiles       |  masked  |    not masked   |  masked  |
///
/// A masked score is -infinity, so its probability is exactly 0, which changes
/// no bit of sums and o^T. Maxima start from the lowest finite number: a lane
/// that has seen masked keys only keeps sums of 0, and its first key rescales
/// them by exactly 0. A wider block would walk more keys that few lanes need,
/// so AVX-512 takes two vectors at most.
///
/// Workspace: for each block of the group its state, q^T [headSize][lanes] |
/// o^T [headSize][lanes] | maximum | new maximum | sum | position [lanes], and
/// 8-byte offsets of rows of q and out [lanes]; behind them S^T
/// [kAttentionKeyBlock][lanes], which all blocks share.
class AttentionF32 final : public VectorAssembler {
public:
  AttentionF32(const KernelRow &row, const AttentionShape &shape);
  bool generate(std::vector<uint8_t> &code, std::string &error);

  int64_t workspaceBytes() const;

private:
  /// A block of queries: how many vectors wide, and the tile that goes with it.
  struct Block {
    int vectors; ///< 1 to 3
    int rows;    ///< keys or dims of a full tile, a power of two
  };
  Block blockOf(int vectors) const;
  int rowBytes(Block block) const { return block.vectors * vectorBytes; }
  /// Of a row of q^T, o^T or S^T.
  int rowOffset(Block block, int row) const { return row * rowBytes(block); }

  Vec acc(Block block, int row, int vector) const {
    return vec(row * block.vectors + vector);
  }
  /// Registers behind the accumulators of a tile of that many rows.
  Vec spare(Block block, int rows, int index) const {
    return vec(rows * block.vectors + index);
  }

  bool hasWindow() const { return shape.window >= 0; }

  void emitGroup(Block block);
  void emitLanes(Block block);
  void emitQueriesIn(Block block);
  void emitKeyRange(Block block);
  void emitScores(Block block);
  void emitScoreTile(Block block, int keys);
  void emitMask(Block block, int keys);
  void emitRescale(Block block);
  void emitSoftmax(Block block);
  void emitValues(Block block);
  void emitValueTile(Block block, int firstDim, int dims);
  void emitOut(Block block);

  /// One step of a product: `rows` values from `rowSide` on, `strideBytes`
  /// apart, times the vectors at `vectorSide`.
  void emitStep(Block block, int rows, const Xbyak::RegExp &rowSide,
                int strideBytes, const Xbyak::RegExp &vectorSide);
  /// Jumps unless the block of keys is the first one of this block of lanes.
  void jumpIfLaterKeys(Xbyak::Label &target);
  /// Transposes 4x4 floats in each 128-bit lane of four registers.
  void transpose4(const Vec (&rows)[4], const Vec (&temps)[4]);

  /// Emits a loop over the blocks of the group, with `state` at theirs.
  void forEachBlock(const std::function<void()> &body);
  /// Emits body(dims) in a loop over the full planes of the head, then once
  /// for the dims left, if any.
  void forEachPlane(const std::function<void(int dims)> &body,
                    const std::function<void()> &advance);

  const AttentionShape shape;
  const int maxVectors;                                  // of a block
  const int oOffset, maxOffset, newMaxOffset, sumOffset; // in a state
  const int positionOffset, queryRowOffset, outRowOffset;
  const int stateBytes;
  const int maxGroupSize;

  const Xbyak::Reg64 args = rdi;
  const Xbyak::Reg64 state = rsi; // of the block at hand
  const Xbyak::Reg64 kvPlaneBytes = rbp;
  const Xbyak::Reg64 firstKey = r12;             // of the block of keys
  const Xbyak::Reg64 kBlock = r13, vBlock = r14; // its first row, in plane 0
  const Xbyak::Reg64 blockKeys = r15;
  const Xbyak::Reg64 rowPtr = rax;    // a row of q, k, v or out
  const Xbyak::Reg64 planePtr = rbx;  // rowPtr in the plane at hand
  const Xbyak::Reg64 vectorPtr = rcx; // in q^T or o^T
  const Xbyak::Reg64 scorePtr = rdx;  // in S^T
  const Xbyak::Reg64 planesLeft = r8;
  const Xbyak::Reg64 rowsLeft = r9; // keys, queries or groups of dims
  const Xbyak::Reg64 step = r10;    // bytes between rows or planes
  const Xbyak::Reg64 temp = r11;
};

} // namespace encast

#endif // ENCAST_CODEGEN_KERNELS_ATTENTIONF32_H
