//===- AttentionTiles.h - flash attention on tiles --------------*- C++ -*-===//
///
/// \file
/// The generator behind the tile attention rows of Kernels.def.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_KERNELS_ATTENTIONTILES_H
#define ENCAST_CODEGEN_KERNELS_ATTENTIONTILES_H

#include "codegen/Kernels/KernelArgs.h"
#include "codegen/Kernels/Kernels.h"
#include "codegen/Kernels/LinearTiles.h"
#include "codegen/Kernels/VectorAssembler.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace encast {

/// softmax(q k^T * scale) v as KernelArgs.h says, for 32 queries of a head at a
/// time. Rows of scores are queries, so rows of probabilities are rows of tiles
/// again and nothing is transposed:
///
///                    16 keys     16 keys                  16 dims     16 dims
///                  +-----------+-----------+            +-----------+-------
///   queries  0..15 | sum(0, 0) | sum(0, 1) |            | sum(0, 0) | ...
///   queries 16..31 | sum(1, 0) | sum(1, 1) |  tmm0..3   | sum(1, 0) |
///                  +-----------+-----------+            +-----------+-------
///   B              |    k^T    |    k^T    |  tmm6, 7   |     v     |   v
///   A              |           q           |  tmm4      |     p, 32 keys
///
/// Keys are walked in rounds of a few blocks of 32, and rounds overlap: beside
/// the products of tiles run the vector instructions that make probabilities of
/// scores, a row at a time, about two blocks behind the scores.
///
///   round i   | scores of round i              | values of round i - 1       |
///   softmax   | last rows of round i - 1 | first rows of round i             |
///
/// Where Bf16 has heads of at most 64 dims, q stays in tmm4..7, k passes
/// through tmm2 and two sums do; seven tiles, so that a load need not wait for
/// the last reader of its register.
///
/// Probabilities are 2^(score + offset), and the sums start from the offset of
/// their query. It is 0 (Bf16: 127 in units of 1/128, the exponent of bf16 1.0)
/// as long as the sum of a query's probabilities stays within 2^-56 to 2^56,
/// which floating point makes as good as a maximum. Else the span of keys is
/// done again behind a pass that finds the maxima, and the queries whose
/// largest score is far from 0 get an offset that moves it there. That depends
/// on a query's own scores alone, and offsets are whole powers of two.
///
///   for each group of queries
///     for each span of keys whose k and v fit in the L2
///       for each head, for each 32 queries
///         copy q, rounds over the span, check the sums
///         add what the spans before have left in the workspace
///         last span: out = values / sum
class AttentionTiles final : public VectorAssembler {
public:
  AttentionTiles(const KernelRow &row, const AttentionShape &shape);
  bool generate(std::vector<uint8_t> &code, std::string &error);
  int64_t workspaceBytes() const;

private:
  /// Emits an instruction or a few.
  using Emit = std::function<void()>;

  /// An operand of a product; operands of a list have different ids.
  struct Operand {
    int id;
    Xbyak::RegExp at; ///< 16 rows of 64 bytes.
    bool streamed;    ///< Not worth a place in the L1.
    size_t units;     ///< That must be done before it can be read.
  };
  /// Tile `sum` += a * b.
  struct Product {
    int sum;
    Operand a, b;
  };
  /// Where a tile of sums goes, and what it starts from, zero if nothing.
  struct Sum {
    Xbyak::RegExp target;
    std::optional<Xbyak::RegExp> start;
    int scores = -1; ///< The block of scores in the workspace, if it is one.
  };
  /// 16 queries of a block of keys whose scores become probabilities.
  struct Unit {
    int half, block;
    int scores;          ///< As in Sum.
    int keyOffset;       ///< Of the block, from `key` on.
    Xbyak::Reg64 target; ///< Probabilities of the round.
    bool firstOfBlock;   ///< In the order of the round.
    bool begins;         ///< The sums of its queries.
    bool loads, stores;  ///< These sums, Bf16 only.
  };
  /// A product, and what must be emitted before it.
  struct TileStep {
    Emit emit;
    size_t units;
  };
  /// A row of probabilities or the like, and what must be emitted before it.
  struct VectorStep {
    Emit emit;
    size_t tiles;
    bool endsUnit;
  };
  /// The code of a round, in two lists that are merged.
  struct Steps {
    std::vector<TileStep> tiles;
    std::vector<VectorStep> vectors;
    std::vector<Unit> left;     ///< Units that the round before has left.
    std::vector<size_t> stored; ///< Tile steps that store a block of scores.
  };

  bool isBf16() const { return shape.arithmetic == Arithmetic::Bf16; }
  bool queriesStay() const { return isBf16() && steps <= 2; }

  // Places. All tiles are 16 rows of 64 bytes.
  Xbyak::RegExp scoresAt(int scores, int half, int tile) const;
  Xbyak::RegExp probabilitiesAt(const Xbyak::Reg64 &round, int block, int half,
                                int plane) const;
  Xbyak::RegExp valuesAt(int half, int tile) const;
  Xbyak::RegExp queriesAt(int half, int step, int plane) const;
  Xbyak::Address variable(int index);

  void appendScores(Steps &round, int blocks);
  void appendValues(Steps &round, int blocks, bool first);
  void appendProducts(Steps &round, const std::vector<Product> &products,
                      const Sum (&sums)[4], const std::vector<int> &aTiles,
                      const std::vector<int> &bTiles);
  size_t noteStore(Steps &round, const Sum &sum);
  void appendStore(Steps &round, int sum);
  void appendStoresLeft(Steps &round);
  std::vector<Unit> unitsOf(int blocks, bool firstRound, bool ready) const;
  size_t unitsLeft(int blocks, bool firstRound) const;
  void appendUnit(Steps &round, const Unit &unit, bool offsets, size_t tiles);
  void appendRowSums(Steps &round);
  void addFetches(Steps &round);
  void emitFetched();
  void emitMerged(const Steps &round);

  void emitArguments();
  void emitGroups();
  void emitFetchRange();
  void emitHeads();
  void emitTile();
  void emitQueriesIn();
  void emitKeyRange();
  void emitFirstOffsets();
  void emitCheck(Xbyak::Label &failed);
  void emitAddSpansBefore();
  void emitKeepSpan();
  void emitFinish();
  void emitFinishedRows();
  void emitFinishedRow();
  void emitOutTile(const Vec &value, int tile);

  void emitRun(Xbyak::Label &label, bool offsets);
  void emitFirstBlock();
  void emitRound(int fresh, int ready, bool firstValues, bool offsets);
  void emitSums(const Unit &unit, bool load);
  void emitMaskCheck(const Unit &unit);
  void emitRowMasks(const Unit &unit);
  void emitRowMask(const Unit &unit, int row);
  void emitScoresIn(const Unit &unit, int row, bool offsets, const Vec (&x)[2],
                    const Vec &temp);
  void emitProbabilityWords(const Unit &unit, int row, bool offsets);
  void emitProbabilityPlanes(const Unit &unit, int row, bool offsets);
  void emitPowersOf2(const Vec (&x)[2], const Vec (&n)[2], const Vec (&p)[2]);
  void emitMask();
  void emitMaxima();
  void emitReducedRows(int half, int offset, bool maximum);
  void emitTables();

  const AttentionShape shape;
  const int planes;
  const int steps;       // of 32 dims
  const int roundBlocks; // of a full round
  const std::vector<PlaneProduct> &products;
  const int blockBytes; // of packed keys, and of values
  const int64_t spanKeys;
  const int fetchBytes;       // of keys, in a round
  const int probabilityBytes; // of a round
  // Offsets in the workspace from `scratch` on.
  const int probabilitiesOffset, valuesOffset, sumsOffset, queriesOffset,
      rowSumsOffset, rowOffsetsOffset, factorsOffset, variablesOffset;
  const int statesOffset, stateBytes;

  /// Sums whose tile must be stored before it is used again.
  std::optional<Sum> pending[4];
  Xbyak::Label run, runWithOffsets, mask, maxima, finishedRow, tables;

  // Each register has one meaning while rounds run.
  const Xbyak::Reg64 scratch = rsi;
  const Xbyak::Reg64 tileRowBytes = rbx;
  const Xbyak::Reg64 kBlock = rbp, vBlock = r8;         // first of the round
  const Xbyak::Reg64 freshRound = r9, readyRound = r10; // probabilities
  const Xbyak::Reg64 key = r11;                         // at kBlock
  const Xbyak::Reg64 masks = r12, seenKeys = r13;
  const Xbyak::Reg64 blocksLeft = r14;
  const Xbyak::Reg64 temp = rax, place = rcx, number = rdx;
  const Xbyak::Reg64 args = rdi;                 // until they are copied
  const Xbyak::Reg64 fetchK = r15, fetchV = rdi; // of the next span
  // Between runs.
  const Xbyak::Reg64 pointer = rdi, rowsLeft = r15;
};

} // namespace encast

#endif // ENCAST_CODEGEN_KERNELS_ATTENTIONTILES_H
