//===- LinearF32.h - f32 matrix product with epilogue -----------*- C++ -*-===//
///
/// \file
/// The generator behind the linear rows of Kernels.def.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_KERNELS_LINEARF32_H
#define ENCAST_CODEGEN_KERNELS_LINEARF32_H

#include "codegen/Kernels/KernelArgs.h"
#include "codegen/Kernels/Kernels.h"
#include "codegen/Kernels/VectorAssembler.h"

namespace encast {

/// C = epilogue(A * B) as KernelArgs.h says, by register tiles. Drawn with the
/// numbers of AVX-512; AVX2 has 6 rows, and a panel is two of its vectors:
///
///                 panel 0     panel 1     panel 2
///               +-----------+-----------+-----------+
///   row 0       | acc(0, 0) | acc(0, 1) | acc(0, 2) |  zmm0..zmm23 (ymm0..11)
///   ...         |           |           |           |
///   row 7       | acc(7, 0) | acc(7, 1) | acc(7, 2) |
///               +-----------+-----------+-----------+
///   B[panel][k] |   b(0)    |   b(1)    |   b(2)    |  zmm24..26 (ymm12, 13),
///   A[row][k]   |             aBroadcast            |  zmm27..31 (ymm14, 15)
///
/// A k-step loads B, broadcasts A row by row and multiplies. Where a tile has
/// fewer rows than vectors, A stays in registers and B passes through instead.
///
///   for each group of panels (3, 2 or 1; more if there are few rows)
///     for each chunk of a long k: the sums wait in c in between
///       for each tile of rows: all see the chunk while it is in the L2
///         for each k: multiply; fetch a share of the next chunk into the L2
///         behind the last chunk: bias, activation, residual in registers
///
/// The last group fetches what lies behind b: artifacts hold weights in the
/// order of their use.
///
/// The rows left after the full tiles are dealt with in one or two tiles of
/// nearly the same height, so that none is too low to hide the latency of FMA.
///
/// Gated, a panel is 8 gates, then the 8 other columns; accumulators are taken
/// in pairs, and the results are those of a panel each, 8 columns wide, as are
/// the panels of c and of the residual:
///
///   AVX2     acc(m, 2p) = gates, acc(m, 2p + 1) = others, of one panel
///   AVX-512  vec(2i) = gates | others of a panel    =>  gates  | gates
///            vec(2i + 1) = gates | others of the next   others | others
///
/// Their k is not cut, because 8 columns of c cannot hold 16 sums.
///
/// Weights in bf16 are pairs of k-steps, a column's two values in a lane. They
/// are widened exactly, so all results are those of the same values in f32:
///
///   31        16 15         0
///   | k odd     | k even    |   k even: lane << 16, k odd: its high half
///
/// If all rows of a call are one tile, it widens them in registers. Else the
/// first tile of each chunk of k does so and keeps what it widened in the
/// workspace, [k][panel of the group][16] of f32, where the other tiles load
/// it: the instructions hide behind the first tile's products, and the chunk
/// stays in the L2.
class LinearF32 final : public VectorAssembler {
public:
  LinearF32(const KernelRow &row, const LinearShape &shape);
  bool generate(std::vector<uint8_t> &code, std::string &error);
  /// Whether sums wait in c.
  bool cutsK() const { return chunks > 1; }
  /// Bytes of LinearArgs::workspace.
  int64_t workspaceBytes() const;

private:
  /// A register tile: `rows` by `panels` panels.
  struct Tile {
    int rows, panels;
  };
  /// What a tile does for its weights.
  enum Weights {
    Load,         ///< Those in f32, from b or the workspace.
    Widen,        ///< Those in bf16.
    WidenAndKeep, ///< The same, and writes them to the workspace.
  };

  int vectorsPerPanel() const { return int(kPanelColumns) / lanes(); }
  int vectors(Tile tile) const { return tile.panels * vectorsPerPanel(); }
  int accumulators(Tile tile) const { return tile.rows * vectors(tile); }
  /// Columns of c and of the residual that a panel makes.
  int resultColumns() const {
    return int(shape.gated ? kPanelColumns / 2 : kPanelColumns);
  }
  /// Panels of a group when all rows of a call fit in a tile that low.
  int panelsForRows(int rows) const;
  /// Whether a call of more rows than fit in a tile has tiles like this one.
  bool isOneOfSeveral(Tile tile) const {
    return tile.panels <= row.panelTile && tile.rows >= row.rowTile / 2;
  }
  /// k-steps of a panel that share a cache line.
  int stepsPerLine() const { return shape.bf16Weights ? 2 : 1; }
  /// Bytes of so many k-steps of a panel.
  int64_t stepBytes(int64_t steps) const;

  Vec acc(Tile tile, int row, int vector) const {
    return vec(row * vectors(tile) + vector);
  }
  /// The registers behind the accumulators.
  Vec spare(Tile tile, int index) const;
  /// Of these, those behind the first `kept`, in turns.
  Vec passing(Tile tile, int kept, int index) const;

  Xbyak::Address aAt(int row, int k);
  Xbyak::Address bAt(int vector, int k);
  Xbyak::Address keptAt(Tile tile, int vector, int k);

  void emitArguments();
  void emitGroups(int panels, int maxRows);
  void emitTile(Tile tile);
  void emitProducts(Tile tile, Weights weights, Xbyak::Label &chunkDone);
  void emitStep(Tile tile, Weights weights, int k);
  void emitWeights(Tile tile, Weights weights, const Vec &to, int vector,
                   int k);
  void emitPrefetchOfNextChunk(int panels);
  void emitPrefetchLine(int panels, int offset);
  void emitPrefetchOfResidual(Tile tile);
  void emitEpilogue(Tile tile);
  void emitGatePairs(Tile tile);
  void emitActivatedSums(Tile tile);
  void emitGatedResidual(Tile tile);
  void emitSums(Tile tile, bool load);
  void emitGatedResults(Tile tile);

  const KernelRow &row;
  const LinearShape shape;
  const int64_t panelBytes;
  const int64_t chunks, lastChunkLength, maxChunkLength; // of k
  /// Subroutines that are called, by rows and panels.
  std::map<std::pair<int, int>, Xbyak::Label> tiles;

  // Each register has one meaning for the whole kernel.
  const Xbyak::Reg64 prefetchStride = rdi;   // bytes between its panels
  const Xbyak::Reg64 a[3] = {rax, rbx, rcx}; // rows 0, 3 and 6 of the tile
  const Xbyak::Reg64 aRowBytes = rdx;
  const Xbyak::Reg64 b[3] = {r8, r9, r10}; // panels 0, 3 and 6 of the group;
                                           // of bf16 at most six
  const Xbyak::Reg64 kept = r10; // k-step in the workspace, of bf16 only
  const Xbyak::Reg64 bPanelBytes = r11;
  const Xbyak::Reg64 kLeft = r12;
  const Xbyak::Reg64 rowsLeft = r13;
  const Xbyak::Reg64 c = r14;
  const Xbyak::Reg64 prefetch = r15;      // line of the next chunk, first panel
  const Xbyak::Reg64 prefetchLines = rbp; // in kUnrollFull k-steps
  const Xbyak::Reg64 temp = rsi;
};

} // namespace encast

#endif // ENCAST_CODEGEN_KERNELS_LINEARF32_H
