//===- AttentionTiles.h - flash attention on tiles --------------*- C++ -*-===//
///
/// \file
/// The generator behind the tile attention rows of Kernels.def.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_KERNELS_ATTENTIONTILES_H
#define ENCAST_CODEGEN_KERNELS_ATTENTIONTILES_H

#include "codegen/Kernels/AttentionRounds.h"
#include "codegen/Kernels/KernelArgs.h"
#include "codegen/Kernels/Kernels.h"

#include <cstdint>
#include <string>
#include <vector>

namespace encast {

/// softmax(q k^T * scale) v as KernelArgs.h says, around the rounds of
/// AttentionRounds.h:
///
///                  keys of the sequence
///              span 0     span 1     span 2      a span of k and v fits in
///            +----------+----------+----------+  the L2; tiles that walk it
///   tile 0   |    1     |    5     |    9     |  fetch the next one
///   tile 1   |    2     |    6     |   10     |
///            +----------+----------+----------+  a tile is 32 queries of a
///   tile 2   |    3     |    7     |   11     |  head; what it found in a span
///   tile 3   |    4     |    8     |   12     |  waits in the workspace
///            +----------+----------+----------+
///
///   for each group of queries, for each span
///     for each head, for each tile
///       copy q, run over the span, beside it write the tile before
///       if a sum is out of its limits: find the maxima, run with offsets
///       add what the spans before have left; last span: out = values / sum
///
/// Windows are walked in one span. Workspace: what AttentionRounds has for a
/// tile, then of each tile of a group values, sums and offsets.
class AttentionTiles final : public AttentionRounds {
public:
  AttentionTiles(const KernelRow &row, const AttentionShape &shape);
  bool generate(std::vector<uint8_t> &code, std::string &error);
  int64_t workspaceBytes() const;

private:
  bool hasSpans() const { return shape.window < 0; }
  void advance(Variable target, int64_t amount);
  void copy(Variable target, Variable source);
  /// Of the state of a tile: its sums, behind them its offsets.
  Xbyak::RegExp stateSums() const { return pointer + size_t(valueBytes); }
  Xbyak::RegExp stateOffsets() const {
    return pointer + size_t(valueBytes + kRowFloatsBytes);
  }

  void emitArguments();
  void emitGroups();
  void emitFetchRange();
  void emitHeads();
  void emitTile();
  void emitQueriesIn();
  void emitWindow(Variable position, Variable queries);
  void emitKeyRange();
  void emitFirstOffsets();
  void emitAddSpansBefore();
  void emitKeepSpan();
  void emitFinish();
  void emitFinishedRows();
  void emitFinishedRow();
  void emitOutTile(const Vec &value, int tile);

  const int groupQueries;
  const int64_t spanKeys;
  const int stateBytes; // of a tile
  const int outElementBytes;

  const Xbyak::Reg64 args = rdi; // until they are copied
};

} // namespace encast

#endif // ENCAST_CODEGEN_KERNELS_ATTENTIONTILES_H
