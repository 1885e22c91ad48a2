//===- LinearTiles.h - bf16 matrix products on tiles ------------*- C++ -*-===//
///
/// \file
/// The generator behind the bf16 linear rows of Kernels.def.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_KERNELS_LINEARTILES_H
#define ENCAST_CODEGEN_KERNELS_LINEARTILES_H

#include "codegen/Kernels/KernelArgs.h"
#include "codegen/Kernels/Kernels.h"
#include "codegen/Kernels/VectorAssembler.h"

#include <functional>
#include <initializer_list>
#include <map>
#include <utility>
#include <vector>

namespace encast {

/// A product of an activation's plane and a weight's plane.
struct PlaneProduct {
  int activation, weight;
};
/// The products of a bf16 Arithmetic, in the order in which a step adds them:
/// from one to the next a single side changes, so that few tiles are loaded.
const std::vector<PlaneProduct> &planeProducts(Arithmetic arithmetic);

/// C = epilogue(A * B) as KernelArgs.h says, by tiles of 16 rows of 64 bytes:
///
///                        panel 0     panel 1
///                      +-----------+-----------+
///   rows  0..15        | sum(0, 0) | sum(0, 1) |  tmm0..tmm3, f32 16 x 16
///   rows 16..31        | sum(1, 0) | sum(1, 1) |
///                      +-----------+-----------+
///   B[pair][step]      |   b(0)    |   b(1)    |  tmm6, tmm7, bf16 32 k x 16
///   A[16 rows][step]   |           a           |  tmm4, bf16 16 x 32 k
///
/// A step multiplies 32 k of every product of planes. Seven tiles, not eight:
/// with a register to spare the next load need not wait for the last reader,
/// even if the sibling thread uses tiles.
///
///   for each group of rows that the workspace has sums for
///     for each pair of panels
///       for each chunk of k: up to 32 KB of B, which stay in the L1 while the
///                            tiles of A pass (tileloaddt1)
///         for each block of 32 rows
///           first step: store the sums of the block before, begin with 0, c,
///                       or the sums of the chunk before
///           other steps, and beside them: the epilogue of the block before,
///                       row by row; prefetch a share of the next pair of B,
///                       and the next pair of c and residual in these rows
///
/// Behind the last pair comes the first one of the next group, or of the next
/// call (LinearArgs::ahead): no call waits for its first panels.
///
/// Bf16x6 reads f32 weights. Beside the steps of a chunk it splits the next one
/// into planes in the workspace, row of a tile by row of a tile, and fetches
/// what lies a distance ahead. Both chunks have to stay in the L1:
///
///   weights, f32        ... | next chunk  | fetched   |
///                                  | splitRows
///   workspace, planes   | chunk | next chunk |
///
/// So stores, epilogue, splits and memory hide behind the products. The sums of
/// the last chunk go through `finished`, 32 rows of the workspace, the others
/// wait in a place of their own.
///
/// A tile always has 16 rows. Behind the last multiple of 32 rows tiles overlap
/// rows before them; a row has the same bits in both. A call of less than 16
/// rows copies them to the workspace, where the rows behind them hold anything.
class LinearTiles final : public VectorAssembler {
public:
  LinearTiles(const KernelRow &row, const LinearShape &shape);
  bool generate(std::vector<uint8_t> &code, std::string &error);
  int64_t workspaceBytes() const;

private:
  /// What the sums of a block start from.
  enum class Start { Zero, C, Chunk };
  /// Code that is spread between the products of a step.
  using Filler = std::function<void()>;

  Xbyak::Tmm sum(int half, int column) const {
    return Xbyak::Tmm(2 * half + column);
  }
  const Xbyak::Tmm aTile = tmm4;
  Xbyak::Tmm bTile(int column) const { return Xbyak::Tmm(6 + column); }

  /// Whether the weights are f32 in memory.
  bool splits() const { return packedWeightPlanes(row.arithmetic) == 0; }
  int chunkLimit() const; // steps
  int64_t copyOffset() const;

  // Bytes of a step of B, in memory, of a plane of A, and from a row to the
  // next.
  int stepBytes() const;
  int64_t chunkBytes(size_t chunk) const {
    return int64_t(chunks[chunk]) * stepBytes();
  }
  int64_t planeBytes() const { return 2 * planeStride(shape.k); }
  int64_t aRowStride() const { return 2 * shape.lda; }
  int64_t cRowStride() const { return (shape.cPlanes ? 2 : 4) * shape.ldc; }
  int64_t residualRowStride() const { return 4 * shape.ldr; }

  static int tileColumn(int column) { return column * 64; }
  Xbyak::Address aAt(int half, int plane, int step);
  Xbyak::Address bAt(int step, int plane, int column);
  Xbyak::Address sumAt(int half, int column);

  void copyLocals(std::initializer_list<std::pair<int, int>> toAndFrom);
  void emitArguments();
  void emitCopyOfFewRows();
  void emitGroup();
  void emitShare();
  void emitFirstSplit();
  void emitNextSplit();
  void emitOtherPlace(const Xbyak::Reg64 &pointer);
  void emitSplitRest();
  void emitTailTiles();
  void emitPair();
  void emitNextPair();
  void emitNextChunkBytes(size_t first, size_t behind);
  void emitChunk(Start start, int chunkSteps, bool last);
  void emitSumPointer(const Xbyak::Reg64 &pointer, int half, bool areFinished);
  void emitBlockPointers(Start start);
  void emitCopyOfFewSums();
  void emitFirstStep(Start start);
  void emitOtherSteps(int chunkSteps, bool epilogue);
  void emitStep(int step, const std::vector<Filler> &rows,
                const std::function<void(int half, int column)> &beforeFirst);
  void emitPrefetchUnit(int unit);
  void emitSplitRows();
  void emitPendingPointers();
  void emitRow(const Xbyak::Reg64 &sums, int row);
  void emitPrefetchOfNextPair(const Xbyak::RegExp &place);
  void emitPlanes(const Vec &left, const Vec &right, int row);
  void emitDrain();

  const KernelRow &row;
  const LinearShape shape;
  const std::vector<PlaneProduct> &products;
  const int64_t steps; // of 32 k
  /// Steps of each chunk, in two lengths that differ by one, longer ones first.
  std::vector<int> chunks;
  /// Subroutines, by steps of the chunk and whether there is an epilogue.
  std::map<std::pair<int, bool>, Xbyak::Label> otherSteps;
  Xbyak::Label drain, splitRows;
  Xbyak::Label splitWords; // data

  // Each register has one meaning inside a block.
  const Xbyak::Reg64 args = rdi;        // until they are copied to the stack
  const Xbyak::Reg64 a[2] = {rax, rbx}; // halves of the block, at the step
  const Xbyak::Reg64 b = rcx;
  const Xbyak::Reg64 aRowBytes = rdx;
  const Xbyak::Reg64 bRowBytes = r8;
  const Xbyak::Reg64 stores[2] = {r10, r11}; // where the sums of a half go
  const Xbyak::Reg64 finished = r12;
  const Xbyak::Reg64 temp = rsi;
  // Weights in planes:
  const Xbyak::Reg64 prefetch = r15;      // the next step of the next pair
  const Xbyak::Reg64 prefetchBytes = rbp; // a step's share
  // Weights in f32:
  const Xbyak::Reg64 source = r15; // the next row of a tile
  const Xbyak::Reg64 target = rbp; // its first plane
  const Xbyak::Reg64 splitCount = r9;
  const Xbyak::Opmask highWords = k3; // of dwords; activations use k1, k2
  const Vec leftWords = zmm30, rightWords = zmm31;
  // First step: what the sums start from.
  const Xbyak::Reg64 starts[2] = {r13, r14};
  const Xbyak::Reg64 startRowBytes = rdi;
  // Other steps: the block before.
  const Xbyak::Reg64 c[2] = {r13, rdi}; // panels
  const Xbyak::Reg64 residual = r14;
  const Xbyak::Reg64 bias = rsi;
};

} // namespace encast

#endif // ENCAST_CODEGEN_KERNELS_LINEARTILES_H
