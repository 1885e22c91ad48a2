//===- EncoderToKernel.cpp - choose kernels and layouts -------------------===//
///
/// \file
/// Walks over the function once and replaces each operation of the model:
///
///   linear                 kernel.linear, or kernel.linear_store to an output
///   attention              kernel.attention on panel-major linears
///   first, pick, select    kernel.gather
///   pool                   kernel.pool
///   output                 kernel.output and kernel.store
///   all others             kernel.rows
//===----------------------------------------------------------------------===//

#include "codegen/Kernels/KernelArgs.h"
#include "codegen/Kernels/Kernels.h"
#include "codegen/RowPrograms/RowPrograms.h"
#include "codegen/Target/TargetCpu.h"
#include "compiler/Conversion/Passes.h"
#include "dialects/Kernel/Layout.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>
#include <tuple>

namespace encast {
#define GEN_PASS_DEF_ENCODERTOKERNELPASS
#include "compiler/Conversion/Passes.h.inc"
} // namespace encast

using namespace mlir;
using namespace encast;
using namespace encast::encoder;

namespace {

/// Linears with more columns than this write their output group by group.
constexpr int64_t kWideColumns = 1024;

// dialects/ cannot see the table of kernels: what both state must agree.
static_assert(kernel::kPanelColumns == kPanelColumns);

/// The epilogue's function of the same name.
Activation activationOf(LinearOp op) {
  Activation activation = Activation::None;
  [[maybe_unused]] bool known =
      parseActivation(stringifyActivationKind(op.getActivation()), activation);
  assert(known && "the encoder dialect has an activation that no kernel has");
  return activation;
}

class KernelBuilder {
public:
  KernelBuilder(ModuleOp module, const TargetCpu &target)
      : module(module), target(target), symbols(module),
        b(module.getContext()) {}

  LogicalResult run(func::FuncOp func);

private:
  ModuleOp module;
  const TargetCpu &target;
  SymbolTable symbols;
  OpBuilder b;
  std::map<std::tuple<std::string, int64_t>, FlatSymbolRefAttr> packedWeights;
  llvm::StringMap<FlatSymbolRefAttr> kernels; ///< By the name of their shape.

  /// Where an operand of attention lies: a panel-major linear and the plane of
  /// its head 0.
  struct Planes {
    Value value;
    int64_t first;
  };

  FlatSymbolRefAttr symbolOf(Operation *op) {
    return FlatSymbolRefAttr::get(SymbolTable::getSymbolName(op));
  }
  StringAttr nameOf(Operation *op) {
    return op->getAttrOfType<StringAttr>("name");
  }
  IntegerAttr layerOf(Operation *op) {
    return op->getAttrOfType<IntegerAttr>("layer");
  }

  WeightOp derivedWeight(WeightOp from, StringRef name, RankedTensorType type,
                         llvm::function_ref<Value(OpBuilder &, Value)> recipe);
  FlatSymbolRefAttr packed(FlatSymbolRefAttr weight, int64_t headSize);
  FailureOr<const KernelRow *> row(Operation *op, KernelFamily family);
  FlatSymbolRefAttr define(const KernelRow &row, const LinearShape &shape);
  FlatSymbolRefAttr define(const KernelRow &row, const AttentionShape &shape);
  FlatSymbolRefAttr define(const Twine &name, const KernelRow &row,
                           int64_t operands, ArrayRef<NamedAttribute> shape);
  NamedAttribute number(StringRef name, int64_t value) {
    return b.getNamedAttr(name, b.getI64IntegerAttr(value));
  }

  void replaceByRows(Operation *op, func::FuncOp program, ValueRange inputs,
                     ArrayRef<Attribute> weights = {},
                     ArrayRef<int64_t> columns = {});
  void gather(Operation *op, kernel::GatherIndex index);

  LogicalResult lower(Operation *op);
  LogicalResult lower(LinearOp op);
  LogicalResult lower(AttentionOp op);
  LogicalResult lower(OutputOp op);
  FailureOr<int64_t> panelMajorHeadSize(LinearOp op);
  FailureOr<Planes> planes(AttentionOp op, Value operand);
  bool isEmbedded(FlatSymbolRefAttr weight);
  bool storesGroups(LinearOp op);
};

//===----------------------------------------------------------------------===//
// Weights and kernels
//===----------------------------------------------------------------------===//

/// A new weight behind `from` whose recipe continues that of `from`.
WeightOp KernelBuilder::derivedWeight(
    WeightOp from, StringRef name, RankedTensorType type,
    llvm::function_ref<Value(OpBuilder &, Value)> recipe) {
  OpBuilder at(module.getContext());
  at.setInsertionPointAfter(from);
  auto weight = WeightOp::create(at, from.getLoc(), name, type);
  IRMapping mapping;
  from.getRecipe().cloneInto(&weight.getRecipe(), mapping);
  auto yield = cast<YieldOp>(weight.getRecipe().front().getTerminator());
  at.setInsertionPoint(yield);
  yield.getValueMutable().assign(recipe(at, yield.getValue()));
  symbols.insert(weight);
  return weight;
}

/// The weight in panels; heads whose size fills no whole panels are padded
/// (headSize 0: no heads).
FlatSymbolRefAttr KernelBuilder::packed(FlatSymbolRefAttr weight,
                                        int64_t headSize) {
  int64_t padded = kernel::paddedHeadSize(headSize);
  if (headSize == padded)
    headSize = 0;
  FlatSymbolRefAttr &result =
      packedWeights[{weight.getValue().str(), headSize}];
  if (result)
    return result;
  auto from = symbols.lookup<WeightOp>(weight.getValue());
  RankedTensorType type = from.getType();
  SmallVector<int64_t> shape(type.getShape());
  if (headSize)
    shape[0] = shape[0] / headSize * padded;
  auto paddedType = RankedTensorType::get(shape, type.getElementType());
  int64_t panels = kernel::panelsFor(shape[0]);
  if (type.getRank() == 1)
    shape = {panels * kernel::kPanelColumns};
  else
    shape = {panels, shape[1], kernel::kPanelColumns};
  auto packedType = RankedTensorType::get(shape, b.getF32Type());
  auto op = derivedWeight(
      from, (weight.getValue() + ".packed").str(), packedType,
      [&](OpBuilder &at, Value value) -> Value {
        if (headSize)
          value = kernel::PadRowsOp::create(at, from.getLoc(), paddedType,
                                            value, headSize, padded);
        return kernel::PackOp::create(at, from.getLoc(), packedType, value);
      });
  return result = symbolOf(op);
}

FailureOr<const KernelRow *> KernelBuilder::row(Operation *op,
                                                KernelFamily family) {
  if (const KernelRow *row = selectKernelRow(family, target.features))
    return row;
  return op->emitOpError() << "has no kernel for target " << target.name;
}

/// The kernel of that name, which spells its shape; defines it at its first
/// use.
FlatSymbolRefAttr KernelBuilder::define(const Twine &name, const KernelRow &row,
                                        int64_t operands,
                                        ArrayRef<NamedAttribute> shape) {
  FlatSymbolRefAttr &symbol = kernels[name.str()];
  if (!symbol) {
    OpBuilder at = OpBuilder::atBlockBegin(module.getBody());
    auto define =
        kernel::DefineOp::create(at, module.getLoc(), name.str(), row.name,
                                 operands, at.getDictionaryAttr(shape));
    symbols.insert(define);
    symbol = symbolOf(define);
  }
  return symbol;
}

FlatSymbolRefAttr KernelBuilder::define(const KernelRow &row,
                                        const LinearShape &shape) {
  SmallVector<NamedAttribute> attrs = {
      number("k", shape.k), number("lda", shape.lda), number("ldc", shape.ldc)};
  std::string name = llvm::formatv("{0}.k{1}.a{2}.c{3}", row.name, shape.k,
                                   shape.lda, shape.ldc);
  if (shape.bias) {
    attrs.push_back(b.getNamedAttr("bias", b.getUnitAttr()));
    name += ".bias";
  }
  if (shape.activation != Activation::None) {
    std::string activation(activationName(shape.activation));
    attrs.push_back(b.getNamedAttr("activation", b.getStringAttr(activation)));
    name += "." + activation;
  }
  if (shape.residual) {
    attrs.push_back(number("ldr", shape.ldr));
    name += ".r" + std::to_string(shape.ldr);
  }
  return define(name, row, static_cast<int64_t>(LinearArg::Count), attrs);
}

FlatSymbolRefAttr KernelBuilder::define(const KernelRow &row,
                                        const AttentionShape &shape) {
  return define(llvm::formatv("{0}.d{1}.o{2}.s{3:e8}", row.name, shape.headSize,
                              shape.ldo, shape.scale),
                row, static_cast<int64_t>(AttentionArg::Count),
                {number("head_size", shape.headSize), number("ldo", shape.ldo),
                 b.getNamedAttr("scale", b.getF32FloatAttr(shape.scale))});
}

//===----------------------------------------------------------------------===//
// Row programs
//===----------------------------------------------------------------------===//

void KernelBuilder::replaceByRows(Operation *op, func::FuncOp program,
                                  ValueRange inputs,
                                  ArrayRef<Attribute> weights,
                                  ArrayRef<int64_t> columns) {
  b.setInsertionPoint(op);
  auto rows = kernel::RowsProgramOp::create(
      b, op->getLoc(), op->getResult(0).getType(), symbolOf(program), inputs,
      weights.empty() ? ArrayAttr() : b.getArrayAttr(weights),
      columns.empty() ? DenseI64ArrayAttr() : b.getDenseI64ArrayAttr(columns),
      nameOf(op), layerOf(op));
  op->replaceAllUsesWith(rows);
  op->erase();
}

void KernelBuilder::gather(Operation *op, kernel::GatherIndex index) {
  func::FuncOp copy = getCopy(module, getColumns(op->getResult(0)));
  b.setInsertionPoint(op);
  auto gathered = kernel::GatherOp::create(
      b, op->getLoc(), op->getResult(0).getType(), symbolOf(copy),
      op->getOperand(0), kernel::GatherIndexAttr::get(b.getContext(), index),
      nameOf(op), layerOf(op));
  op->replaceAllUsesWith(gathered);
  op->erase();
}

static PoolMode poolMode(Pooling mode) {
  switch (mode) {
  case Pooling::Max:
    return PoolMode::Max;
  case Pooling::Mean:
    return PoolMode::Mean;
  case Pooling::MeanSqrtLength:
    return PoolMode::MeanSqrtLength;
  case Pooling::WeightedMean:
    return PoolMode::WeightedMean;
  case Pooling::Last:
    return PoolMode::Last;
  }
  llvm_unreachable("all modes are listed");
}

//===----------------------------------------------------------------------===//
// Linears and attention
//===----------------------------------------------------------------------===//

/// The size of the heads that attention reads of a linear's result, 0 if no
/// attention reads it. An error if others read it too.
FailureOr<int64_t> KernelBuilder::panelMajorHeadSize(LinearOp op) {
  int64_t headSize = 0;
  bool others = false;
  auto look = [&](Value value) {
    for (Operation *user : value.getUsers()) {
      auto attention = dyn_cast<AttentionOp>(user);
      if (!attention)
        others |= !isa<ColumnsOp>(user);
      else if (headSize && headSize != attention.getHeadSize())
        others = true;
      else
        headSize = attention.getHeadSize();
    }
  };
  look(op.getResult());
  for (Operation *user : op->getUsers())
    if (auto columns = dyn_cast<ColumnsOp>(user))
      look(columns.getResult());
  if (headSize && others)
    return op.emitOpError("is read by attention and by other operations");
  if (headSize && getColumns(op.getResult()) % headSize)
    return op.emitOpError()
           << "has " << getColumns(op.getResult())
           << " columns, which heads of size " << headSize << " do not fill";
  return headSize;
}

/// Whether a table of the embedding is this weight, which then stays row-major.
bool KernelBuilder::isEmbedded(FlatSymbolRefAttr weight) {
  bool embedded = false;
  module.walk([&](kernel::EmbedOp embed) {
    embedded |= llvm::is_contained(embed.getTables(), weight);
  });
  return embedded;
}

/// Whether the only reader of a linear is an output that it should write
/// itself: a wide one, or one whose weight an embedding shares.
bool KernelBuilder::storesGroups(LinearOp op) {
  if (!op->hasOneUse() || !isa<OutputOp>(*op->user_begin()) || op.getResidual())
    return false;
  return getColumns(op.getResult()) > kWideColumns ||
         isEmbedded(op.getWeightAttr());
}

LogicalResult KernelBuilder::lower(LinearOp op) {
  FailureOr<const KernelRow *> kernelRow = row(op, KernelFamily::Linear);
  FailureOr<int64_t> headSize = panelMajorHeadSize(op);
  if (failed(kernelRow) || failed(headSize))
    return failure();
  const KernelRow &row = **kernelRow;
  if (storesGroups(op))
    return success(); // Its output lowers it.
  int64_t columns = getColumns(op.getResult());
  if (*headSize)
    columns = columns / *headSize * kernel::paddedHeadSize(*headSize);
  LinearShape shape;
  shape.k = getColumns(op.getInput());
  shape.lda = kernel::rowStride(shape.k);
  shape.ldc = *headSize ? kernel::kPanelColumns : kernel::rowStride(columns);
  shape.ldr = kernel::rowStride(columns);
  shape.bias = op.getBiasAttr() != nullptr;
  shape.residual = op.getResidual() != nullptr;
  shape.activation = activationOf(op);
  b.setInsertionPoint(op);
  auto linear = kernel::LinearOp::create(
      b, op.getLoc(), op.getType(), define(row, shape), op.getInput(),
      packed(op.getWeightAttr(), *headSize),
      shape.bias ? packed(op.getBiasAttr(), *headSize) : FlatSymbolRefAttr(),
      op.getResidual(), b.getI64IntegerAttr(kernel::panelsFor(columns)),
      b.getI64IntegerAttr(row.panelTile), b.getI64IntegerAttr(row.rowTile),
      *headSize ? b.getUnitAttr() : UnitAttr(), nameOf(op), layerOf(op));
  op.getResult().replaceAllUsesWith(linear);
  op.erase();
  return success();
}

FailureOr<KernelBuilder::Planes> KernelBuilder::planes(AttentionOp op,
                                                       Value operand) {
  int64_t begin = 0;
  auto columns = operand.getDefiningOp<ColumnsOp>();
  if (columns) {
    begin = columns.getBegin();
    operand = columns.getInput();
  }
  auto linear = operand.getDefiningOp<kernel::LinearOp>();
  if (!linear || !linear.getPanelMajor())
    return op.emitOpError()
           << "reads " << operand.getType() << ", which no linear computes";
  int64_t headSize = op.getHeadSize();
  if (begin % headSize)
    return op.emitOpError()
           << "reads columns from " << begin
           << ", which is no multiple of the head size " << headSize;
  return Planes{operand, begin / headSize * kernel::panelsFor(headSize)};
}

LogicalResult KernelBuilder::lower(AttentionOp op) {
  FailureOr<const KernelRow *> kernelRow = row(op, KernelFamily::Attention);
  FailureOr<Planes> query = planes(op, op.getQuery());
  FailureOr<Planes> key = planes(op, op.getKey());
  FailureOr<Planes> value = planes(op, op.getValue());
  if (failed(kernelRow) || failed(query) || failed(key) || failed(value))
    return failure();
  if (key->value != value->value)
    return op.emitOpError("reads keys and values of different linears");
  const KernelRow &row = **kernelRow;
  AttentionShape shape;
  shape.headSize = op.getHeadSize();
  shape.ldo = kernel::rowStride(getColumns(op.getResult()));
  shape.scale = static_cast<float>(op.getScale().convertToDouble());
  if (shape.headSize > 256)
    return op.emitOpError()
           << "has heads of size " << shape.headSize << ", at most 256 work";
  b.setInsertionPoint(op);
  auto attention = kernel::AttentionOp::create(
      b, op.getLoc(), op.getType(), define(row, shape), query->value,
      key->value, value->value,
      b.getDenseI64ArrayAttr({query->first, key->first, value->first}),
      b.getI64IntegerAttr(op.getHeads()),
      b.getI64IntegerAttr(kernel::panelsFor(shape.headSize)),
      b.getI64IntegerAttr(row.rowTile),
      b.getI64IntegerAttr(attentionWorkspaceBytes(row, shape)), nameOf(op),
      layerOf(op));
  op.getResult().replaceAllUsesWith(attention);
  op.erase();
  return success();
}

//===----------------------------------------------------------------------===//
// Outputs
//===----------------------------------------------------------------------===//

LogicalResult KernelBuilder::lower(OutputOp op) {
  Value value = op.getValue();
  int64_t columns = getColumns(value);
  b.setInsertionPoint(op);
  kernel::OutputOp::create(b, op.getLoc(), op.getName(), columns,
                           getRows(value) == Rows::Picked, op.getAllRows());
  auto linear = value.getDefiningOp<LinearOp>();
  if (linear) {
    // Left by lower(LinearOp): this output stores it group by group.
    FailureOr<const KernelRow *> kernelRow = row(op, KernelFamily::Linear);
    if (failed(kernelRow))
      return failure();
    const KernelRow &row = **kernelRow;
    auto weight = symbols.lookup<WeightOp>(linear.getWeight());
    bool shared = isEmbedded(linear.getWeightAttr());
    LinearShape shape;
    shape.k = getColumns(linear.getInput());
    shape.lda = kernel::rowStride(shape.k);
    shape.ldc = row.panelTile * kernel::kPanelColumns;
    shape.bias = linear.getBiasAttr() != nullptr;
    shape.activation = activationOf(linear);
    FlatSymbolRefAttr transpose;
    if (shared)
      transpose = symbolOf(getTransposePanel(
          module, shape.k, weight.getType().getElementType()));
    kernel::LinearStoreOp::create(
        b, op.getLoc(), define(row, shape), linear.getInput(),
        shared ? linear.getWeightAttr() : packed(linear.getWeightAttr(), 0),
        shape.bias ? packed(linear.getBiasAttr(), 0) : FlatSymbolRefAttr(),
        transpose, symbolOf(getCopyPrefix(module, shape.ldc)),
        b.getStringAttr(op.getName()), b.getI64IntegerAttr(columns),
        b.getI64IntegerAttr(row.panelTile), b.getI64IntegerAttr(row.rowTile),
        nameOf(linear), layerOf(linear));
    op.erase();
    linear.erase();
    return success();
  }
  // Gathering and storing is one copy.
  int64_t column = 0;
  bool pick = false;
  if (auto part = value.getDefiningOp<ColumnsOp>()) {
    column = part.getBegin();
    value = part.getInput();
  } else if (auto gathered = value.getDefiningOp<kernel::GatherOp>()) {
    if (gathered.getIndex() == kernel::GatherIndex::Pick) {
      pick = true;
      value = gathered.getInput();
    }
  }
  kernel::StoreOp::create(b, op.getLoc(), getCopy(module, columns).getSymName(),
                          value, op.getName(), column, columns, pick);
  op.erase();
  return success();
}

//===----------------------------------------------------------------------===//
// The walk
//===----------------------------------------------------------------------===//

LogicalResult KernelBuilder::lower(Operation *op) {
  if (auto linear = dyn_cast<LinearOp>(op))
    return lower(linear);
  if (auto attention = dyn_cast<AttentionOp>(op))
    return lower(attention);
  if (auto output = dyn_cast<OutputOp>(op))
    return lower(output);
  if (auto embedding = dyn_cast<EmbeddingOp>(op)) {
    SmallVector<Type> types;
    for (auto table : embedding.getTables().getAsRange<FlatSymbolRefAttr>())
      types.push_back(symbols.lookup<WeightOp>(table.getValue())
                          .getType()
                          .getElementType());
    func::FuncOp program =
        getEmbed(module, getColumns(embedding.getResult()), types);
    b.setInsertionPoint(op);
    auto embed = kernel::EmbedOp::create(
        b, op->getLoc(), embedding.getType(), symbolOf(program),
        embedding.getIndices(), embedding.getTables(), nameOf(op), layerOf(op));
    op->replaceAllUsesWith(embed);
    op->erase();
    return success();
  }
  if (auto norm = dyn_cast<LayerNormOp>(op)) {
    SmallVector<Attribute> weights = {norm.getWeightAttr()};
    if (norm.getBiasAttr())
      weights.push_back(norm.getBiasAttr());
    replaceByRows(op,
                  getLayerNorm(module, getColumns(norm.getInput()),
                               norm.getEpsilon().convertToDouble(),
                               norm.getBiasAttr() != nullptr),
                  norm.getInput(), weights);
    return success();
  }
  if (auto add = dyn_cast<AddOp>(op)) {
    replaceByRows(op, getAdd(module, getColumns(add.getResult())),
                  add.getOperands());
    return success();
  }
  if (auto normalize = dyn_cast<NormalizeOp>(op)) {
    replaceByRows(op, getNormalize(module, getColumns(normalize.getResult())),
                  normalize.getInput());
    return success();
  }
  if (auto concat = dyn_cast<ConcatColumnsOp>(op)) {
    SmallVector<int64_t> columns =
        llvm::map_to_vector(concat.getParts(), getColumns);
    replaceByRows(op, getConcat(module, columns), concat.getParts());
    return success();
  }
  if (auto columns = dyn_cast<ColumnsOp>(op)) {
    // Attention and outputs read a part of the value where it lies.
    if (llvm::all_of(op->getUsers(), [](Operation *user) {
          return isa<AttentionOp, OutputOp>(user);
        }))
      return success();
    replaceByRows(op, getCopy(module, getColumns(columns.getResult())),
                  columns.getInput(), {}, columns.getBegin());
    return success();
  }
  if (isa<FirstOp>(op)) {
    gather(op, kernel::GatherIndex::First);
    return success();
  }
  if (isa<PickOp>(op)) {
    gather(op, kernel::GatherIndex::Pick);
    return success();
  }
  if (isa<SelectRowsOp>(op)) {
    gather(op, kernel::GatherIndex::Selected);
    return success();
  }
  if (auto pool = dyn_cast<PoolOp>(op)) {
    int64_t columns = getColumns(pool.getInput());
    func::FuncOp program = getPool(module, poolMode(pool.getMode()), columns,
                                   kernel::rowStride(columns));
    b.setInsertionPoint(op);
    auto pooled = kernel::PoolOp::create(b, op->getLoc(), pool.getType(),
                                         symbolOf(program), pool.getInput(),
                                         nameOf(op), layerOf(op));
    op->replaceAllUsesWith(pooled);
    op->erase();
    return success();
  }
  if (isa<InputOp, EitherOp, func::ReturnOp>(op))
    return success();
  return op->emitOpError("cannot be lowered to a kernel");
}

LogicalResult KernelBuilder::run(func::FuncOp func) {
  Block &body = func.getBody().front();
  for (Operation &op : llvm::make_early_inc_range(body))
    if (failed(lower(&op)))
      return failure();
  // What was folded into its readers has no reader left.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (isOpTriviallyDead(&op))
      op.erase();
  for (auto weight : llvm::make_early_inc_range(module.getOps<WeightOp>()))
    if (SymbolTable::symbolKnownUseEmpty(weight, module))
      symbols.erase(weight);
  return success();
}

struct EncoderToKernel
    : encast::impl::EncoderToKernelPassBase<EncoderToKernel> {
  using EncoderToKernelPassBase::EncoderToKernelPassBase;

  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<kernel::KernelDialect>();
    registerRowProgramDialects(registry);
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    TargetCpu cpu;
    std::string error;
    if (!parseTarget(target, cpu, error)) {
      module.emitError() << error;
      return signalPassFailure();
    }
    FailureOr<func::FuncOp> encode = findEncode(module);
    if (failed(encode))
      return signalPassFailure();
    module->setAttr(kernel::kTargetAttrName,
                    StringAttr::get(&getContext(), cpu.name));
    if (failed(KernelBuilder(module, cpu).run(*encode)))
      signalPassFailure();
  }
};

} // namespace
