//===- AttentionRounds.h - products and softmax on tiles --------*- C++ -*-===//
///
/// \file
/// The inner part of tile attention: 32 queries of a head over a span of keys.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_KERNELS_ATTENTIONROUNDS_H
#define ENCAST_CODEGEN_KERNELS_ATTENTIONROUNDS_H

#include "codegen/Kernels/AttentionPack.h"
#include "codegen/Kernels/Kernels.h"
#include "codegen/Kernels/LinearTiles.h"
#include "codegen/Kernels/VectorAssembler.h"

#include <functional>
#include <optional>
#include <vector>

namespace encast {

/// Emits subroutines that compute, for a tile of 32 queries, the values and the
/// sums of probabilities over a span of keys. Rows of scores are queries, so
/// rows of probabilities are rows of tiles again and nothing is transposed:
///
///                    16 keys     16 keys                  16 dims     16 dims
///                  +-----------+-----------+            +-----------+-------
///   queries  0..15 | sum(0, 0) | sum(0, 1) |            | sum(0, 0) | ...
///   queries 16..31 | sum(1, 0) | sum(1, 1) |  tmm0..3   | sum(1, 0) |
///                  +-----------+-----------+            +-----------+-------
///   B              |    k^T    |    k^T    |  tmm6, 7   |     v     |   v
///   A              |           q           |  tmm4      |     p, 32 keys
///
/// Where Bf16 has heads of at most 64 dims, q stays in tmm4..7, k passes
/// through tmm2 and two sums do. Seven tiles, so that a load need not wait for
/// the last reader of its register.
///
/// Keys are walked in rounds of a few blocks of 32, and rounds overlap. Beside
/// the products of tiles run the vector instructions that make probabilities of
/// scores, a row at a time, as soon as the scores of a block are stored:
///
///   tiles     | scores of round i              | values of round i - 1       |
///   vectors   | last rows of round i - 1 | first rows of round i             |
///
/// Probabilities are 2^score, without a maximum: as long as the sum of a
/// query's probabilities stays within 2^-56 to 2^56, floating point makes them
/// as good as any others. Else the tile does the span again, behind a pass that
/// finds the maxima, and with offsets: a query whose largest score is far from
/// 0 gets one that moves it there. That depends on the query's own scores
/// alone, and offsets are whole powers of two. Scores of up to 10^6 in
/// size are told apart as well as f32 can.
class AttentionRounds : public VectorAssembler {
protected:
  AttentionRounds(const KernelRow &row, const AttentionShape &shape);

  static constexpr int kTileRows = 16;
  static constexpr int kTileRowBytes = 64;
  static constexpr int kTileBytes = kTileRows * kTileRowBytes;
  /// Two tiles, one below the other: a row of them for each query.
  static constexpr int kQueries = 2 * kTileRows;
  static constexpr int kPairBytes = 2 * kTileBytes;
  static constexpr int kRowFloatsBytes = kQueries * int(sizeof(float));

  /// 8-byte places in the workspace.
  enum Variable {
    // Of the call.
    Keys,
    PackedK,
    PackedV,
    Ahead,       ///< Rows from this head to the next one.
    HasOffsets,  ///< Not 0 once a query needed an offset.
    QueriesLeft, ///< From the group on.
    // Of a group of queries, a span of keys, a head.
    GroupQ,
    GroupOut,
    GroupPosition,
    GroupQueries,
    SpanKey,
    FetchK, ///< Of the next span, or of the head ahead.
    FetchV,
    FetchEnd, ///< Of its keys; 0 if there is nothing to fetch.
    HeadQ,
    HeadOut,
    HeadsLeft,
    // Of a tile.
    State,
    TileQ,
    TileOut,
    TilePosition,
    TileQueriesLeft, ///< Of the group, from the tile on.
    TileQueries,
    TileMask, ///< A bit for each query that sees a key.
    FirstKey,
    Blocks,
    LastWhole,     ///< Of the blocks that need no mask, without a window.
    SmallestSum,   ///< f32, that needs no other offset.
    SmallestScore, ///< f32, that keeps its offset.
    // Of the tile before.
    FinishedOut, ///< Of the next row to be written.
    FinishedEnd, ///< Behind the values that are still to be written.
    VariableCount
  };

  /// Emits the subroutines below.
  void emitSubroutines();
  Xbyak::Label run, runWithOffsets, maxima;
  /// Also a subroutine, which rounds call beside their first products: writes a
  /// row of the tile before, from values at `number` on, to out at `place`.
  Xbyak::Label finishedRow;
  /// Jumps if `run` is to be done again with offsets: if the sum of a query is
  /// out of its limits, or a word too large. Follows `run` at once.
  void emitCheck(Xbyak::Label &failed);
  /// The control of floating point that all of this needs.
  void loadControl();

  bool isBf16() const { return shape.arithmetic == Arithmetic::Bf16; }

  // Places in the workspace.
  Xbyak::RegExp valuesAt(int half, int tile) const;
  Xbyak::RegExp queriesAt(int half, int step, int plane) const;
  /// Floats of the tile's queries.
  Xbyak::RegExp rowSums() const { return scratch + size_t(rowSumsOffset); }
  Xbyak::RegExp rowOffsets() const {
    return scratch + size_t(rowOffsetsOffset);
  }
  Xbyak::RegExp factors() const { return scratch + size_t(factorsOffset); }
  Xbyak::Address variable(int index);
  Xbyak::Address floatVariable(int index);     ///< Its lower half.
  Xbyak::Address broadcastVariable(int index); ///< The same in all lanes.

  const AttentionShape shape;
  const int planes;
  const int steps;      // of 32 dims
  const int blockBytes; // of packed keys, and of values
  const int valueBytes; // of a tile

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

  bool queriesStay() const { return isBf16() && steps <= 2; }

  Xbyak::RegExp scoresAt(int scores, int half, int tile) const;
  Xbyak::RegExp probabilitiesAt(const Xbyak::Reg64 &round, int block, int half,
                                int plane) const;

  void emitRun(Xbyak::Label &label, bool offsets);
  void emitFirstBlock();
  void emitRunConstants(bool offsets);
  void emitRound(int fresh, int ready, bool firstValues, bool offsets);

  // The products of a round.
  void appendScores(Steps &round, int blocks);
  void appendValues(Steps &round, int blocks, bool first);
  void appendProducts(Steps &round, const std::vector<Product> &products,
                      const Sum (&sums)[4], const std::vector<int> &aTiles,
                      const std::vector<int> &bTiles);
  size_t noteStore(Steps &round, const Sum &sum);
  void appendStore(Steps &round, int sum);
  void appendStoresLeft(Steps &round);
  void addFetches(Steps &round);
  void emitFetched();

  // What runs beside them.
  void appendFinishedRows(Steps &round);
  std::vector<Unit> unitsOf(int blocks, bool firstRound, bool ready) const;
  size_t unitsLeft(int blocks, bool firstRound) const;
  void appendUnit(Steps &round, const Unit &unit, bool offsets, size_t tiles);
  void appendRowSums(Steps &round);
  void emitMerged(const Steps &round);

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

  const int roundBlocks; // of a full round
  const std::vector<PlaneProduct> &products;
  const int fetchBytes;       // of keys, in a round
  const int probabilityBytes; // of a round

  /// Sums whose tile must be stored before it is used again.
  std::optional<Sum> pending[4];
  Xbyak::Label mask, tables;

  const Xbyak::Reg64 kBlock = rbp, vBlock = r8;         // first of the round
  const Xbyak::Reg64 freshRound = r9, readyRound = r10; // probabilities
  const Xbyak::Reg64 key = r11;                         // at kBlock
  const Xbyak::Reg64 masks = r12, seenKeys = r13;
  const Xbyak::Reg64 blocksLeft = r14;
  const Xbyak::Reg64 fetchK = r15, fetchV = rdi;

protected:
  const int probabilitiesOffset, valuesOffset, sumsOffset, queriesOffset,
      rowSumsOffset, rowOffsetsOffset, factorsOffset, variablesOffset;
  /// Bytes of all that is in the workspace for a tile.
  const int scratchBytes;

  /// Registers of vectors that a finished row may change.
  static constexpr int kFinishTemps = 18, kFinishTempCount = 9;

  // Each register has one meaning while rounds run.
  const Xbyak::Reg64 scratch = rsi;
  const Xbyak::Reg64 temp = rax, place = rcx, number = rdx;
  // Between runs.
  const Xbyak::Reg64 pointer = rdi, rowsLeft = r15;
  const Xbyak::Reg64 tileRowBytes = rbx; // always
};

} // namespace encast

#endif // ENCAST_CODEGEN_KERNELS_ATTENTIONROUNDS_H
