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
#include <limits>

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
// Types
//===----------------------------------------------------------------------===//

bool encast::encoder::isRowsType(Type type) {
  constexpr int64_t kMostColumns = int64_t(1) << 20;
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || tensor.getRank() != 2 || !tensor.isDynamicDim(0) ||
      tensor.isDynamicDim(1) || tensor.getDimSize(1) < 1 ||
      tensor.getDimSize(1) > kMostColumns || !tensor.getElementType().isF32())
    return false;
  // All tokens have one spelling.
  auto rows = dyn_cast_or_null<RowsAttr>(tensor.getEncoding());
  return !tensor.getEncoding() || (rows && rows.getValue() != Rows::Tokens);
}

bool encast::encoder::isIndexType(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() == 1 && tensor.isDynamicDim(0) &&
         tensor.getElementType().isSignlessInteger(32) &&
         (!tensor.getEncoding() || getRows(tensor) == Rows::Selected);
}

bool encast::encoder::isWeightType(Type type) {
  constexpr int64_t kMostElements = int64_t(1) << 40;
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || tensor.getEncoding() || tensor.getRank() < 1 ||
      tensor.getRank() > 3)
    return false;
  int64_t elements = 1;
  for (int64_t size : tensor.getShape()) {
    if (size < 1 || size > kMostElements / elements)
      return false;
    elements *= size;
  }
  Type element = tensor.getElementType();
  return element.isF32() || element.isF16() || element.isBF16();
}

//===----------------------------------------------------------------------===//
// The module
//===----------------------------------------------------------------------===//

FailureOr<func::FuncOp> encast::encoder::findEncode(ModuleOp module) {
  auto encode = module.lookupSymbol<func::FuncOp>("encode");
  if (!encode || encode.isExternal())
    return module.emitError("has no function @encode");
  if (!encode.getBody().hasOneBlock() || encode.getNumArguments() ||
      encode.getNumResults())
    return encode.emitOpError(
        "expects one block, without arguments and results");
  return encode;
}

static LogicalResult verifyModel(Operation *op, Attribute attr) {
  auto model = dyn_cast<DictionaryAttr>(attr);
  auto complain = [&]() -> InFlightDiagnostic {
    return op->emitError() << encast::encoder::kModelAttrName << " ";
  };
  if (!isa<ModuleOp>(op) || !model)
    return complain() << "expects to be a dictionary of a module";
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  struct Field {
    StringRef name;
    int64_t low, high;
  };
  const Field fields[] = {{"vocabulary", 1, kMost},  {"max_tokens", 1, kMost},
                          {"token_types", 0, kMost}, {"pad_id", -1, kMost},
                          {"hidden", 1, kMost},      {"layers", 0, 65536},
                          {"default_output", 0, 63}};
  for (const Field &field : fields) {
    Attribute value = model.get(field.name);
    if (!value)
      return complain() << "has no " << field.name;
    auto number = dyn_cast<IntegerAttr>(value);
    if (!number || !number.getType().isSignlessInteger(64) ||
        number.getInt() < field.low || number.getInt() > field.high)
      return complain() << "expects " << field.name << " from " << field.low
                        << " to " << field.high << ", but got " << value;
  }
  for (StringRef name : {"family", "metadata"})
    if (!model.getAs<StringAttr>(name))
      return complain() << "has no string " << name;
  Attribute precision = model.get("precision");
  auto name = dyn_cast_or_null<StringAttr>(precision);
  if (precision && (!name || !symbolizePrecision(name.getValue())))
    return complain() << "has an unknown precision, " << precision;
  Attribute attended = model.get("attended_length");
  if (attended && !isa<UnitAttr>(attended))
    return complain() << "expects attended_length without a value, but got "
                      << attended;
  return success();
}

LogicalResult EncoderDialect::verifyOperationAttribute(Operation *op,
                                                       NamedAttribute attr) {
  if (attr.getName() == kModelAttrName)
    return verifyModel(op, attr.getValue());
  if (attr.getName() == kTargetsAttrName && isa<ModuleOp>(op) &&
      isa<StringAttr>(attr.getValue()))
    return success();
  return op->emitError() << "has attribute " << attr.getName()
                         << ", which means nothing here";
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

LogicalResult WeightOp::verifyRegions() {
  Block &recipe = getRecipe().front();
  if (!isa<YieldOp>(recipe.back()))
    return emitOpError("has a recipe that does not end with encoder.yield");
  for (Operation &op : recipe.without_terminator())
    if (!op.hasTrait<RecipeOp>())
      return emitOpError() << "has '" << op.getName() << "' in its recipe";
  if (getYielded().getType() != getType())
    return emitOpError() << "is a " << getType() << ", but its recipe yields a "
                         << getYielded().getType();
  if (getYielded().getDefiningOp() != recipe.back().getPrevNode())
    return emitOpError("has a recipe that does not yield its last value");
  return success();
}

LogicalResult encast::encoder::verifyInRecipe(Operation *op) {
  if (isa_and_nonnull<WeightOp>(op->getParentOp()))
    return success();
  return op->emitOpError("expects to be in the recipe of an encoder.weight");
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
  if (begin > from.getDimSize(0) - to.getDimSize(0))
    return emitOpError() << "takes rows " << begin << " to "
                         << begin + to.getDimSize(0) << " of "
                         << from.getDimSize(0);
  return success();
}

LogicalResult SliceColumnsOp::verify() {
  RankedTensorType from = tensorType(getInput()), to = tensorType(getResult());
  int64_t begin = getBegin();
  if (from.getElementType() != to.getElementType() || from.getRank() != 2 ||
      to.getRank() != 2 || from.getDimSize(0) != to.getDimSize(0))
    return emitOpError() << "cannot take a " << to << " from a " << from;
  if (begin > from.getDimSize(1) - to.getDimSize(1))
    return emitOpError() << "takes columns " << begin << " to "
                         << begin + to.getDimSize(1) << " of "
                         << from.getDimSize(1);
  return success();
}

static LogicalResult expectFinite(Operation *op, StringRef what,
                                  FloatAttr number) {
  if (number.getValue().isFinite())
    return success();
  return op->emitOpError() << "expects a finite " << what << ", but got "
                           << number;
}

LogicalResult ScaleOp::verify() {
  return expectFinite(*this, "factor", getFactorAttr());
}

LogicalResult CastOp::verify() {
  if (tensorType(getInput()).getShape() != tensorType(getResult()).getShape())
    return emitOpError() << "changes the shape of " << getInput().getType()
                         << " to " << getResult().getType();
  return success();
}

LogicalResult RopeTableOp::verify() {
  if (!getTheta().isFinite() || getTheta().isNegative() || getTheta().isZero())
    return emitOpError() << "expects a finite theta above 0, but got "
                         << getThetaAttr();
  RankedTensorType type = tensorType(getResult());
  if (type.getRank() != 2 || type.getDimSize(1) % 2 ||
      !type.getElementType().isF32())
    return emitOpError()
           << "expects a matrix of f32 with an even number of columns, but got "
           << type;
  return success();
}

//===----------------------------------------------------------------------===//
// Symbols
//===----------------------------------------------------------------------===//

FailureOr<RankedTensorType>
encast::encoder::lookupWeight(Operation *op, StringRef role,
                              FlatSymbolRefAttr symbol,
                              SymbolTableCollection &tables) {
  auto weight = tables.lookupNearestSymbolFrom<WeightOp>(op, symbol);
  if (!weight)
    return op->emitOpError()
           << role << " " << symbol << " is not an encoder.weight";
  return weight.getType();
}

/// Of f32, as programs over rows read it.
static LogicalResult expectF32(Operation *op, StringRef role,
                               FlatSymbolRefAttr symbol,
                               RankedTensorType type) {
  if (type.getElementType().isF32())
    return success();
  return op->emitOpError() << "expects " << role << " of f32, but " << symbol
                           << " is a " << type;
}

static LogicalResult expectVector(Operation *op, StringRef role,
                                  FlatSymbolRefAttr symbol, int64_t size,
                                  SymbolTableCollection &tables) {
  FailureOr<RankedTensorType> type = lookupWeight(op, role, symbol, tables);
  if (failed(type))
    return failure();
  if (type->getRank() != 1 || type->getDimSize(0) != size)
    return op->emitOpError() << "expects " << role << " of size " << size
                             << ", but " << symbol << " is a " << *type;
  // Those of linears are packed, in any type.
  return isa<LinearOp>(op) ? success() : expectF32(op, role, symbol, *type);
}

/// How many values an index has; 1 if the module does not say.
static int64_t valuesOf(Value index) {
  if (auto select = index.getDefiningOp<SelectRowsOp>())
    index = select.getInput();
  auto input = index.getDefiningOp<InputOp>();
  if (!input)
    return 1;
  auto model =
      input->getParentOfType<ModuleOp>()->getAttrOfType<DictionaryAttr>(
          encast::encoder::kModelAttrName);
  if (!model)
    return 1;
  StringRef field = "vocabulary";
  if (input.getIndex() == IndexInput::TokenTypes)
    field = "token_types";
  else if (input.getIndex() == IndexInput::Positions)
    field = "max_tokens";
  return model.getAs<IntegerAttr>(field).getInt();
}

LogicalResult encast::encoder::verifyTables(Operation *op, ValueRange indices,
                                            ArrayAttr tables, Value result,
                                            SymbolTableCollection &symbols) {
  if (indices.empty() || indices.size() != tables.size())
    return op->emitOpError() << "has " << indices.size() << " indices for "
                             << tables.size() << " tables";
  int64_t columns = getColumns(result);
  for (auto [index, attr] : llvm::zip_equal(indices, tables)) {
    auto symbol = dyn_cast<FlatSymbolRefAttr>(attr);
    if (!symbol)
      return op->emitOpError() << "expects symbols of weights as tables, but "
                                  "got "
                               << attr;
    FailureOr<RankedTensorType> type =
        lookupWeight(op, "table", symbol, symbols);
    if (failed(type) || failed(expectRows(op, index, Rows::Tokens)))
      return failure();
    if (type->getRank() != 2 || type->getDimSize(1) != columns ||
        type->getDimSize(0) < valuesOf(index))
      return op->emitOpError()
             << "expects a table of " << columns << " columns and at least "
             << valuesOf(index) << " rows, but " << symbol << " is a " << *type;
  }
  return expectRows(op, result, Rows::Tokens);
}

LogicalResult EmbeddingOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyTables(*this, getIndices(), getTables(), getResult(), tables);
}

/// `matrix` is [out, in], `bias` is [out] or null.
static LogicalResult expectLinear(LinearOp op, StringRef role,
                                  FlatSymbolRefAttr matrix, StringRef biasRole,
                                  FlatSymbolRefAttr bias,
                                  SymbolTableCollection &tables) {
  FailureOr<RankedTensorType> type = lookupWeight(op, role, matrix, tables);
  if (failed(type))
    return failure();
  int64_t in = getColumns(op.getInput()), out = getColumns(op.getResult());
  if (type->getShape() != ArrayRef<int64_t>({out, in}))
    return op.emitOpError()
           << "expects a " << role << " of shape [" << out << ", " << in
           << "], but " << matrix << " is a " << *type;
  return bias ? expectVector(op, biasRole, bias, out, tables) : success();
}

LogicalResult LinearOp::verifySymbolUses(SymbolTableCollection &tables) {
  if (failed(expectLinear(*this, "weight", getWeightAttr(), "bias",
                          getBiasAttr(), tables)))
    return failure();
  if (!getGateAttr())
    return success();
  return expectLinear(*this, "gate", getGateAttr(), "gate_bias",
                      getGateBiasAttr(), tables);
}

LogicalResult LayerNormOp::verifySymbolUses(SymbolTableCollection &tables) {
  int64_t columns = getColumns(getInput());
  if (failed(expectVector(*this, "weight", getWeightAttr(), columns, tables)))
    return failure();
  if (getBiasAttr())
    return expectVector(*this, "bias", getBiasAttr(), columns, tables);
  return success();
}

LogicalResult RmsNormOp::verifySymbolUses(SymbolTableCollection &tables) {
  int64_t size = getColumns(getInput()) / int64_t(getHeads().value_or(1));
  return expectVector(*this, "weight", getWeightAttr(), size, tables);
}

LogicalResult RopeOp::verifySymbolUses(SymbolTableCollection &tables) {
  FailureOr<RankedTensorType> type =
      lookupWeight(*this, "table", getTableAttr(), tables);
  if (failed(type))
    return failure();
  int64_t headSize = getColumns(getInput()) / int64_t(getHeads());
  int64_t positions = valuesOf(getPositions());
  if (type->getRank() != 2 || type->getDimSize(1) != headSize ||
      type->getDimSize(0) < positions || !type->getElementType().isF32())
    return emitOpError() << "expects a table of f32, " << headSize
                         << " columns and at least " << positions
                         << " rows, but " << getTableAttr() << " is a "
                         << *type;
  return success();
}

LogicalResult ShortConvOp::verifySymbolUses(SymbolTableCollection &tables) {
  FailureOr<RankedTensorType> type =
      lookupWeight(*this, "weight", getWeightAttr(), tables);
  if (failed(type))
    return failure();
  int64_t channels = getColumns(getInput());
  if (type->getShape() != ArrayRef<int64_t>({channels, 1, 3}))
    return emitOpError() << "expects a weight of shape [" << channels
                         << ", 1, 3], but " << getWeightAttr() << " is a "
                         << *type;
  if (getBiasAttr())
    return expectVector(*this, "bias", getBiasAttr(), channels, tables);
  return success();
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

LogicalResult encast::encoder::expectRows(Operation *op, Value value,
                                          ArrayRef<Rows> expected) {
  if (llvm::is_contained(expected, getRows(value)))
    return success();
  InFlightDiagnostic error = op->emitOpError("expects rows that are ");
  llvm::interleave(
      expected, [&](Rows rows) { error << stringifyRows(rows); },
      [&] { error << " or "; });
  return error << ", but got " << value.getType();
}

LogicalResult encast::encoder::expectSameColumns(Operation *op, Value a,
                                                 Value b) {
  if (getColumns(a) == getColumns(b))
    return success();
  return op->emitOpError() << "expects as many columns as " << a.getType()
                           << ", but got " << b.getType();
}

/// Rows that the last layer's tail may be computed for.
constexpr Rows kTokenRows[] = {Rows::Tokens, Rows::Selected, Rows::Demanded};

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

LogicalResult InputOp::verify() {
  return expectRows(*this, getResult(), Rows::Tokens);
}

LogicalResult LinearOp::verify() {
  if (getRows(getInput()) != getRows(getResult()))
    return emitOpError() << "changes the rows of " << getInput().getType()
                         << " to those of " << getResult().getType();
  if (getResidual() && getResidual().getType() != getResult().getType())
    return emitOpError() << "expects a residual of type "
                         << getResult().getType() << ", but got "
                         << getResidual().getType();
  if (!getGateAttr() && getGateBiasAttr())
    return emitOpError("has a gate_bias, but no gate");
  if (getGateAttr() && !getBiasAttr() != !getGateBiasAttr())
    return emitOpError() << "has a " << (getBiasAttr() ? "bias" : "gate_bias")
                         << ", but no "
                         << (getBiasAttr() ? "gate_bias" : "bias");
  return success();
}

static LogicalResult verifyEpsilon(Operation *op, FloatAttr epsilon) {
  if (epsilon.getValue().isFinite() && !epsilon.getValue().isNegative())
    return success();
  return op->emitOpError() << "expects a finite epsilon of at least 0, but got "
                           << epsilon;
}

/// `columns` are `heads` heads of equal size.
static LogicalResult verifyHeads(Operation *op, int64_t columns,
                                 int64_t heads) {
  if (columns % heads == 0)
    return success();
  return op->emitOpError() << "cannot split " << columns << " columns into "
                           << heads << " heads";
}

LogicalResult LayerNormOp::verify() {
  return verifyEpsilon(*this, getEpsilonAttr());
}

LogicalResult RmsNormOp::verify() {
  if (failed(verifyEpsilon(*this, getEpsilonAttr())))
    return failure();
  return verifyHeads(*this, getColumns(getInput()), getHeads().value_or(1));
}

LogicalResult RopeOp::verify() {
  int64_t columns = getColumns(getInput()), heads = getHeads();
  if (failed(verifyHeads(*this, columns, heads)))
    return failure();
  if (columns / heads % 2)
    return emitOpError() << "cannot split heads of size " << columns / heads
                         << " into halves";
  return expectRows(*this, getPositions(), getRows(getInput()));
}

LogicalResult ColumnsOp::verify() {
  int64_t begin = getBegin();
  int64_t from = getColumns(getInput()), count = getColumns(getResult());
  if (getRows(getInput()) != getRows(getResult()))
    return emitOpError() << "changes the rows of " << getInput().getType();
  if (begin > from - count)
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
  int64_t heads = getHeads(), keyHeads = getHeadsOfKeys();
  if (failed(verifyHeads(*this, getColumns(getQuery()), heads)) ||
      failed(expectFinite(*this, "scale", getScaleAttr())) ||
      failed(expectRows(*this, getQuery(), {Rows::Tokens, Rows::Selected})) ||
      failed(expectRows(*this, getKey(), Rows::Tokens)))
    return failure();
  if (heads % keyHeads)
    return emitOpError() << "cannot share " << keyHeads << " heads of keys by "
                         << heads << " heads";
  if (getColumns(getKey()) != keyHeads * getHeadSize())
    return emitOpError() << "expects keys of " << keyHeads << " heads of size "
                         << getHeadSize() << ", but got " << getKey().getType();
  return success();
}

LogicalResult ShortConvOp::verify() {
  if (failed(expectRows(*this, getInput(), Rows::Tokens)) ||
      failed(expectRows(*this, getResult(), {Rows::Tokens, Rows::Selected})))
    return failure();
  return expectSameColumns(*this, getInput(), getResult());
}

LogicalResult SelectRowsOp::verify() {
  if (failed(expectRows(*this, getInput(), Rows::Tokens)) ||
      failed(expectRows(*this, getResult(), Rows::Selected)))
    return failure();
  RankedTensorType from = getInput().getType(), to = getResult().getType();
  if (from.getShape() == to.getShape() &&
      from.getElementType() == to.getElementType())
    return success();
  return emitOpError() << "cannot select a " << to << " from a " << from;
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
  if (failed(expectRows(*this, getInput(), kTokenRows)) ||
      failed(expectRows(*this, getResult(), Rows::Sequences)))
    return failure();
  return expectSameColumns(*this, getInput(), getResult());
}

LogicalResult PickOp::verify() {
  if (failed(expectRows(*this, getInput(), kTokenRows)) ||
      failed(expectRows(*this, getResult(), Rows::Picked)))
    return failure();
  return expectSameColumns(*this, getInput(), getResult());
}

LogicalResult PoolOp::verify() {
  if (failed(expectRows(*this, getInput(), {Rows::Tokens, Rows::Demanded})) ||
      failed(expectRows(*this, getResult(), Rows::Sequences)))
    return failure();
  return expectSameColumns(*this, getInput(), getResult());
}

LogicalResult OutputOp::verify() {
  return expectRows(*this, getValue(), {Rows::Picked, Rows::Sequences});
}

LogicalResult encast::encoder::verifyOutputName(Operation *op) {
  constexpr int kMostOutputs = 64;
  Attribute name = op->getAttr("name");
  int number = 1;
  for (Operation &other : *op->getBlock()) {
    if (&other == op)
      break;
    if (other.getName() != op->getName())
      continue;
    if (other.getAttr("name") == name)
      return op->emitOpError() << name << " is declared twice";
    ++number;
  }
  if (number > kMostOutputs)
    return op->emitOpError() << name << " is output " << number << ", at most "
                             << kMostOutputs << " work";
  return success();
}

LogicalResult OutputOp::verifySymbolUses(SymbolTableCollection &) {
  return verifyOutputName(*this);
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
