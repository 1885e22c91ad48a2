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
  auto scale = [](Attribute attr) {
    auto value = dyn_cast<FloatAttr>(attr);
    return value && value.getType().isF32() && value.getValue().isFinite();
  };
  auto flag = [](Attribute attr) { return isa<UnitAttr>(attr); };
  auto text = [](Attribute attr) { return isa<StringAttr>(attr); };
  const Field linear[] = {{"k", true, number, "a positive i64"},
                          {"lda", true, number, "a positive i64"},
                          {"ldc", true, number, "a positive i64"},
                          {"ldr", false, number, "a positive i64"},
                          {"bias", false, flag, "no value"},
                          {"activation", false, text, "a string"}};
  const Field attention[] = {{"head_size", true, number, "a positive i64"},
                             {"ldo", true, number, "a positive i64"},
                             {"scale", true, scale, "a finite f32"}};
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

/// What linears have in common: a kernel for this input and a weight with a
/// bias in `panels` panels (`weight` may be null), whose sums it adds.
static LogicalResult verifyLinear(Operation *op, DefineOp kernel, Value input,
                                  FlatSymbolRefAttr weight,
                                  FlatSymbolRefAttr bias, int64_t panels,
                                  int64_t ldc, int64_t ldr,
                                  SymbolTableCollection &symbols) {
  int64_t k = encoder::getColumns(input);
  if (failed(expectNumber(op, kernel, "k", k)) ||
      failed(expectNumber(op, kernel, "lda", rowStride(k))) ||
      failed(expectNumber(op, kernel, "ldc", ldc)) ||
      failed(expectNumber(op, kernel, "ldr", ldr)))
    return failure();
  if (kernel.getShape().contains("bias") != bool(bias))
    return op->emitOpError()
           << "has " << (bias ? "a" : "no") << " bias, unlike its kernel @"
           << kernel.getSymName();
  auto expectShape = [&](StringRef role, FlatSymbolRefAttr symbol,
                         ArrayRef<int64_t> shape) -> LogicalResult {
    FailureOr<RankedTensorType> type =
        encoder::lookupWeight(op, role, symbol, symbols);
    if (failed(type))
      return failure();
    auto expected =
        RankedTensorType::get(shape, Float32Type::get(op->getContext()));
    if (*type != expected)
      return op->emitOpError()
             << "expects a " << role << " of type " << expected << ", but "
             << symbol << " is a " << *type;
    return success();
  };
  if (weight && failed(expectShape("weight", weight, {panels, k, 16})))
    return failure();
  return bias ? expectShape("bias", bias, {panels * 16}) : success();
}

LogicalResult LinearOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (encoder::getRows(getInput()) != encoder::getRows(getResult()))
    return emitOpError() << "changes the rows of " << getInput().getType();
  int64_t panels = getPanels();
  int64_t fewest = panelsFor(encoder::getColumns(getResult()));
  // Heads may be padded to whole panels, so panel-major results have more.
  if (getPanelMajor() ? panels < fewest : panels != fewest)
    return emitOpError() << "expects " << fewest << " panels for "
                         << encoder::getColumns(getResult())
                         << " columns, but got " << panels;
  if (getResidual() && getResidual().getType() != getResult().getType())
    return emitOpError() << "expects a residual of type "
                         << getResult().getType() << ", but got "
                         << getResidual().getType();
  FailureOr<DefineOp> kernel = lookupKernel(*this, getKernelAttr(), symbols);
  if (failed(kernel))
    return failure();
  int64_t stride = rowStride(encoder::getColumns(getResult()));
  return verifyLinear(*this, *kernel, getInput(), getWeightAttr(),
                      getBiasAttr(), panels,
                      getPanelMajor() ? kPanelColumns : stride,
                      getResidual() ? stride : 0, symbols);
}

LogicalResult AttentionOp::verifySymbolUses(SymbolTableCollection &symbols) {
  int64_t heads = getHeads(), perHead = getPlanesPerHead();
  int64_t columns = encoder::getColumns(getResult());
  if (columns % heads)
    return emitOpError() << "cannot split " << columns << " columns into "
                         << heads << " heads";
  if (perHead != panelsFor(columns / heads))
    return emitOpError() << "expects " << panelsFor(columns / heads)
                         << " planes for heads of " << columns / heads
                         << " columns, but got " << perHead;
  if (getPlanes().size() != 3)
    return emitOpError() << "expects the first planes of query, key and value, "
                            "but got "
                         << getPlanes().size() << " numbers";
  if (failed(encoder::expectRows(*this, getQuery(),
                                 {Rows::Tokens, Rows::Selected})) ||
      failed(encoder::expectRows(*this, getResult(),
                                 encoder::getRows(getQuery()))) ||
      failed(encoder::expectRows(*this, getKey(), Rows::Tokens)))
    return failure();
  for (auto [value, first] :
       llvm::zip_equal(ValueRange(getOperands()), getPlanes())) {
    auto linear = value.getDefiningOp<LinearOp>();
    if (!linear || !linear.getPanelMajor())
      return emitOpError("expects operands of panel-major linears");
    if (first < 0 || first > linear.getPanels() - heads * perHead)
      return emitOpError() << "reads planes " << first << " to "
                           << first + heads * perHead << " of "
                           << linear.getPanels();
  }
  FailureOr<DefineOp> kernel = lookupKernel(*this, getKernelAttr(), symbols);
  if (failed(kernel) ||
      failed(expectNumber(*this, *kernel, "head_size", columns / heads)))
    return failure();
  return expectNumber(*this, *kernel, "ldo", rowStride(columns));
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
    if (from < 0 || from >= encoder::getColumns(input))
      return emitOpError() << "reads from column " << from << " of "
                           << input.getType();
  }
  for (Attribute attr : weights ? weights.getValue() : ArrayRef<Attribute>()) {
    auto symbol = dyn_cast<FlatSymbolRefAttr>(attr);
    if (!symbol)
      return emitOpError() << "expects symbols as weights, but got " << attr;
    if (failed(encoder::lookupWeight(*this, "weight", symbol, symbols)))
      return failure();
  }
  return expectProgram(*this, getProgramAttr(),
                       getInputs().size() + (weights ? weights.size() : 0) + 1,
                       symbols);
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
  int64_t columns = encoder::getColumns(getValue());
  if (int64_t(getColumn()) + getColumns() > columns)
    return emitOpError() << "stores columns " << getColumn() << " to "
                         << getColumn() + getColumns() << " of " << columns;
  if (failed(verifyStored(*this, getOutput(), getColumns(), getValue(),
                          getPick())))
    return failure();
  return expectProgram(*this, getProgramAttr(), 2, symbols);
}

LogicalResult LinearStoreOp::verifySymbolUses(SymbolTableCollection &symbols) {
  int64_t k = encoder::getColumns(getInput()), columns = getColumns();
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
                      panelsFor(columns), getPanelTile() * kPanelColumns,
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

LogicalResult PackOp::verify() {
  RankedTensorType from = getInput().getType(), to = getResult().getType();
  int64_t panels = panelsFor(from.getDimSize(0));
  SmallVector<int64_t> shape = {panels * kPanelColumns};
  if (from.getRank() == 2)
    shape = {panels, from.getDimSize(1), kPanelColumns};
  if (from.getRank() > 2 || to.getShape() != ArrayRef<int64_t>(shape) ||
      !to.getElementType().isF32())
    return emitOpError() << "cannot pack a " << from << " to a " << to;
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
