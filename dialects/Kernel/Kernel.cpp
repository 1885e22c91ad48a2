//===- Kernel.cpp - the kernel dialect ------------------------------------===//
///
/// \file
/// Verifiers of the kernel dialect.
//===----------------------------------------------------------------------===//

#include "dialects/Kernel/Kernel.h"
#include "dialects/Kernel/Layout.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace encast;
using namespace encast::kernel;
using encoder::Rows;

#include "dialects/Kernel/KernelDialect.cpp.inc"
#include "dialects/Kernel/KernelEnums.cpp.inc"

bool encast::kernel::isRowsType(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || tensor.getRank() != 3)
    return encoder::isRowsType(type);
  auto plane = RankedTensorType::get(
      {tensor.getDimSize(0), tensor.getDimSize(2)},
      Float32Type::get(type.getContext()), tensor.getEncoding());
  int64_t planes = tensor.getDimSize(1);
  return tensor.getElementType().isBF16() && planes >= 1 && planes <= 3 &&
         encoder::isRowsType(plane);
}

RankedTensorType encast::kernel::getRowsType(Value like, int64_t columns,
                                             int64_t planes) {
  auto type = cast<RankedTensorType>(like.getType());
  MLIRContext *context = type.getContext();
  if (!planes)
    return encoder::getRowsType(context, columns, encoder::getRows(like));
  return RankedTensorType::get({ShapedType::kDynamic, planes, columns},
                               BFloat16Type::get(context), type.getEncoding());
}

int64_t encast::kernel::getRowBytes(Value value) {
  constexpr int64_t floatBytes = 4, bf16Bytes = 2;
  int64_t columns = getColumns(value), planes = getPlanes(value);
  return rowStride(columns, planes) * (planes ? bf16Bytes : floatBytes);
}

LogicalResult KernelDialect::verifyOperationAttribute(Operation *op,
                                                      NamedAttribute attr) {
  if (attr.getName() == kTargetAttrName && isa<ModuleOp>(op) &&
      isa<StringAttr>(attr.getValue()))
    return success();
  return op->emitError() << "has attribute " << attr.getName()
                         << ", which means nothing here";
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

LogicalResult DefineOp::verify() {
  struct Field {
    StringRef name;
    bool needed;
    bool (*fits)(Attribute);
    StringRef kind;
  };
  auto number = [](Attribute attr) {
    auto value = dyn_cast<IntegerAttr>(attr);
    return value && value.getType().isSignlessInteger(64) && value.getInt() > 0;
  };
  auto count = [](Attribute attr) {
    auto value = dyn_cast<IntegerAttr>(attr);
    return value && value.getType().isSignlessInteger(64) &&
           value.getInt() >= 0;
  };
  auto scale = [](Attribute attr) {
    auto value = dyn_cast<FloatAttr>(attr);
    return value && value.getType().isF32() && value.getValue().isFinite();
  };
  auto flag = [](Attribute attr) { return isa<UnitAttr>(attr); };
  auto text = [](Attribute attr) { return isa<StringAttr>(attr); };
  constexpr StringRef positive = "a positive i64", none = "no value";
  const Field linear[] = {{"k", true, number, positive},
                          {"lda", true, number, positive},
                          {"ldc", true, number, positive},
                          {"ldr", false, number, positive},
                          {"bias", false, flag, none},
                          {"activation", false, text, "a string"},
                          {"gated", false, flag, none},
                          {"accumulate", false, flag, none},
                          {"bf16_weights", false, flag, none},
                          {"planes", false, number, positive},
                          {"plane_stride", false, number, positive}};
  const Field attention[] = {{"head_size", true, number, positive},
                             {"ldo", false, number, positive},
                             {"scale", false, scale, "a finite f32"},
                             {"query_heads", false, number, positive},
                             {"window", false, count, "an i64 from 0"},
                             {"ldq", false, number, positive},
                             {"q_plane_stride", false, number, positive},
                             {"planes", false, number, positive},
                             {"plane_stride", false, number, positive},
                             {"ldkv", false, number, positive},
                             {"kv_plane_stride", false, number, positive}};
  ArrayRef<Field> fields = linear;
  if (getShape().contains("head_size"))
    fields = attention;
  for (const Field &field : fields) {
    Attribute value = getShape().get(field.name);
    if (!value && field.needed)
      return emitOpError() << "needs " << field.name;
    if (value && !field.fits(value))
      return emitOpError() << "expects " << field.kind << " as " << field.name
                           << ", but got " << value;
  }
  for (NamedAttribute given : getShape())
    if (llvm::none_of(fields, [&](const Field &field) {
          return field.name == given.getName();
        }))
      return emitOpError() << "has unknown " << given.getName();
  return success();
}

/// The kernel that `op` calls, or an error.
static FailureOr<DefineOp> lookupKernel(Operation *op, FlatSymbolRefAttr symbol,
                                        SymbolTableCollection &symbols) {
  auto define = symbols.lookupNearestSymbolFrom<DefineOp>(op, symbol);
  if (!define)
    return op->emitOpError()
           << "kernel " << symbol << " is not a kernel.define";
  return define;
}

static LogicalResult expectNumber(Operation *op, DefineOp kernel,
                                  StringRef name, int64_t expected) {
  if (kernel.getNumber(name) == expected)
    return success();
  return op->emitOpError() << "expects a kernel with " << name << " of "
                           << expected << ", but that of @"
                           << kernel.getSymName() << " is "
                           << kernel.getNumber(name);
}

/// Panels of a result of so many columns: of 16, or 8 where half are gates;
/// tiles come in pairs that fill whole planes.
static int64_t fewestPanels(DefineOp kernel, int64_t columns, bool tiles) {
  int64_t perPanel =
      kernel.getShape().contains("gated") ? kPanelColumns / 2 : kPanelColumns;
  if (tiles)
    columns = planeStride(columns);
  return (columns + perPanel - 1) / perPanel;
}

static LogicalResult expectWeight(Operation *op, StringRef role,
                                  FlatSymbolRefAttr symbol,
                                  RankedTensorType expected,
                                  SymbolTableCollection &symbols) {
  FailureOr<RankedTensorType> type =
      encoder::lookupWeight(op, role, symbol, symbols);
  if (failed(type))
    return failure();
  if (*type != expected)
    return op->emitOpError() << "expects a " << role << " of type " << expected
                             << ", but " << symbol << " is a " << *type;
  return success();
}

/// The type of a matrix of so many panels, each of `k` steps: f32, or pairs of
/// bf16.
static RankedTensorType packedType(int64_t panels, int64_t k, bool bf16,
                                   MLIRContext *context) {
  if (bf16)
    return RankedTensorType::get({panels, (k + 1) / 2, 2 * kPanelColumns},
                                 BFloat16Type::get(context));
  return RankedTensorType::get({panels, k, kPanelColumns},
                               Float32Type::get(context));
}

/// What linears have in common: a kernel for this input and a weight with a
/// bias in `panels` panels (`weight` may be null), whose sums it adds.
static LogicalResult verifyLinear(Operation *op, DefineOp kernel, Value input,
                                  FlatSymbolRefAttr weight,
                                  FlatSymbolRefAttr bias, int64_t panels,
                                  int64_t panelTile, int64_t ldc, int64_t ldr,
                                  SymbolTableCollection &symbols) {
  int64_t k = getColumns(input), planes = getPlanes(input);
  if (planes && panelTile % 2)
    return op->emitOpError() << "multiplies tiles, which come in pairs of "
                                "panels, but goes by "
                             << panelTile;
  if (failed(expectNumber(op, kernel, "k", k)) ||
      failed(expectNumber(op, kernel, "lda", rowStride(k, planes))) ||
      failed(expectNumber(op, kernel, "ldc", ldc)) ||
      failed(expectNumber(op, kernel, "ldr", ldr)))
    return failure();
  if (kernel.getShape().contains("bias") != bool(bias))
    return op->emitOpError()
           << "has " << (bias ? "a" : "no") << " bias, unlike its kernel @"
           << kernel.getSymName();
  Type f32 = Float32Type::get(op->getContext());
  bool bf16Weights = kernel.getShape().contains("bf16_weights");
  if (bf16Weights && planes)
    return op->emitOpError() << "multiplies planes, unlike its kernel @"
                             << kernel.getSymName() << " with bf16_weights";
  if (bf16Weights && !op->hasAttr("workspace_bytes"))
    return op->emitOpError()
           << "expects a workspace for its kernel @" << kernel.getSymName()
           << ", which widens bf16_weights";
  if (weight && !planes &&
      failed(expectWeight(op, "weight", weight,
                          packedType(panels, k, bf16Weights, op->getContext()),
                          symbols)))
    return failure();
  if (weight && planes) {
    // Three planes are multiplied by one, or by those that the kernel makes of
    // f32, fewer by as many.
    FailureOr<RankedTensorType> type =
        encoder::lookupWeight(op, "weight", weight, symbols);
    if (failed(type))
      return failure();
    ArrayRef<int64_t> shape = type->getShape();
    Type element = type->getElementType();
    if (type->getRank() != 3 || shape[0] != panels / 2 ||
        shape[1] != planeStride(k) / 32 ||
        shape[2] != (planes == 3 ? 1 : planes) * 1024 ||
        !(element.isBF16() || (planes == 3 && element.isF32())))
      return op->emitOpError()
             << "expects a weight of " << panels / 2 << " pairs of panels and "
             << planeStride(k) / 32 << " steps of 32 columns, but " << weight
             << " is a " << *type;
  }
  return bias ? expectWeight(op, "bias", bias,
                             RankedTensorType::get({panels * 16}, f32), symbols)
              : success();
}

LogicalResult LinearOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (encoder::getRows(getInput()) != encoder::getRows(getResult()))
    return emitOpError() << "changes the rows of " << getInput().getType();
  FailureOr<DefineOp> kernel = lookupKernel(*this, getKernelAttr(), symbols);
  if (failed(kernel))
    return failure();
  int64_t panels = getPanels(), columns = getColumns(getResult());
  int64_t fewest = fewestPanels(*kernel, columns, getPlanes(getInput()));
  // Heads may be padded to whole panels, so panel-major results have more.
  if (getPanelMajor() ? panels < fewest : panels != fewest)
    return emitOpError() << "expects " << fewest << " panels for " << columns
                         << " columns, but got " << panels;
  for (Value same : {getResidual(), getAccumulate()})
    if (same && (same.getType() != getResult().getType() || getPlanes(same)))
      return emitOpError() << "expects a residual and sums of type "
                           << getResult().getType() << ", but got "
                           << same.getType();
  if ((*kernel).getShape().contains("accumulate") != bool(getAccumulate()))
    return emitOpError() << "and its kernel @" << (*kernel).getSymName()
                         << " do not both accumulate";
  if (getAccumulate() && !getAccumulate().hasOneUse())
    return emitOpError("accumulates to a value that others read");
  int64_t planes = getPlanes(getResult());
  if (failed(expectNumber(*this, *kernel, "planes", planes)))
    return failure();
  int64_t stride = rowStride(columns, planes);
  return verifyLinear(*this, *kernel, getInput(), getWeightAttr(),
                      getBiasAttr(), panels, getPanelTile(),
                      getPanelMajor() ? kPanelColumns : stride,
                      getResidual() ? stride : 0, symbols);
}

/// Whether the value lies in panels: of a linear or of heads.
static int64_t panelsOf(Value value) {
  if (auto linear = value.getDefiningOp<LinearOp>())
    return linear.getPanelMajor() ? linear.getPanels() : 0;
  auto heads = value.getDefiningOp<HeadsOp>();
  return heads ? heads.getPanels().value_or(0) : 0;
}

/// Heads of queries share as many heads of keys, and fill the columns.
static LogicalResult verifyHeads(Operation *op, int64_t heads, int64_t keyHeads,
                                 int64_t columns, Value query, Value key,
                                 Value result) {
  if (columns % heads)
    return op->emitOpError() << "cannot split " << columns << " columns into "
                             << heads << " heads";
  if (heads % keyHeads)
    return op->emitOpError() << "cannot share " << keyHeads
                             << " heads of keys among " << heads << " heads";
  if (failed(encoder::expectRows(op, query, {Rows::Tokens, Rows::Selected})) ||
      failed(encoder::expectRows(op, result, encoder::getRows(query))))
    return failure();
  return encoder::expectRows(op, key, Rows::Tokens);
}

LogicalResult AttentionOp::verifySymbolUses(SymbolTableCollection &symbols) {
  int64_t heads = getHeads(), perHead = getPlanesPerHead();
  int64_t columns = getColumns(getResult());
  if (failed(verifyHeads(*this, heads, getKeyHeads(), columns, getQuery(),
                         getKey(), getResult())) ||
      failed(encoder::expectRows(*this, getValue(), Rows::Tokens)))
    return failure();
  if (perHead != panelsFor(columns / heads))
    return emitOpError() << "expects " << panelsFor(columns / heads)
                         << " planes for heads of " << columns / heads
                         << " columns, but got " << perHead;
  if (getPlanes().size() != 3)
    return emitOpError() << "expects the first planes of query, key and value, "
                            "but got "
                         << getPlanes().size() << " numbers";
  for (auto [number, value] : llvm::enumerate(getOperands())) {
    int64_t panels = panelsOf(value), first = getPlanes()[number];
    int64_t read = (number ? getKeyHeads() : heads) * perHead;
    if (!panels)
      return emitOpError("expects panel-major operands");
    if (first < 0 || first > panels - read)
      return emitOpError() << "reads planes " << first << " to " << first + read
                           << " of " << panels;
  }
  FailureOr<DefineOp> kernel = lookupKernel(*this, getKernelAttr(), symbols);
  if (failed(kernel) ||
      failed(expectNumber(*this, *kernel, "head_size", columns / heads)))
    return failure();
  return expectNumber(*this, *kernel, "ldo", rowStride(columns));
}

LogicalResult
AttentionPackOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (failed(encoder::expectRows(*this, getKey(), Rows::Tokens)))
    return failure();
  int64_t planes = getPlanes(getKey()), heads = getKeyHeads();
  int64_t columns = getColumns(getKey());
  if (!planes || columns % heads || columns / heads % 32)
    return emitOpError() << "expects bf16 planes of " << heads
                         << " heads of whole tiles, but got "
                         << getKey().getType();
  int64_t bytes = planes * columns / heads * 2;
  if (getRowBytes() != bytes)
    return emitOpError() << "expects packed rows of " << bytes
                         << " bytes, but got " << getRowBytes();
  FailureOr<DefineOp> kernel = lookupKernel(*this, getKernelAttr(), symbols);
  if (failed(kernel))
    return failure();
  return expectNumber(*this, *kernel, "ldkv", planeRowStride(columns, planes));
}

LogicalResult
TileAttentionOp::verifySymbolUses(SymbolTableCollection &symbols) {
  int64_t heads = getHeads(), columns = getColumns(getResult());
  if (failed(verifyHeads(*this, heads, getKeyHeads(), columns, getQuery(),
                         getPackedKey(), getResult())))
    return failure();
  for (Value packed : {getPackedKey(), getPackedValue()}) {
    auto pack = packed.getDefiningOp<AttentionPackOp>();
    if (!pack || pack.getKeyHeads() != getKeyHeads() ||
        pack.getRowBytes() != getRowBytes())
      return emitOpError() << "expects " << getKeyHeads()
                           << " packed heads of keys and values";
  }
  int64_t planes = getPlanes(getQuery());
  if (!planes || getColumns(getQuery()) != heads * planeStride(columns / heads))
    return emitOpError() << "expects a query of bf16 planes of "
                         << heads * planeStride(columns / heads)
                         << " columns, but got " << getQuery().getType();
  FailureOr<DefineOp> kernel = lookupKernel(*this, getKernelAttr(), symbols);
  if (failed(kernel) ||
      failed(expectNumber(*this, *kernel, "head_size", columns / heads)) ||
      failed(expectNumber(*this, *kernel, "ldq",
                          planeRowStride(getColumns(getQuery()), planes))))
    return failure();
  int64_t outPlanes = getPlanes(getResult());
  if (failed(expectNumber(*this, *kernel, "planes", outPlanes)))
    return failure();
  return expectNumber(*this, *kernel, "ldo", rowStride(columns, outPlanes));
}

//===----------------------------------------------------------------------===//
// Row programs
//===----------------------------------------------------------------------===//

static LogicalResult expectProgram(Operation *op, FlatSymbolRefAttr symbol,
                                   size_t operands,
                                   SymbolTableCollection &symbols) {
  auto program = symbols.lookupNearestSymbolFrom<func::FuncOp>(op, symbol);
  if (!program)
    return op->emitOpError() << "program " << symbol << " is not a func.func";
  if (program.getNumArguments() != operands || program.getNumResults())
    return op->emitOpError()
           << "passes " << operands << " operands to " << symbol
           << ", which is a " << program.getFunctionType();
  return success();
}

static LogicalResult expectWeights(Operation *op, ArrayAttr weights,
                                   SymbolTableCollection &symbols) {
  for (Attribute attr : weights ? weights.getValue() : ArrayRef<Attribute>()) {
    auto symbol = dyn_cast<FlatSymbolRefAttr>(attr);
    if (!symbol)
      return op->emitOpError()
             << "expects symbols as weights, but got " << attr;
    if (failed(encoder::lookupWeight(op, "weight", symbol, symbols)))
      return failure();
  }
  return success();
}

LogicalResult EmbedOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (failed(encoder::verifyTables(*this, getIndices(), getTables(),
                                   getResult(), symbols)))
    return failure();
  return expectProgram(*this, getProgramAttr(), getIndices().size() + 1,
                       symbols);
}

LogicalResult RowsProgramOp::verifySymbolUses(SymbolTableCollection &symbols) {
  ArrayAttr weights = getWeightsAttr();
  std::optional<ArrayRef<int64_t>> columns = getColumns();
  if (columns && columns->size() != getInputs().size())
    return emitOpError() << "has " << columns->size() << " columns for "
                         << getInputs().size() << " operands";
  for (auto [number, input] : llvm::enumerate(getInputs())) {
    if (failed(
            encoder::expectRows(*this, input, encoder::getRows(getResult()))))
      return failure();
    int64_t from = columns ? (*columns)[number] : 0;
    if (from < 0 || from >= kernel::getColumns(input))
      return emitOpError() << "reads from column " << from << " of "
                           << input.getType();
  }
  if (failed(expectWeights(*this, weights, symbols)))
    return failure();
  return expectProgram(*this, getProgramAttr(),
                       getInputs().size() + (weights ? weights.size() : 0) + 1,
                       symbols);
}

LogicalResult HeadsOp::verifySymbolUses(SymbolTableCollection &symbols) {
  Rows rows = encoder::getRows(getResult());
  if (failed(encoder::expectRows(*this, getInput(), rows)) ||
      failed(expectWeights(*this, getWeights(), symbols)))
    return failure();
  if (getPositions() && encoder::getRows(getPositions()) != rows)
    return emitOpError() << "rotates " << getResult().getType()
                         << " by positions " << getPositions().getType();
  if (getColumn() >= getColumns(getInput()))
    return emitOpError() << "reads from column " << getColumn() << " of "
                         << getInput().getType();
  return expectProgram(*this, getProgramAttr(),
                       2 + getWeights().size() + (getPositions() ? 1 : 0) +
                           (getPanels() ? 1 : 0),
                       symbols);
}

LogicalResult ShortConvOp::verifySymbolUses(SymbolTableCollection &symbols) {
  Rows rows = encoder::getRows(getResult());
  if (failed(encoder::expectRows(*this, getInput(), Rows::Tokens)) ||
      failed(encoder::expectRows(*this, getResult(),
                                 {Rows::Tokens, Rows::Selected})) ||
      (getScale() && failed(encoder::expectRows(*this, getScale(), rows))) ||
      failed(expectWeights(*this, getWeights(), symbols)))
    return failure();
  if (encoder::getRows(getPositions()) != rows)
    return emitOpError() << "computes " << getResult().getType()
                         << " at positions " << getPositions().getType();
  return expectProgram(*this, getProgramAttr(),
                       5 + getWeights().size() + (getScale() ? 1 : 0), symbols);
}

/// Rows that the last layer's tail may be computed for.
constexpr Rows kTailRows[] = {Rows::Tokens, Rows::Selected, Rows::Demanded};

LogicalResult GatherOp::verifySymbolUses(SymbolTableCollection &symbols) {
  ArrayRef<Rows> from = kTailRows;
  Rows to = Rows::Picked;
  if (getIndex() == GatherIndex::Selected) {
    from = from.take_front(); // All tokens.
    to = Rows::Selected;
  } else if (getIndex() == GatherIndex::First) {
    to = Rows::Sequences;
  }
  if (failed(encoder::expectRows(*this, getInput(), from)) ||
      failed(encoder::expectRows(*this, getResult(), to)) ||
      failed(encoder::expectSameColumns(*this, getInput(), getResult())))
    return failure();
  return expectProgram(*this, getProgramAttr(), 2, symbols);
}

LogicalResult PoolOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (failed(encoder::expectRows(*this, getInput(),
                                 {Rows::Tokens, Rows::Demanded})) ||
      failed(encoder::expectRows(*this, getResult(), Rows::Sequences)) ||
      failed(encoder::expectSameColumns(*this, getInput(), getResult())))
    return failure();
  return expectProgram(*this, getProgramAttr(), 3, symbols);
}

//===----------------------------------------------------------------------===//
// Outputs
//===----------------------------------------------------------------------===//

/// The declaration of an output that `op` stores, with as many columns and with
/// rows like those of `value`.
static LogicalResult verifyStored(Operation *op, StringRef name,
                                  int64_t columns, Value value, bool pick) {
  auto outputs = op->getBlock()->getOps<OutputOp>();
  auto output = llvm::find_if(
      outputs, [&](OutputOp output) { return output.getName() == name; });
  if (output == outputs.end())
    return op->emitOpError()
           << "stores '" << name << "', which no kernel.output declares";
  if ((*output).getColumns() != columns)
    return op->emitOpError() << "stores " << columns << " columns of '" << name
                             << "', which has " << (*output).getColumns();
  if (pick && !(*output).getPerToken())
    return op->emitOpError()
           << "picks rows for '" << name << "', which is not per token";
  if (pick)
    return encoder::expectRows(op, value, kTailRows);
  return encoder::expectRows(
      op, value, (*output).getPerToken() ? Rows::Picked : Rows::Sequences);
}

LogicalResult StoreOp::verifySymbolUses(SymbolTableCollection &symbols) {
  int64_t columns = kernel::getColumns(getValue());
  if (int64_t(getColumn()) + getColumns() > columns)
    return emitOpError() << "stores columns " << getColumn() << " to "
                         << getColumn() + getColumns() << " of " << columns;
  if (failed(verifyStored(*this, getOutput(), getColumns(), getValue(),
                          getPick())))
    return failure();
  return expectProgram(*this, getProgramAttr(), 2, symbols);
}

LogicalResult LinearStoreOp::verifySymbolUses(SymbolTableCollection &symbols) {
  int64_t k = kernel::getColumns(getInput()), columns = getColumns();
  if (failed(verifyStored(*this, getOutput(), columns, getInput(), false)) ||
      failed(expectProgram(*this, getStoreAttr(), 3, symbols)))
    return failure();
  FailureOr<DefineOp> kernel = lookupKernel(*this, getKernelAttr(), symbols);
  if (failed(kernel))
    return failure();
  FlatSymbolRefAttr weight = getWeightAttr();
  if (getTransposeAttr()) {
    FailureOr<RankedTensorType> type =
        encoder::lookupWeight(*this, "weight", weight, symbols);
    if (failed(type) ||
        failed(expectProgram(*this, getTransposeAttr(), 3, symbols)))
      return failure();
    if (type->getShape() != ArrayRef<int64_t>({columns, k}))
      return emitOpError() << "expects a weight of shape [" << columns << ", "
                           << k << "], but " << weight << " is a " << *type;
    weight = nullptr;
  }
  return verifyLinear(*this, *kernel, getInput(), weight, getBiasAttr(),
                      fewestPanels(*kernel, columns, getPlanes(getInput())),
                      getPanelTile(), getPanelTile() * kPanelColumns,
                      /*ldr=*/0, symbols);
}

LogicalResult OutputOp::verifySymbolUses(SymbolTableCollection &) {
  if (failed(encoder::verifyOutputName(*this)))
    return failure();
  if (!isa<func::FuncOp>((*this)->getParentOp()))
    return success(); // Stored by calls of the plan.
  int64_t stores = 0;
  for (Operation &op : *(*this)->getBlock())
    if (isa<StoreOp, LinearStoreOp>(op) &&
        op.getAttr("output") == getNameAttr())
      ++stores;
  if (stores != 1)
    return emitOpError() << "'" << getName() << "' is stored " << stores
                         << " times, expected once";
  return success();
}

//===----------------------------------------------------------------------===//
// Recipes
//===----------------------------------------------------------------------===//

LogicalResult PadRowsOp::verify() {
  RankedTensorType from = getInput().getType(), to = getResult().getType();
  int64_t group = getGroup(), padded = getPadded();
  if (padded < group || from.getDimSize(0) % group)
    return emitOpError() << "cannot pad groups of " << group << " of "
                         << from.getDimSize(0) << " rows to " << padded;
  SmallVector<int64_t> shape(from.getShape());
  shape[0] = shape[0] / group * padded;
  if (to.getShape() != ArrayRef<int64_t>(shape) ||
      to.getElementType() != from.getElementType())
    return emitOpError() << "expects " << shape[0] << " rows, but results in "
                         << to;
  return success();
}

/// Whether a weight packs to `panels` panels of that type.
static bool packsTo(RankedTensorType from, int64_t panels,
                    RankedTensorType to) {
  if (from.getRank() == 1)
    return to == RankedTensorType::get({panels * kPanelColumns},
                                       Float32Type::get(from.getContext()));
  bool bf16 = to.getElementType().isBF16();
  return from.getRank() == 2 && (!bf16 || from.getElementType().isBF16()) &&
         to == packedType(panels, from.getDimSize(1), bf16, from.getContext());
}

LogicalResult PackOp::verify() {
  RankedTensorType from = getInput().getType(), to = getResult().getType();
  if (!packsTo(from, panelsFor(from.getDimSize(0)), to))
    return emitOpError() << "cannot pack a " << from << " to a " << to;
  return success();
}

LogicalResult PackGatedOp::verify() {
  RankedTensorType from = getInput().getType(), to = getResult().getType();
  int64_t group = getGroup();
  int64_t panels =
      (from.getDimSize(0) + group - 1) / group * group / (kPanelColumns / 2);
  bool sameGate = getGate().getType().getShape() == from.getShape() &&
                  (!to.getElementType().isBF16() ||
                   getGate().getType().getElementType().isBF16());
  if ((group != 8 && group != 16) || !sameGate || !packsTo(from, panels, to))
    return emitOpError() << "cannot pack a " << from << " and a "
                         << getGate().getType() << " by " << group << " to a "
                         << to;
  return success();
}

LogicalResult PackTilesOp::verify() {
  RankedTensorType from = getInput().getType(), to = getResult().getType();
  int64_t columns = getGate() ? 16 : 32;
  bool fits = from.getRank() == 2 && getPlanes() <= 2 &&
              (!getGate() || getGate().getType().getShape() == from.getShape());
  if (fits) {
    int64_t shape[] = {(from.getDimSize(0) + columns - 1) / columns,
                       planeStride(from.getDimSize(1)) / 32,
                       static_cast<int64_t>(getPlanes()) * 1024};
    fits = to.getShape() == ArrayRef<int64_t>(shape) &&
           (to.getElementType().isBF16() ||
            (getPlanes() == 1 && to.getElementType().isF32()));
  }
  if (!fits)
    return emitOpError() << "cannot pack a " << from << " in " << getPlanes()
                         << " planes to a " << to;
  return success();
}

LogicalResult TransposeOp::verify() {
  RankedTensorType from = getInput().getType(), to = getResult().getType();
  ArrayRef<int64_t> shape = from.getShape();
  bool fits = shape.size() == 2 || (shape.size() == 3 && shape[1] == 1);
  if (!fits ||
      to.getShape() != ArrayRef<int64_t>({shape.back(), shape.front()}) ||
      !to.getElementType().isF32())
    return emitOpError() << "cannot transpose a " << from << " to a " << to;
  return success();
}

void KernelDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/Kernel/KernelOps.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Kernel/KernelAttrs.cpp.inc"
      >();
}

#define GET_ATTRDEF_CLASSES
#include "dialects/Kernel/KernelAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Kernel/KernelOps.cpp.inc"
