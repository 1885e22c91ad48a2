//===- Encoder.cpp - the encoder dialect ----------------------------------===//
///
/// \file
/// Verifiers and result names of the encoder dialect.
//===----------------------------------------------------------------------===//

#include "dialects/Encoder/Encoder.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace encast::encoder;

#include "dialects/Encoder/EncoderDialect.cpp.inc"
#include "dialects/Encoder/EncoderEnums.cpp.inc"

Rows encast::encoder::getRows(Type type) {
  auto rows =
      dyn_cast_or_null<RowsAttr>(cast<RankedTensorType>(type).getEncoding());
  return rows ? rows.getValue() : Rows::Tokens;
}

RankedTensorType encast::encoder::getRowsType(MLIRContext *context,
                                              int64_t columns, Rows rows) {
  Attribute encoding;
  if (rows != Rows::Tokens)
    encoding = RowsAttr::get(context, rows);
  return RankedTensorType::get({ShapedType::kDynamic, columns},
                               Float32Type::get(context), encoding);
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

static RankedTensorType tensorType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

Value WeightOp::getYielded() {
  return cast<YieldOp>(getRecipe().front().getTerminator()).getValue();
}

LogicalResult WeightOp::verify() {
  auto type = dyn_cast<RankedTensorType>(getType());
  if (!type || !type.hasStaticShape() || type.getRank() < 1)
    return emitOpError() << "has type " << getType()
                         << ", expected a tensor of static shape";
  if (!isa<YieldOp>(getRecipe().front().back()))
    return emitOpError("has a recipe that does not end with encoder.yield");
  if (getYielded().getType() != type)
    return emitOpError() << "is a " << type << ", but its recipe yields a "
                         << getYielded().getType();
  return success();
}

LogicalResult ConcatOp::verify() {
  int64_t rows = 0;
  RankedTensorType result = tensorType(getResult());
  for (Value part : getParts()) {
    RankedTensorType type = tensorType(part);
    if (type.getElementType() != result.getElementType() ||
        type.getRank() != result.getRank() ||
        type.getShape().drop_front() != result.getShape().drop_front())
      return emitOpError() << "cannot put a " << type << " into a " << result;
    rows += type.getDimSize(0);
  }
  if (rows != result.getDimSize(0))
    return emitOpError() << "of " << rows << " rows has a result of "
                         << result.getDimSize(0);
  return success();
}

LogicalResult SliceOp::verify() {
  RankedTensorType from = tensorType(getInput()), to = tensorType(getResult());
  int64_t begin = getBegin();
  if (from.getElementType() != to.getElementType() ||
      from.getRank() != to.getRank() ||
      from.getShape().drop_front() != to.getShape().drop_front())
    return emitOpError() << "cannot take a " << to << " from a " << from;
  if (begin < 0 || begin > from.getDimSize(0) - to.getDimSize(0))
    return emitOpError() << "takes rows " << begin << " to "
                         << begin + to.getDimSize(0) << " of "
                         << from.getDimSize(0);
  return success();
}

LogicalResult CastOp::verify() {
  if (tensorType(getInput()).getShape() != tensorType(getResult()).getShape())
    return emitOpError() << "changes the shape of " << getInput().getType()
                         << " to " << getResult().getType();
  return success();
}

//===----------------------------------------------------------------------===//
// Symbols
//===----------------------------------------------------------------------===//

/// The tensor type of a weight, or an error.
static FailureOr<RankedTensorType> weightType(Operation *op, StringRef role,
                                              FlatSymbolRefAttr symbol,
                                              SymbolTableCollection &tables) {
  auto weight = tables.lookupNearestSymbolFrom<WeightOp>(op, symbol);
  if (!weight)
    return op->emitOpError()
           << role << " " << symbol << " is not an encoder.weight";
  return weight.getTensorType();
}

static LogicalResult expectVector(Operation *op, StringRef role,
                                  FlatSymbolRefAttr symbol, int64_t size,
                                  SymbolTableCollection &tables) {
  FailureOr<RankedTensorType> type = weightType(op, role, symbol, tables);
  if (failed(type))
    return failure();
  if (type->getRank() != 1 || type->getDimSize(0) != size)
    return op->emitOpError() << "expects " << role << " of size " << size
                             << ", but " << symbol << " is a " << *type;
  return success();
}

LogicalResult EmbeddingOp::verifySymbolUses(SymbolTableCollection &tables) {
  if (getIndices().empty() || getIndices().size() != getTables().size())
    return emitOpError() << "has " << getIndices().size() << " indices for "
                         << getTables().size() << " tables";
  int64_t columns = getColumns(getResult());
  for (Attribute attr : getTables()) {
    auto symbol = dyn_cast<FlatSymbolRefAttr>(attr);
    if (!symbol)
      return emitOpError("expects symbols of weights as tables");
    FailureOr<RankedTensorType> type =
        weightType(*this, "table", symbol, tables);
    if (failed(type))
      return failure();
    if (type->getRank() != 2 || type->getDimSize(1) != columns)
      return emitOpError() << "expects tables of " << columns
                           << " columns, but " << symbol << " is a " << *type;
  }
  return success();
}

LogicalResult LinearOp::verifySymbolUses(SymbolTableCollection &tables) {
  FailureOr<RankedTensorType> type =
      weightType(*this, "weight", getWeightAttr(), tables);
  if (failed(type))
    return failure();
  int64_t in = getColumns(getInput()), out = getColumns(getResult());
  if (type->getRank() != 2 || type->getDimSize(0) != out ||
      type->getDimSize(1) != in)
    return emitOpError() << "expects a weight of shape [" << out << ", " << in
                         << "], but " << getWeightAttr() << " is a " << *type;
  if (getBiasAttr())
    return expectVector(*this, "bias", getBiasAttr(), out, tables);
  return success();
}

LogicalResult LayerNormOp::verifySymbolUses(SymbolTableCollection &tables) {
  int64_t columns = getColumns(getInput());
  if (failed(expectVector(*this, "weight", getWeightAttr(), columns, tables)))
    return failure();
  if (getBiasAttr())
    return expectVector(*this, "bias", getBiasAttr(), columns, tables);
  return success();
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

static LogicalResult expectRows(Operation *op, Value value, Rows rows) {
  if (getRows(value) == rows)
    return success();
  return op->emitOpError() << "expects rows of " << stringifyRows(rows)
                           << ", but got " << value.getType();
}

static LogicalResult expectSameColumns(Operation *op, Value a, Value b) {
  if (getColumns(a) == getColumns(b))
    return success();
  return op->emitOpError() << "expects as many columns as " << a.getType()
                           << ", but got " << b.getType();
}

/// Values that hold the last layer's rows of tokens, all or some of them.
static LogicalResult expectTokenRows(Operation *op, Value value) {
  Rows rows = getRows(value);
  if (rows == Rows::Tokens || rows == Rows::Selected || rows == Rows::Demanded)
    return success();
  return op->emitOpError() << "expects rows of tokens, but got "
                           << value.getType();
}

void encast::encoder::setResultName(Operation *op,
                                    OpAsmSetValueNameFn setName) {
  auto name = op->getAttrOfType<StringAttr>("name");
  if (!name)
    return;
  StringRef rest = name.getValue(), part;
  for (StringRef left = rest; !left.empty();) {
    std::tie(part, left) = left.split('.');
    if (!part.empty() && llvm::all_of(part, llvm::isDigit) && !left.empty())
      rest = left;
  }
  setName(op->getResult(0), rest);
}

void InputOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), stringifyIndexInput(getIndex()));
}

LogicalResult LinearOp::verify() {
  if (getRows(getInput()) != getRows(getResult()))
    return emitOpError() << "changes the rows of " << getInput().getType()
                         << " to those of " << getResult().getType();
  if (getResidual() && getResidual().getType() != getResult().getType())
    return emitOpError() << "expects a residual of type "
                         << getResult().getType() << ", but got "
                         << getResidual().getType();
  return success();
}

LogicalResult ColumnsOp::verify() {
  int64_t begin = getBegin();
  int64_t from = getColumns(getInput()), count = getColumns(getResult());
  if (getRows(getInput()) != getRows(getResult()))
    return emitOpError() << "changes the rows of " << getInput().getType();
  if (begin < 0 || begin > from - count)
    return emitOpError() << "takes columns " << begin << " to " << begin + count
                         << " of " << from;
  return success();
}

LogicalResult ConcatColumnsOp::verify() {
  int64_t columns = 0;
  for (Value part : getParts()) {
    if (getRows(part) != getRows(getResult()))
      return emitOpError() << "puts " << part.getType() << " beside "
                           << getResult().getType();
    columns += getColumns(part);
  }
  if (columns != getColumns(getResult()))
    return emitOpError() << "of " << columns << " columns has a result of "
                         << getColumns(getResult());
  return success();
}

LogicalResult AttentionOp::verify() {
  int64_t columns = getColumns(getQuery());
  int64_t heads = getHeads();
  if (heads < 1 || columns % heads)
    return emitOpError() << "cannot split " << columns << " columns into "
                         << heads << " heads";
  Rows queries = getRows(getQuery());
  if (queries != Rows::Tokens && queries != Rows::Selected)
    return emitOpError() << "expects queries of tokens or selected rows, but "
                            "got "
                         << getQuery().getType();
  if (failed(expectRows(*this, getKey(), Rows::Tokens)))
    return failure();
  return expectSameColumns(*this, getQuery(), getKey());
}

LogicalResult SelectRowsOp::verify() {
  if (failed(expectRows(*this, getInput(), Rows::Tokens)) ||
      failed(expectRows(*this, getResult(), Rows::Selected)))
    return failure();
  return expectSameColumns(*this, getInput(), getResult());
}

LogicalResult EitherOp::verify() {
  if (failed(expectRows(*this, getAll(), Rows::Tokens)) ||
      failed(expectRows(*this, getSelected(), Rows::Selected)) ||
      failed(expectRows(*this, getResult(), Rows::Demanded)) ||
      failed(expectSameColumns(*this, getAll(), getSelected())))
    return failure();
  return expectSameColumns(*this, getAll(), getResult());
}

LogicalResult FirstOp::verify() {
  if (failed(expectTokenRows(*this, getInput())) ||
      failed(expectRows(*this, getResult(), Rows::Sequences)))
    return failure();
  return expectSameColumns(*this, getInput(), getResult());
}

LogicalResult PickOp::verify() {
  if (failed(expectTokenRows(*this, getInput())) ||
      failed(expectRows(*this, getResult(), Rows::Picked)))
    return failure();
  return expectSameColumns(*this, getInput(), getResult());
}

LogicalResult PoolOp::verify() {
  Rows rows = getRows(getInput());
  if (rows != Rows::Tokens && rows != Rows::Demanded)
    return emitOpError() << "expects all rows of tokens, but got "
                         << getInput().getType();
  if (failed(expectRows(*this, getResult(), Rows::Sequences)))
    return failure();
  return expectSameColumns(*this, getInput(), getResult());
}

LogicalResult OutputOp::verify() {
  Rows rows = getRows(getValue());
  if (rows != Rows::Picked && rows != Rows::Sequences)
    return emitOpError() << "'" << getName()
                         << "' expects rows that are picked or of sequences, "
                            "but got "
                         << getValue().getType();
  return success();
}

void EncoderDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/Encoder/EncoderOps.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Encoder/EncoderAttrs.cpp.inc"
      >();
}

#define GET_ATTRDEF_CLASSES
#include "dialects/Encoder/EncoderAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Encoder/EncoderOps.cpp.inc"
