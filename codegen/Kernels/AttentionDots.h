//===- AttentionDots.h - flash attention by AVX512-BF16 ---------*- C++ -*-===//
///
/// \file
/// The generator behind the attention row of Kernels.def that needs
/// AVX512-BF16.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_KERNELS_ATTENTIONDOTS_H
#define ENCAST_CODEGEN_KERNELS_ATTENTIONDOTS_H

#include "codegen/Kernels/AttentionPack.h"
#include "codegen/Kernels/DotProducts.h"
#include "codegen/Kernels/KernelArgs.h"
#include "codegen/Kernels/Kernels.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace encast {

/// softmax(q k^T * scale) v as KernelArgs.h says of tile attention, on the same
/// packed keys and values, by the register tile of DotProducts.h. Both products
/// have queries of a head as rows:
///
///   scores  s[query][key] = sum over dim of q[query][dim] * k[key][dim]
///   values  o[query][dim] += sum over key of p[query][key] * v[key][dim]
///
///   for each group of queries
///     for each chunk of keys, up to the next multiple of 128
///       for each head, for each tile of 12 queries
///         scores of the chunk, into the workspace
///         each row: the maximum so far; p = 2^(score - maximum), in bf16
///         o and sums, times 2^(old - new maximum), += those of the chunk
///         last chunk: out = o / sum
///
/// A chunk of keys and values is in the L2 while the tiles of the group pass.
/// With a window a group is one tile, and its keys are those of any of its
/// queries. A score that is masked is -infinity, its probability exactly 0,
/// which changes no bit. Maxima start from the lowest finite number, so that
/// queries that have seen masked keys only have sums of 0.
///
/// Workspace: scores [12][128] f32, probabilities [12][128] bf16 in the order
/// of probabilityKey(), factors [12] f32; then of each tile of the group o
/// [12][head rounded up to 32] f32, sums [12][16] f32, which are added up in
/// the end, and maxima [12] f32.
class AttentionDots final : public DotProducts {
public:
  explicit AttentionDots(const AttentionShape &shape);
  bool generate(std::vector<uint8_t> &code, std::string &error);
  int64_t workspaceBytes() const;

private:
  bool hasWindow() const { return shape.window >= 0; }
  int tilesOfGroup() const { return (groupQueries + kRows - 1) / kRows; }
  int64_t outRowBytes() const { return shape.ldo * outElementBytes; }
  /// Bytes of a block of 32 packed keys, and of values.
  int blockBytes() const { return int(2 * (steps * kHalfBytes)); }

  void emitArguments();
  void emitGroups();
  void emitKeyRange();
  void emitChunk();
  void emitIsMasked();
  void emitTile();
  void emitFirstState();
  void emitScores(int rows);
  void emitProbabilities(int blocks, bool masked);
  void emitScoresIn(int vectors, bool masked);
  void emitMaximum(int vectors);
  void emitOfAllLanes(const Xbyak::Zmm &value, const Xbyak::Zmm &turned,
                      const std::function<void()> &join);
  void emitPowers(int count);
  void emitValues(int rows);
  void emitOut();
  void emitTables();

  const AttentionShape shape;
  const int steps; // of 32 dims
  const int groupQueries;
  const int outElementBytes;
  const int valueRowBytes, sumsOffset, maximaOffset, stateBytes; // of a tile

  /// Subroutines, by rows, and by blocks of keys and whether some are masked.
  std::map<int, Xbyak::Label> scores, values;
  std::map<std::pair<int, bool>, Xbyak::Label> probabilities;
  Xbyak::Label keyNumbers, wordOrder, control; // data

  const Xbyak::Reg64 args = rdi; // until they are copied
  const Xbyak::Reg64 workspace = rsi;
  const Xbyak::Reg64 state = rdi;
  const Xbyak::Reg64 blocks = r8; // of the chunk
  const Xbyak::Reg64 kChunk = r9, vChunk = r10;
  const Xbyak::Reg64 firstKey = r13; // of the chunk
  const Xbyak::Reg64 tileRows = r11, tileQ = r12;
  const Xbyak::Reg64 pointer = r14, left = r15, temp = rbx, other = rbp;

  // Of the rows of probabilities.
  const Xbyak::Reg64 scoreRow = r14, wordRow = rax, sumRow = rcx, number = rdx;
  const Xbyak::Zmm unit = zmm27, maximum = zmm28, cubic = zmm29, order = zmm30;
};

} // namespace encast

#endif // ENCAST_CODEGEN_KERNELS_ATTENTIONDOTS_H
