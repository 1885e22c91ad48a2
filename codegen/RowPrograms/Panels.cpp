//===- Panels.cpp - tables of embeddings as weights of linears ------------===//
///
/// \file
/// A table that a head over the vocabulary shares with the embedding is packed
/// when the head is computed. Sixteen rows of the table become sixteen columns
/// of a panel:
///
///                k ->                                column n ->
///          +----------------+                    +----------------+
///   row n  |  16 of these   |   16 x 16 turned   |  16 of these   |   k
///          +----------------+                    +----------------+
///
/// where an element is a number in f32, or two of them in bf16, which stay side
/// by side.
//===----------------------------------------------------------------------===//

#include "codegen/Kernels/TilePacking.h"
#include "codegen/RowPrograms/RowProgram.h"

using namespace mlir;
using namespace encast;

namespace {

/// Lines of a tile of weights, each of two k.
constexpr int64_t kTileLines = 16;

/// Sixteen vectors of 16 elements as a matrix, turned.
SmallVector<Value> turn(RowProgram &p, ArrayRef<Value> rows) {
  Type element = cast<VectorType>(rows.front().getType()).getElementType();
  Value block = p.zero(VectorType::get({kLanes, kLanes}, element));
  for (auto [row, values] : llvm::enumerate(rows))
    block = vector::InsertOp::create(p.b, values, block,
                                     ArrayRef<int64_t>{int64_t(row)});
  Value turned =
      vector::TransposeOp::create(p.b, block, ArrayRef<int64_t>{1, 0});
  SmallVector<Value> lines;
  for (int64_t line = 0; line < kLanes; ++line)
    lines.push_back(
        vector::ExtractOp::create(p.b, turned, ArrayRef<int64_t>{line}));
  return lines;
}

/// Sixteen rows of a table from `first` on, of which those before `count`
/// exist. One that does not exist reads the last one instead.
SmallVector<Value> sourceRows(RowProgram &p, Value first, Value count) {
  Value last = p.plus(count, -1);
  SmallVector<Value> sources;
  for (int64_t row = 0; row < kLanes; ++row)
    sources.push_back(arith::MinSIOp::create(p.b, p.plus(first, row), last));
  return sources;
}

/// Fills the function of getTransposePair.
class TransposePair {
public:
  TransposePair(RowProgram &p, int64_t k, int64_t planes)
      : p(p), k(k), planes(planes), rows(p.argument(0)), count(p.argument(1)),
        pair(p.argument(2)) {}

  void build() {
    p.forEach("tile", p.index(0), p.index(2), p.index(1), {},
              [&](Value tile, ValueRange) {
                buildTile(tile);
                return SmallVector<Value>();
              });
  }

private:
  /// The tiles of 16 columns in all steps.
  void buildTile(Value tile) {
    Value first = p.times(tile, kLanes);
    sources = sourceRows(p, first, count);
    exists = vector::CreateMaskOp::create(
        p.b, p.maskType, ValueRange{arith::SubIOp::create(p.b, count, first)});
    firstElement = p.times(tile, kTileLines * kPlaneColumns);
    int64_t full = k / kPlaneColumns * kPlaneColumns;
    if (full)
      p.forEach("column", p.index(0), p.index(full), p.index(kPlaneColumns), {},
                [&](Value column, ValueRange) {
                  buildStep(column, kPlaneColumns);
                  return SmallVector<Value>();
                });
    if (full < k)
      buildStep(p.index(full), k - full);
  }

  /// The tile of each plane, of `columns` k from `column` on.
  void buildStep(Value column, int64_t columns) {
    SmallVector<SmallVector<Value>> parts(size_t(planes ? planes : 2));
    for (Value source : sources)
      for (auto [part, value] :
           llvm::enumerate(partsOf(source, column, columns)))
        parts[part].push_back(value);
    // Steps follow each other by 32 k of both tiles and all planes.
    Value step =
        p.plus(p.times(column, std::max<int64_t>(planes, 1) * 2 * kTileLines),
               firstElement);
    if (planes == 0)
      return storeF32(turn(p, parts[0]), turn(p, parts[1]), step);
    for (int64_t plane = 0; plane < planes; ++plane)
      storePlane(turn(p, parts[plane]),
                 p.plus(step, plane * 2 * kTileLines * kPlaneColumns));
  }

  /// 32 k of a row: two halves in f32, or the terms in twos, as 32-bit
  /// integers.
  SmallVector<Value> partsOf(Value source, Value column, int64_t columns) {
    Type type = cast<MemRefType>(rows.getType()).getElementType();
    if (planes == 1 && type.isBF16() && columns == kPlaneColumns) {
      Value loaded =
          vector::LoadOp::create(p.b, VectorType::get(kPlaneColumns, type),
                                 rows, ValueRange{source, column});
      return {vector::BitCastOp::create(p.b, p.integersType, loaded)};
    }
    auto half = [&](int64_t from) {
      int64_t left = columns - from;
      if (left <= 0)
        return p.splat(0);
      Columns at{p.plus(column, from),
                 left < kLanes ? p.firstLanes(left) : Value()};
      return p.load(rows, at, source);
    };
    Value first16 = half(0), second16 = half(kLanes);
    if (planes == 0)
      return {first16, second16};
    SmallVector<Value> terms = p.splitToTerms(first16, second16, int(planes));
    for (Value &term : terms)
      term = vector::BitCastOp::create(p.b, p.integersType, term);
    return terms;
  }

  void storePlane(ArrayRef<Value> lines, Value element) {
    auto type = VectorType::get(kPlaneColumns, p.b.getBF16Type());
    for (int64_t line = 0; line < kTileLines; ++line) {
      Value existing = arith::SelectOp::create(p.b, exists, lines[line],
                                               p.zero(p.integersType));
      vector::StoreOp::create(p.b,
                              vector::BitCastOp::create(p.b, type, existing),
                              pair, p.plus(element, line * kPlaneColumns));
    }
  }

  /// Two lines of a k each become one of two k.
  void storeF32(ArrayRef<Value> first16, ArrayRef<Value> second16,
                Value element) {
    SmallVector<Value> lines(first16);
    lines.append(second16.begin(), second16.end());
    for (Value &line : lines)
      line = arith::SelectOp::create(p.b, exists, line, p.splat(0));
    for (int64_t line = 0; line < kTileLines; ++line)
      vector::StoreOp::create(p.b,
                              vector::InterleaveOp::create(p.b, lines[2 * line],
                                                           lines[2 * line + 1]),
                              pair, p.plus(element, line * kPlaneColumns));
  }

  RowProgram &p;
  const int64_t k;
  const int64_t planes; ///< 0: f32
  Value rows, count, pair;
  // Of the tile at hand.
  SmallVector<Value> sources;
  Value exists; ///< A mask of its columns.
  Value firstElement;
};

} // namespace

func::FuncOp encast::getTransposePanel(ModuleOp module, int64_t k, Type type) {
  MLIRContext *context = module.getContext();
  Type f32 = Float32Type::get(context);
  Argument arguments[] = {{"rows", MemRefType::get({kLanes, k}, type)},
                          {"columns", IndexType::get(context)},
                          {"panel", MemRefType::get({k, kLanes}, f32)}};
  std::string name =
      llvm::formatv("transpose_panel_{0}_{1}", k, typeName(type));
  return getProgram(module, name, arguments, [&](RowProgram &p) {
    Value rows = p.argument(0), count = p.argument(1), panel = p.argument(2);
    Value exists = vector::CreateMaskOp::create(p.b, p.maskType, count);
    SmallVector<Value> sources = sourceRows(p, p.index(0), count);
    // Sixteen rows of 16 at a time become 16 lines of the panel.
    p.forEachVector(k, [&](Columns at) {
      SmallVector<Value> parts;
      for (Value source : sources)
        parts.push_back(p.load(rows, at, source));
      SmallVector<Value> lines = turn(p, parts);
      lines.truncate(at.mask ? k % kLanes : kLanes);
      for (auto [line, values] : llvm::enumerate(lines))
        vector::StoreOp::create(
            p.b, arith::SelectOp::create(p.b, exists, values, p.splat(0)),
            panel, ValueRange{p.plus(at.column, int64_t(line)), p.index(0)});
    });
  });
}

func::FuncOp encast::getTransposePair(ModuleOp module, int64_t k, Type type,
                                      RowOutput output) {
  MLIRContext *context = module.getContext();
  Type element = Float32Type::get(context);
  if (output.planes)
    element = BFloat16Type::get(context);
  int64_t elements = tilePairElements(k, std::max(output.planes, 1));
  Argument arguments[] = {{"rows", MemRefType::get({2 * kLanes, k}, type)},
                          {"columns", IndexType::get(context)},
                          {"pair", MemRefType::get(elements, element)}};
  std::string name = llvm::formatv("transpose_pair_{0}_{1}{2}", k,
                                   typeName(type), outputSuffix(output));
  return getProgram(module, name, arguments, [&](RowProgram &p) {
    TransposePair(p, k, output.planes).build();
  });
}
