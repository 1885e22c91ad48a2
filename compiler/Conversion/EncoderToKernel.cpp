//===- EncoderToKernel.cpp - choose kernels and layouts -------------------===//
///
/// \file
/// Walks over the function once and replaces each operation of the model:
///
///   linear                 kernel.linear, or kernel.linear_store to an output
///   rms_norm, rope         kernel.heads where attention reads them
///   attention              kernel.attention on panel-major values, or
///                          kernel.attention_pack and kernel.tile_attention
///   multiply(short_conv)   kernel.short_conv
///   first, pick, select    kernel.gather
///   pool                   kernel.pool
///   output                 kernel.output and kernel.store
///   all others             kernel.rows
///
/// Where kernels multiply tiles of bf16, values are made in bf16 planes by
/// whatever computes them if nothing else reads them, else split by a program.
//===----------------------------------------------------------------------===//

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
static_assert(kernel::planeRowStride(1000, 3) == planeRowStride(1000, 3));

/// Panels of a group of them where tiles are multiplied.
constexpr int64_t kTileGroupPanels = 8;

/// Bytes of a row of the feed-forward's inner value that are in memory at once
/// where tiles are multiplied: the chunk and the panels that read it stay in
/// the L2, and few chunks take up the sums of those before.
constexpr int64_t kFeedForwardChunkBytes = 3584;
/// Queries of one call.
constexpr int64_t kTileQueries = 512;

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
  KernelBuilder(ModuleOp module, func::FuncOp func, const TargetCpu &target)
      : module(module), func(func), target(target), symbols(module),
        b(module.getContext()) {}

  LogicalResult run();

private:
  ModuleOp module;
  func::FuncOp func;
  const TargetCpu &target;
  SymbolTable symbols;
  OpBuilder b;
  llvm::StringMap<FlatSymbolRefAttr> packedWeights; ///< By what was done.
  llvm::StringMap<FlatSymbolRefAttr> kernels; ///< By the name of their shape.
  DenseMap<Operation *, Arithmetic> arithmetics; ///< Of linears and attention.
  DenseMap<std::pair<Value, int64_t>, Value> splits;
  DenseMap<int64_t, Value> positions; ///< By encoder::Rows.

  /// Where an operand of attention lies: a panel-major value and the plane of
  /// its head 0.
  struct Planes {
    Value value;
    int64_t first;
  };
  /// What happens to heads on their way from a linear to attention.
  struct HeadsChain {
    Value input;
    int64_t column = 0; ///< Of the input.
    RmsNormOp norm;
    RopeOp rope;
  };
  /// Which part of a weight is packed, and how.
  struct Packing {
    Arithmetic arithmetic = Arithmetic::F32;
    bool bf16Weights = false; ///< In f32 arithmetic.
    int64_t headSize = 0; ///< Heads of rows that are padded to whole panels.
    int64_t row = 0, rows = -1;       ///< -1: all
    int64_t column = 0, columns = -1; ///< -1: all
  };

  /// What a linear, or a part of its sum, adds to its products.
  struct Addends {
    Value accumulate = {}; ///< Sums that the products go on from.
    Value residual = {};
    bool bias = true; ///< And applies the activation.
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

  FlatSymbolRefAttr
  derivedWeight(ArrayRef<WeightOp> from, const Twine &name,
                llvm::function_ref<Value(OpBuilder &, ArrayRef<Value>)> recipe);
  FlatSymbolRefAttr packed(FlatSymbolRefAttr weight, FlatSymbolRefAttr gate,
                           const Packing &packing);
  RankedTensorType weightType(FlatSymbolRefAttr weight) {
    return symbols.lookup<WeightOp>(weight.getValue()).getType();
  }
  const KernelRow *select(KernelFamily family, Arithmetic arithmetic) const;
  FailureOr<const KernelRow *> row(Operation *op, KernelFamily family,
                                   Arithmetic arithmetic);
  FlatSymbolRefAttr define(const KernelRow &row, const LinearShape &shape);
  FlatSymbolRefAttr define(const KernelRow &row, const AttentionShape &shape);
  FlatSymbolRefAttr define(const Twine &name, const KernelRow &row,
                           ArrayRef<NamedAttribute> shape);
  NamedAttribute number(StringRef name, int64_t value) {
    return b.getNamedAttr(name, b.getI64IntegerAttr(value));
  }

  bool isExactlyBf16(LinearOp op);
  bool storesBf16(LinearOp op);
  Arithmetic chooseArithmetic(LinearOp op);
  Arithmetic chooseArithmetic(AttentionOp op);
  int64_t wantedPlanes(Value value);
  Value asPlanes(Value value, int64_t planes);
  Value positionsOf(Rows rows);

  void replaceByRows(Operation *op, func::FuncOp program, ValueRange inputs,
                     ArrayRef<Attribute> weights = {},
                     ArrayRef<int64_t> columns = {}, int64_t planes = 0);
  void gather(Operation *op, kernel::GatherIndex index);
  Value heads(Operation *op, HeadsChain chain, int64_t count, int64_t headSize,
              HeadsOptions options);

  LogicalResult lower(Operation *op);
  LogicalResult lower(LinearOp op);
  LogicalResult lower(AttentionOp op);
  LogicalResult lower(MultiplyOp op);
  LogicalResult lower(OutputOp op);
  LogicalResult lowerToGroups(LinearOp op, OutputOp output);
  void lowerConv(ShortConvOp op, MultiplyOp multiply);
  LogicalResult lowerTileAttention(AttentionOp op);
  Value linear(LinearOp op, const KernelRow &row, Value input,
               const Packing &packing, int64_t headSize, int64_t outPlanes,
               const Addends &addends);
  LinearOp innerLinear(LinearOp op);
  LogicalResult lowerFeedForward(LinearOp up, LinearOp down);
  int64_t panelMajorHeadSize(LinearOp op);
  HeadsChain chainOf(Value operand);
  bool feedsAttention(Operation *op);
  Planes planes(AttentionOp op, Value operand, int64_t heads);
  bool isEmbedded(FlatSymbolRefAttr weight);
  bool storesGroups(LinearOp op);
};

//===----------------------------------------------------------------------===//
// Weights and kernels
//===----------------------------------------------------------------------===//

/// A new weight behind `from` whose recipe continues theirs.
FlatSymbolRefAttr KernelBuilder::derivedWeight(
    ArrayRef<WeightOp> from, const Twine &name,
    llvm::function_ref<Value(OpBuilder &, ArrayRef<Value>)> recipe) {
  OpBuilder at(module.getContext());
  at.setInsertionPointAfter(from.back());
  WeightOp first = from.front();
  auto weight =
      WeightOp::create(at, first.getLoc(), name.str(), first.getType());
  at.setInsertionPointToStart(&weight.getRecipe().emplaceBlock());
  SmallVector<Value> values;
  for (WeightOp source : from) {
    IRMapping mapping;
    for (Operation &op : source.getRecipe().front().without_terminator())
      at.clone(op, mapping);
    values.push_back(mapping.lookup(source.getYielded()));
  }
  Value result = recipe(at, values);
  weight.setType(cast<RankedTensorType>(result.getType()));
  YieldOp::create(at, first.getLoc(), result);
  symbols.insert(weight);
  return symbolOf(weight);
}

/// The weight as the kernels of an arithmetic read it, with its gate if it has
/// one. Biases are packed likewise, in f32.
FlatSymbolRefAttr KernelBuilder::packed(FlatSymbolRefAttr weight,
                                        FlatSymbolRefAttr gate,
                                        const Packing &packing) {
  bool tiles = packing.arithmetic != Arithmetic::F32;
  bool bf16 = packing.bf16Weights && weightType(weight).getRank() == 2;
  int64_t padded = kernel::paddedHeadSize(packing.headSize);
  std::string name = weight.getValue().str();
  if (packing.rows >= 0)
    name += ".rows." + std::to_string(packing.row);
  if (packing.columns >= 0)
    name += ".columns." + std::to_string(packing.column);
  if (padded != packing.headSize)
    name += ".heads." + std::to_string(packing.headSize);
  if (tiles)
    name += "." + std::string(arithmeticName(packing.arithmetic));
  else
    name += bf16 ? ".packed.bf16" : ".packed";
  FlatSymbolRefAttr &result =
      packedWeights[gate ? name + "." + gate.getValue().str() : name];
  if (result)
    return result;

  SmallVector<WeightOp> from = {symbols.lookup<WeightOp>(weight.getValue())};
  if (gate)
    from.push_back(symbols.lookup<WeightOp>(gate.getValue()));
  Location loc = from.front().getLoc();
  auto resized = [](RankedTensorType type, int64_t dimension, int64_t size) {
    SmallVector<int64_t> shape(type.getShape());
    shape[dimension] = size;
    return RankedTensorType::get(shape, type.getElementType());
  };
  auto prepare = [&](OpBuilder &at, Value value) {
    auto type = [&] { return cast<RankedTensorType>(value.getType()); };
    if (bf16 && !type().getElementType().isBF16())
      value = CastOp::create(at, loc, type().clone(at.getBF16Type()), value);
    if (packing.rows >= 0)
      value = SliceOp::create(at, loc, resized(type(), 0, packing.rows), value,
                              packing.row);
    if (packing.columns >= 0 && type().getRank() == 2)
      value = SliceColumnsOp::create(
          at, loc, resized(type(), 1, packing.columns), value, packing.column);
    int64_t rows = type().getDimSize(0);
    if (padded != packing.headSize)
      value = kernel::PadRowsOp::create(
          at, loc, resized(type(), 0, rows / packing.headSize * padded), value,
          packing.headSize, padded);
    else if (tiles && rows % 32)
      value = kernel::PadRowsOp::create(
          at, loc, resized(type(), 0, kernel::planeStride(rows)), value, rows,
          kernel::planeStride(rows)); // Tiles fill whole planes.
    return value;
  };
  auto pack = [&](OpBuilder &at, ArrayRef<Value> parts) -> Value {
    Value value = prepare(at, parts[0]);
    Value gates = gate ? prepare(at, parts[1]) : Value();
    auto type = cast<RankedTensorType>(value.getType());
    int64_t rows = type.getDimSize(0);
    bool matrix = type.getRank() == 2;
    if (tiles && matrix) {
      int64_t planes = packedWeightPlanes(packing.arithmetic);
      Type element = planes ? Type(at.getBF16Type()) : at.getF32Type();
      planes = std::max(planes, int64_t(1));
      auto packedType = RankedTensorType::get(
          {rows / (gate ? 16 : 32),
           kernel::planeStride(type.getDimSize(1)) / 32, planes * 1024},
          element);
      return kernel::PackTilesOp::create(at, loc, packedType, value, gates,
                                         planes);
    }
    int64_t group = tiles ? 16 : 8;
    int64_t panels =
        gate ? (rows + group - 1) / group * group / 8 : kernel::panelsFor(rows);
    SmallVector<int64_t> shape = {panels * kernel::kPanelColumns};
    if (bf16)
      shape = {panels, (type.getDimSize(1) + 1) / 2, 2 * kernel::kPanelColumns};
    else if (matrix)
      shape = {panels, type.getDimSize(1), kernel::kPanelColumns};
    auto packedType = RankedTensorType::get(shape, bf16 ? Type(at.getBF16Type())
                                                        : at.getF32Type());
    if (gate)
      return kernel::PackGatedOp::create(at, loc, packedType, value, gates,
                                         group);
    return kernel::PackOp::create(at, loc, packedType, value);
  };
  return result = derivedWeight(from, name, pack);
}

/// The kernel that the target runs; null if there is none, or if f32 is faster.
const KernelRow *KernelBuilder::select(KernelFamily family,
                                       Arithmetic arithmetic) const {
  const KernelRow *row = selectKernelRow(family, arithmetic, target.features);
  return row && usesDots(*row) && !target.fastDots ? nullptr : row;
}

FailureOr<const KernelRow *>
KernelBuilder::row(Operation *op, KernelFamily family, Arithmetic arithmetic) {
  if (const KernelRow *row = select(family, arithmetic))
    return row;
  return op->emitOpError() << "has no kernel for target " << target.name;
}

/// The kernel of that name, which spells its shape; defines it at its first
/// use.
FlatSymbolRefAttr KernelBuilder::define(const Twine &name, const KernelRow &row,
                                        ArrayRef<NamedAttribute> shape) {
  FlatSymbolRefAttr &symbol = kernels[name.str()];
  if (!symbol) {
    OpBuilder at = OpBuilder::atBlockBegin(module.getBody());
    auto define = kernel::DefineOp::create(at, module.getLoc(), name.str(),
                                           row.name, operandCount(row.family),
                                           at.getDictionaryAttr(shape));
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
  auto flag = [&](bool given, StringRef flag) {
    if (!given)
      return;
    attrs.push_back(b.getNamedAttr(flag, b.getUnitAttr()));
    name += ("." + flag).str();
  };
  flag(shape.bias, "bias");
  flag(shape.gated, "gated");
  flag(shape.accumulate, "accumulate");
  flag(shape.bf16Weights, "bf16_weights");
  if (shape.activation != Activation::None) {
    std::string activation(activationName(shape.activation));
    attrs.push_back(b.getNamedAttr("activation", b.getStringAttr(activation)));
    name += "." + activation;
  }
  if (shape.residual) {
    attrs.push_back(number("ldr", shape.ldr));
    name += ".r" + std::to_string(shape.ldr);
  }
  if (shape.cPlanes) {
    attrs.push_back(number("planes", shape.cPlanes));
    attrs.push_back(number("plane_stride", shape.cPlaneStride));
    name += ".p" + std::to_string(shape.cPlanes);
  }
  return define(name, row, attrs);
}

FlatSymbolRefAttr KernelBuilder::define(const KernelRow &row,
                                        const AttentionShape &shape) {
  std::string name = llvm::formatv("{0}.d{1}", row.name, shape.headSize);
  SmallVector<NamedAttribute> attrs = {number("head_size", shape.headSize)};
  auto field = [&](StringRef attr, StringRef letter, int64_t value,
                   int64_t absent) {
    if (value == absent)
      return;
    attrs.push_back(number(attr, value));
    name += ("." + letter + Twine(value)).str();
  };
  switch (row.family) {
  case KernelFamily::AttentionPack:
    field("ldkv", "l", shape.ldkv, 0);
    field("kv_plane_stride", "s", shape.kvPlaneStride, 0);
    return define(name, row, attrs);
  case KernelFamily::TileAttention:
    field("ldq", "q", shape.ldq, 0);
    field("q_plane_stride", "s", shape.qPlaneStride, 0);
    break;
  default:
    attrs.push_back(b.getNamedAttr("scale", b.getF32FloatAttr(shape.scale)));
    name += llvm::formatv(".s{0:e8}", shape.scale);
  }
  field("ldo", "o", shape.ldo, 0);
  field("query_heads", "g", shape.queryHeads, 1);
  field("window", "w", shape.window, -1);
  field("planes", "p", shape.outPlanes, 0);
  field("plane_stride", "t", shape.outPlaneStride, 0);
  return define(name, row, attrs);
}

//===----------------------------------------------------------------------===//
// Arithmetic and planes
//===----------------------------------------------------------------------===//

/// Whether every weight of a linear is one of bf16.
bool KernelBuilder::isExactlyBf16(LinearOp op) {
  auto isExact = [&](FlatSymbolRefAttr weight) {
    return !weight || weightType(weight).getElementType().isBF16();
  };
  return isExact(op.getWeightAttr()) && isExact(op.getGateAttr());
}

/// In f32 weights that bf16 holds, or may round, are stored in bf16: they are
/// widened exactly, and few rows wait for half as many bytes.
bool KernelBuilder::storesBf16(LinearOp op) {
  return arithmetics.lookup(op) == Arithmetic::F32 &&
         (isExactlyBf16(op) || op.getPrecision() == Precision::Bf16);
}

/// The terms that a linear's products are made of on this target. Weights that
/// are exactly bf16 cost a third of what others do, and lose nothing.
Arithmetic KernelBuilder::chooseArithmetic(LinearOp op) {
  bool exact = isExactlyBf16(op);
  Arithmetic wanted = exact ? Arithmetic::Bf16x3w : Arithmetic::Bf16x6;
  if (op.getPrecision() == Precision::Bf16)
    wanted = Arithmetic::Bf16;
  else if (op.getPrecision() == Precision::Bf16x3 && !exact)
    wanted = Arithmetic::Bf16x3;
  return select(KernelFamily::Linear, wanted) ? wanted : Arithmetic::F32;
}

/// Attention multiplies tiles where the linear that makes its queries does.
Arithmetic KernelBuilder::chooseArithmetic(AttentionOp op) {
  Arithmetic wanted = Arithmetic::Bf16x6;
  if (op.getPrecision() == Precision::Bf16)
    wanted = Arithmetic::Bf16;
  else if (op.getPrecision() == Precision::Bf16x3)
    wanted = Arithmetic::Bf16x3;
  auto linear = chainOf(op.getQuery()).input.getDefiningOp<LinearOp>();
  if (!linear || arithmetics.lookup(linear) == Arithmetic::F32)
    return Arithmetic::F32;
  for (KernelFamily family :
       {KernelFamily::TileAttention, KernelFamily::AttentionPack})
    if (!select(family, wanted))
      return Arithmetic::F32;
  return wanted;
}

/// The bf16 planes that all readers of a value want; 0 if any wants f32. A
/// convolution takes one where more would say nothing more: from products of
/// bf16.
int64_t KernelBuilder::wantedPlanes(Value value) {
  int64_t planes = -1;
  Operation *op = value.getDefiningOp();
  for (Operation *user : value.getUsers()) {
    auto linear = dyn_cast<LinearOp>(user);
    int64_t wanted = 0;
    if (linear && linear.getInput() == value && linear.getResidual() != value)
      wanted = activationPlanes(arithmetics.lookup(linear));
    else if (isa<ShortConvOp>(user))
      wanted = arithmetics.lookup(op) == Arithmetic::Bf16;
    if (planes >= 0 && planes != wanted)
      return 0;
    planes = wanted;
  }
  return std::max<int64_t>(planes, 0);
}

/// The value in bf16 planes.
Value KernelBuilder::asPlanes(Value value, int64_t planes) {
  if (kernel::getPlanes(value) == planes)
    return value;
  Value &split = splits[{value, planes}];
  if (split)
    return split;
  func::FuncOp program =
      getSplit(module, kernel::getColumns(value), static_cast<int>(planes));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointAfterValue(value);
  Operation *op = value.getDefiningOp();
  auto rows = kernel::RowsProgramOp::create(
      b, value.getLoc(),
      kernel::getRowsType(value, kernel::getColumns(value), planes),
      symbolOf(program), value, ArrayAttr(), DenseI64ArrayAttr(), nameOf(op),
      layerOf(op));
  return split = rows.getResult();
}

/// The position of each token, or of each selected row.
Value KernelBuilder::positionsOf(Rows rows) {
  Value &value = positions[static_cast<int64_t>(rows)];
  if (value)
    return value;
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&func.getBody().front());
  auto index = RankedTensorType::get(ShapedType::kDynamic, b.getI32Type());
  Value tokens =
      InputOp::create(b, func.getLoc(), index, IndexInput::Positions);
  if (rows == Rows::Tokens)
    return value = tokens;
  auto selected =
      RankedTensorType::get(index.getShape(), index.getElementType(),
                            RowsAttr::get(b.getContext(), rows));
  return value = SelectRowsOp::create(b, func.getLoc(), selected, tokens,
                                      StringAttr(), IntegerAttr());
}

//===----------------------------------------------------------------------===//
// Row programs
//===----------------------------------------------------------------------===//

void KernelBuilder::replaceByRows(Operation *op, func::FuncOp program,
                                  ValueRange inputs,
                                  ArrayRef<Attribute> weights,
                                  ArrayRef<int64_t> columns, int64_t planes) {
  b.setInsertionPoint(op);
  Value result = op->getResult(0);
  auto rows = kernel::RowsProgramOp::create(
      b, op->getLoc(), kernel::getRowsType(result, getColumns(result), planes),
      symbolOf(program), inputs,
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

/// The size of the heads that f32 attention reads of a linear's result as they
/// are; 0 if its rows are better laid out by a program, since others read them
/// too, heads do not begin at planes, or an epilogue takes rows.
int64_t KernelBuilder::panelMajorHeadSize(LinearOp op) {
  if (arithmetics.lookup(op) != Arithmetic::F32 || op.getResidual() ||
      op.getGateAttr())
    return 0;
  int64_t headSize = 0;
  bool others = false;
  auto look = [&](Value value, int64_t begin) {
    for (Operation *user : value.getUsers()) {
      auto attention = dyn_cast<AttentionOp>(user);
      if (!attention || arithmetics.lookup(attention) != Arithmetic::F32) {
        others |= value != op.getResult() || !isa<ColumnsOp>(user);
        continue;
      }
      others |= headSize && headSize != attention.getHeadSize();
      headSize = attention.getHeadSize();
      others |= begin % headSize != 0;
    }
  };
  look(op.getResult(), 0);
  for (Operation *user : op->getUsers())
    if (auto columns = dyn_cast<ColumnsOp>(user))
      look(columns.getResult(), columns.getBegin());
  if (!headSize || others || getColumns(op.getResult()) % headSize)
    return 0;
  return headSize;
}

KernelBuilder::HeadsChain KernelBuilder::chainOf(Value operand) {
  HeadsChain chain;
  chain.rope = operand.getDefiningOp<RopeOp>();
  if (chain.rope)
    operand = chain.rope.getInput();
  if (auto norm = operand.getDefiningOp<RmsNormOp>(); norm && norm.getHeads()) {
    chain.norm = norm;
    operand = norm.getInput();
  }
  if (auto columns = operand.getDefiningOp<ColumnsOp>()) {
    chain.column = columns.getBegin();
    operand = columns.getInput();
  }
  chain.input = operand;
  return chain;
}

/// Heads that the operation works in; 0 for whole rows.
static int64_t headsOf(Operation *op) {
  if (auto rope = dyn_cast<RopeOp>(op))
    return rope.getHeads();
  auto norm = dyn_cast<RmsNormOp>(op);
  return norm ? norm.getHeads().value_or(0) : 0;
}

/// Whether only attention reads the heads of this norm or rotation, in the same
/// number, perhaps through a rotation: then it is a part of a HeadsChain.
bool KernelBuilder::feedsAttention(Operation *op) {
  int64_t heads = headsOf(op);
  return heads && llvm::all_of(op->getUses(), [&](OpOperand &use) {
           if (auto attention = dyn_cast<AttentionOp>(use.getOwner()))
             return heads == (use.get() == attention.getQuery()
                                  ? int64_t(attention.getHeads())
                                  : attention.getHeadsOfKeys());
           return isa<RopeOp>(use.getOwner()) &&
                  headsOf(use.getOwner()) == heads &&
                  feedsAttention(use.getOwner());
         });
}

/// Whether a table of the embedding is this weight, which then stays row-major.
bool KernelBuilder::isEmbedded(FlatSymbolRefAttr weight) {
  bool embedded = false;
  module.walk([&](Operation *op) {
    if (auto embed = dyn_cast<kernel::EmbedOp>(op))
      embedded |= llvm::is_contained(embed.getTables(), weight);
    else if (auto embedding = dyn_cast<EmbeddingOp>(op))
      embedded |= llvm::is_contained(embedding.getTables(), weight);
  });
  return embedded;
}

/// Whether the only reader of a linear is an output that it should write
/// itself: a wide one, or one whose weight an embedding shares.
bool KernelBuilder::storesGroups(LinearOp op) {
  if (!op->hasOneUse() || !isa<OutputOp>(*op->user_begin()) ||
      op.getResidual() || op.getGateAttr())
    return false;
  return getColumns(op.getResult()) > kWideColumns ||
         isEmbedded(op.getWeightAttr());
}

/// One call of a linear, or of the part of it that `packing` says.
Value KernelBuilder::linear(LinearOp op, const KernelRow &row, Value input,
                            const Packing &packing, int64_t headSize,
                            int64_t outPlanes, const Addends &addends) {
  int64_t columns = getColumns(op.getResult());
  if (packing.rows >= 0)
    columns = packing.rows;
  bool tiles = row.arithmetic != Arithmetic::F32;
  bool gated = op.getGateAttr() != nullptr;
  int64_t made = columns; // With what pads heads.
  if (headSize)
    made = columns / headSize * kernel::paddedHeadSize(headSize);
  if (tiles)
    made = kernel::planeStride(made);
  int64_t perPanel = gated ? 8 : 16;
  int64_t panels = (made + perPanel - 1) / perPanel;
  int64_t planes = kernel::getPlanes(input);
  LinearShape shape;
  shape.arithmetic = row.arithmetic;
  shape.k = kernel::getColumns(input);
  shape.lda = kernel::rowStride(shape.k, planes);
  shape.ldc = headSize ? kernel::kPanelColumns : kernel::rowStride(columns);
  if (outPlanes)
    shape.ldc = kernel::planeRowStride(columns, outPlanes);
  shape.ldr = shape.ldc;
  shape.gated = gated;
  shape.bf16Weights = packing.bf16Weights;
  shape.accumulate = addends.accumulate != nullptr;
  shape.residual = addends.residual != nullptr;
  shape.cPlanes = static_cast<int>(outPlanes);
  shape.cPlaneStride = outPlanes ? kernel::planeStride(columns) : 0;
  if (addends.bias) {
    shape.bias = op.getBiasAttr() != nullptr;
    shape.activation = activationOf(op);
  }
  b.setInsertionPoint(op);
  int64_t workspace = linearWorkspaceBytes(row, shape);
  return kernel::LinearOp::create(
      b, op.getLoc(), kernel::getRowsType(op.getResult(), columns, outPlanes),
      define(row, shape), input,
      packed(op.getWeightAttr(), op.getGateAttr(), packing),
      shape.bias ? packed(op.getBiasAttr(), op.getGateBiasAttr(), packing)
                 : FlatSymbolRefAttr(),
      addends.residual, addends.accumulate, b.getI64IntegerAttr(panels),
      b.getI64IntegerAttr(row.panelTile), b.getI64IntegerAttr(row.rowTile),
      workspace ? b.getI64IntegerAttr(workspace) : IntegerAttr(),
      headSize ? b.getUnitAttr() : UnitAttr(), nameOf(op), layerOf(op));
}

/// Columns of the feed-forward's inner value that a chunk has at most.
static int64_t feedForwardChunk(Arithmetic arithmetic) {
  return kFeedForwardChunkBytes / (int64_t(2) * activationPlanes(arithmetic));
}

/// The linear whose result only `op` reads and which is not worth to be in
/// memory as a whole; null if there is none.
LinearOp KernelBuilder::innerLinear(LinearOp op) {
  auto inner = op.getInput().getDefiningOp<LinearOp>();
  if (!inner || !inner->hasOneUse() || inner.getResidual() ||
      op.getGateAttr() || arithmetics.lookup(op) == Arithmetic::F32 ||
      arithmetics.lookup(inner) != arithmetics.lookup(op) ||
      getColumns(inner.getResult()) <= feedForwardChunk(arithmetics.lookup(op)))
    return {};
  return inner;
}

/// Two linears one behind the other, in chunks of the columns between them. The
/// sums of the second go on from chunk to chunk, and the residual comes last,
/// or in bf16, to which another rounding in f32 is nothing, first: no other
/// sums are in the caches then.
LogicalResult KernelBuilder::lowerFeedForward(LinearOp up, LinearOp down) {
  Arithmetic arithmetic = arithmetics.lookup(down);
  FailureOr<const KernelRow *> row =
      this->row(down, KernelFamily::Linear, arithmetic);
  if (failed(row))
    return failure();
  b.setInsertionPoint(down);
  int64_t planes = activationPlanes(arithmetic);
  int64_t inner = getColumns(up.getResult());
  int64_t most = feedForwardChunk(arithmetic);
  int64_t chunks = (inner + most - 1) / most;
  int64_t chunk = kernel::planeStride((inner + chunks - 1) / chunks);
  bool residualFirst = arithmetic == Arithmetic::Bf16 && down.getResidual() &&
                       activationOf(down) == Activation::None;
  Value input = asPlanes(up.getInput(), planes);
  Value sums = residualFirst ? down.getResidual() : Value();
  for (int64_t begin = 0; begin < inner; begin += chunk) {
    int64_t size = std::min(chunk, inner - begin);
    Packing rows{.arithmetic = arithmetic, .row = begin, .rows = size};
    Packing columns{.arithmetic = arithmetic, .column = begin, .columns = size};
    b.setInsertionPoint(down);
    // Made before the second linear, with its place in the function.
    up->moveBefore(down);
    Value part = linear(up, **row, input, rows, 0, planes, {});
    Addends addends{.bias = begin + size == inner};
    if (residualFirst)
      addends.residual = sums;
    else
      addends.accumulate = sums;
    if (addends.bias && !residualFirst)
      addends.residual = down.getResidual();
    sums = linear(down, **row, part, columns, 0, 0, addends);
  }
  down.getResult().replaceAllUsesWith(sums);
  down.erase();
  up.erase();
  return success();
}

LogicalResult KernelBuilder::lower(LinearOp op) {
  if (storesGroups(op))
    return success(); // Its output lowers it.
  if (LinearOp inner = innerLinear(op))
    return lowerFeedForward(inner, op);
  if (op->hasOneUse())
    if (auto outer = dyn_cast<LinearOp>(*op->user_begin());
        outer && innerLinear(outer) == op)
      return success(); // Lowered with its reader.
  Arithmetic arithmetic = arithmetics.lookup(op);
  FailureOr<const KernelRow *> row =
      this->row(op, KernelFamily::Linear, arithmetic);
  if (failed(row))
    return failure();
  int64_t headSize = panelMajorHeadSize(op);
  Value input = op.getInput();
  int64_t outPlanes = 0;
  if (arithmetic != Arithmetic::F32) {
    input = asPlanes(input, activationPlanes(arithmetic));
    outPlanes = op.getResidual() ? 0 : wantedPlanes(op.getResult());
  }
  Packing packing{.arithmetic = arithmetic,
                  .bf16Weights = storesBf16(op),
                  .headSize = headSize};
  op.getResult().replaceAllUsesWith(linear(op, **row, input, packing, headSize,
                                           outPlanes,
                                           {.residual = op.getResidual()}));
  op.erase();
  return success();
}

/// The program of a chain of heads that `op` reads, right behind its input:
/// that is in the caches then, and gives way to the next one.
Value KernelBuilder::heads(Operation *op, HeadsChain chain, int64_t count,
                           int64_t headSize, HeadsOptions options) {
  SmallVector<Attribute> weights;
  Value at;
  Operation *named = chain.input.getDefiningOp();
  if (chain.norm) {
    options.norm = chain.norm.getEpsilon().convertToDouble();
    weights.push_back(chain.norm.getWeightAttr());
    named = chain.norm;
  }
  if (chain.rope) {
    options.rope = true;
    weights.push_back(chain.rope.getTableAttr());
    at = chain.rope.getPositions();
    named = chain.rope;
  }
  int64_t planes = options.output.planes;
  int64_t columns = count * (planes ? kernel::planeStride(headSize) : headSize);
  Operation *before = chain.input.getDefiningOp();
  if (at && before->isBeforeInBlock(at.getDefiningOp()))
    before = at.getDefiningOp();
  while (auto other = dyn_cast<kernel::HeadsOp>(before->getNextNode())) {
    if (other.getInput() != chain.input)
      break;
    before = other;
  }
  b.setInsertionPointAfter(before);
  return kernel::HeadsOp::create(
      b, op->getLoc(), kernel::getRowsType(chain.input, columns, planes),
      symbolOf(getHeads(module, count, headSize, options)), chain.input, at,
      b.getI64IntegerAttr(chain.column), b.getArrayAttr(weights),
      options.panelMajor
          ? b.getI64IntegerAttr(count * kernel::panelsFor(headSize))
          : IntegerAttr(),
      nameOf(named), layerOf(op));
}

/// An operand of f32 attention: where it lies if it is panel-major, else a copy
/// of it.
KernelBuilder::Planes KernelBuilder::planes(AttentionOp op, Value operand,
                                            int64_t count) {
  int64_t headSize = op.getHeadSize();
  HeadsChain chain = chainOf(operand);
  auto linear = chain.input.getDefiningOp<kernel::LinearOp>();
  if (chain.norm || chain.rope || !linear || !linear.getPanelMajor()) {
    HeadsOptions options;
    options.panelMajor = true;
    return {heads(op, chain, count, headSize, options), 0};
  }
  return {chain.input, chain.column / headSize * kernel::panelsFor(headSize)};
}

LogicalResult KernelBuilder::lower(AttentionOp op) {
  int64_t headSize = op.getHeadSize(), keyHeads = op.getHeadsOfKeys();
  if (headSize > 256)
    return op.emitOpError()
           << "has heads of size " << headSize << ", at most 256 work";
  if (arithmetics.lookup(op) != Arithmetic::F32)
    return lowerTileAttention(op);
  FailureOr<const KernelRow *> kernelRow =
      row(op, KernelFamily::Attention, Arithmetic::F32);
  if (failed(kernelRow))
    return failure();
  const KernelRow &row = **kernelRow;
  Planes query = planes(op, op.getQuery(), op.getHeads());
  Planes key = planes(op, op.getKey(), keyHeads);
  Planes value = planes(op, op.getValue(), keyHeads);
  AttentionShape shape;
  shape.headSize = headSize;
  shape.queryHeads = op.getHeads() / keyHeads;
  shape.window = op.getWindow().value_or(-1);
  shape.ldo = kernel::rowStride(getColumns(op.getResult()));
  shape.scale = static_cast<float>(op.getScale().convertToDouble());
  b.setInsertionPoint(op);
  auto attention = kernel::AttentionOp::create(
      b, op.getLoc(), op.getType(), define(row, shape), query.value, key.value,
      value.value,
      b.getDenseI64ArrayAttr({query.first, key.first, value.first}),
      b.getI64IntegerAttr(op.getHeads()), b.getI64IntegerAttr(keyHeads),
      b.getI64IntegerAttr(kernel::panelsFor(headSize)),
      b.getI64IntegerAttr(row.rowTile),
      b.getI64IntegerAttr(kAttentionQueryGroup),
      b.getI64IntegerAttr(attentionWorkspaceBytes(row, shape)), nameOf(op),
      layerOf(op));
  op.getResult().replaceAllUsesWith(attention);
  op.erase();
  return success();
}

/// Queries, keys and values become planes, keys and values are packed once for
/// all queries of their sequence.
LogicalResult KernelBuilder::lowerTileAttention(AttentionOp op) {
  Arithmetic arithmetic = arithmetics.lookup(op);
  FailureOr<const KernelRow *> packRow =
      row(op, KernelFamily::AttentionPack, arithmetic);
  FailureOr<const KernelRow *> attentionRow =
      row(op, KernelFamily::TileAttention, arithmetic);
  if (failed(packRow) || failed(attentionRow))
    return failure();
  int64_t headSize = op.getHeadSize(), keyHeads = op.getHeadsOfKeys();
  int64_t planes = activationPlanes(arithmetic);
  AttentionShape shape;
  shape.arithmetic = arithmetic;
  shape.headSize = headSize;
  shape.queryHeads = op.getHeads() / keyHeads;
  shape.window = op.getWindow().value_or(-1);
  shape.scale = static_cast<float>(op.getScale().convertToDouble());
  HeadsOptions options;
  options.output.planes = static_cast<int>(planes);
  Value key = heads(op, chainOf(op.getKey()), keyHeads, headSize, options);
  Value value = heads(op, chainOf(op.getValue()), keyHeads, headSize, options);
  options.factor = tileQueryFactor(shape);
  Value query =
      heads(op, chainOf(op.getQuery()), op.getHeads(), headSize, options);

  int64_t keyColumns = kernel::getColumns(key);
  AttentionShape packing = shape;
  packing.ldkv = kernel::planeRowStride(keyColumns, planes);
  packing.kvPlaneStride = kernel::planeStride(keyColumns);
  b.setInsertionPoint(op);
  auto packed = kernel::AttentionPackOp::create(
      b, op.getLoc(), key.getType(), value.getType(),
      define(**packRow, packing), key, value, b.getI64IntegerAttr(keyHeads),
      b.getI64IntegerAttr(packedRowBytes(shape)), nameOf(op), layerOf(op));

  int64_t columns = getColumns(op.getResult());
  int64_t queryColumns = kernel::getColumns(query);
  // Calls write the columns of their heads only: none fills up a plane.
  int64_t outPlanes = columns % 32 ? 0 : wantedPlanes(op.getResult());
  shape.ldq = kernel::planeRowStride(queryColumns, planes);
  shape.qPlaneStride = kernel::planeStride(queryColumns);
  shape.ldo = kernel::rowStride(columns, outPlanes);
  shape.outPlanes = static_cast<int>(outPlanes);
  shape.outPlaneStride = outPlanes ? kernel::planeStride(columns) : 0;
  auto attention = kernel::TileAttentionOp::create(
      b, op.getLoc(), kernel::getRowsType(op.getResult(), columns, outPlanes),
      define(**attentionRow, shape), query, packed.getPackedKey(),
      packed.getPackedValue(), b.getI64IntegerAttr(op.getHeads()),
      b.getI64IntegerAttr(keyHeads), b.getI64IntegerAttr(packedRowBytes(shape)),
      b.getI64IntegerAttr((*attentionRow)->rowTile),
      b.getI64IntegerAttr(kTileQueries),
      b.getI64IntegerAttr(attentionWorkspaceBytes(**attentionRow, shape)),
      nameOf(op), layerOf(op));
  op.getResult().replaceAllUsesWith(attention.getResult());
  op.erase();
  return success();
}

//===----------------------------------------------------------------------===//
// Products and convolution
//===----------------------------------------------------------------------===//

/// The convolution, and what multiplies it (may be null).
void KernelBuilder::lowerConv(ShortConvOp op, MultiplyOp multiply) {
  Operation *last = multiply ? multiply.getOperation() : op.getOperation();
  Value result = last->getResult(0), scale;
  if (multiply)
    scale = multiply.getLhs() == op.getResult() ? multiply.getRhs()
                                                : multiply.getLhs();
  int64_t channels = getColumns(result), planes = wantedPlanes(result);
  auto source = symbols.lookup<WeightOp>(op.getWeight());
  FlatSymbolRefAttr &taps =
      packedWeights[(op.getWeight() + ".transposed").str()];
  if (!taps)
    taps = derivedWeight({source}, op.getWeight() + ".transposed",
                         [&](OpBuilder &at, ArrayRef<Value> parts) -> Value {
                           auto type = RankedTensorType::get({3, channels},
                                                             at.getF32Type());
                           return kernel::TransposeOp::create(
                               at, source.getLoc(), type, parts.front());
                         });
  SmallVector<Attribute> weights = {taps};
  if (op.getBiasAttr())
    weights.push_back(op.getBiasAttr());
  ShortConvOptions options;
  options.bf16Input = kernel::getPlanes(op.getInput()) != 0;
  options.hasBias = op.getBiasAttr() != nullptr;
  options.hasScale = scale != nullptr;
  options.output.planes = static_cast<int>(planes);
  Value at = positionsOf(getRows(result));
  b.setInsertionPoint(last);
  auto conv = kernel::ShortConvOp::create(
      b, op.getLoc(), kernel::getRowsType(result, channels, planes),
      symbolOf(getShortConv(module, channels, options)), op.getInput(), at,
      b.getArrayAttr(weights), scale, nameOf(op), layerOf(op));
  result.replaceAllUsesWith(conv);
  last->erase();
  if (multiply)
    op.erase();
}

/// The convolution that only `op` reads, if it is one of its factors.
static ShortConvOp factorOf(MultiplyOp op) {
  for (Value factor : op.getOperands())
    if (auto conv = factor.getDefiningOp<ShortConvOp>();
        conv && conv->hasOneUse())
      return conv;
  return {};
}

LogicalResult KernelBuilder::lower(MultiplyOp op) {
  if (ShortConvOp conv = factorOf(op)) {
    lowerConv(conv, op);
    return success();
  }
  int64_t planes = wantedPlanes(op.getResult());
  replaceByRows(op,
                getMultiply(module, getColumns(op.getResult()),
                            {static_cast<int>(planes)}),
                op.getOperands(), {}, {}, planes);
  return success();
}

//===----------------------------------------------------------------------===//
// Outputs
//===----------------------------------------------------------------------===//

/// A linear that its output stores group by group.
LogicalResult KernelBuilder::lowerToGroups(LinearOp op, OutputOp output) {
  Arithmetic arithmetic = arithmetics.lookup(op);
  FailureOr<const KernelRow *> kernelRow =
      this->row(op, KernelFamily::Linear, arithmetic);
  if (failed(kernelRow))
    return failure();
  const KernelRow &row = **kernelRow;
  int64_t planes = activationPlanes(arithmetic);
  int64_t group = planes ? kTileGroupPanels : row.panelTile;
  Value input = planes ? asPlanes(op.getInput(), planes) : op.getInput();
  LinearShape shape;
  shape.arithmetic = arithmetic;
  shape.k = kernel::getColumns(input);
  shape.lda = kernel::rowStride(shape.k, planes);
  shape.ldc = group * kernel::kPanelColumns;
  shape.bias = op.getBiasAttr() != nullptr;
  shape.activation = activationOf(op);
  FlatSymbolRefAttr weight = op.getWeightAttr(), transpose;
  Packing packing{.arithmetic = arithmetic};
  if (isEmbedded(weight)) {
    Type type = weightType(weight).getElementType();
    transpose =
        symbolOf(planes ? getTransposePair(module, shape.k, type,
                                           {packedWeightPlanes(arithmetic)})
                        : getTransposePanel(module, shape.k, type));
  } else {
    packing.bf16Weights = shape.bf16Weights = storesBf16(op);
    weight = packed(weight, FlatSymbolRefAttr(), packing);
  }
  int64_t workspace = linearWorkspaceBytes(row, shape);
  b.setInsertionPoint(output);
  kernel::LinearStoreOp::create(
      b, output.getLoc(), define(row, shape), input, weight,
      shape.bias ? packed(op.getBiasAttr(), FlatSymbolRefAttr(), packing)
                 : FlatSymbolRefAttr(),
      transpose, symbolOf(getCopyPrefix(module, shape.ldc)),
      b.getStringAttr(output.getName()),
      b.getI64IntegerAttr(getColumns(op.getResult())),
      b.getI64IntegerAttr(group), b.getI64IntegerAttr(row.rowTile),
      workspace ? b.getI64IntegerAttr(workspace) : IntegerAttr(), nameOf(op),
      layerOf(op));
  output.erase();
  op.erase();
  return success();
}

LogicalResult KernelBuilder::lower(OutputOp op) {
  Value value = op.getValue();
  int64_t columns = getColumns(value);
  b.setInsertionPoint(op);
  kernel::OutputOp::create(b, op.getLoc(), op.getName(), columns,
                           getRows(value) == Rows::Picked, op.getAllRows());
  if (auto linear = value.getDefiningOp<LinearOp>())
    return lowerToGroups(linear, op); // Left by lower(LinearOp).
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
  if (auto multiply = dyn_cast<MultiplyOp>(op))
    return lower(multiply);
  if (auto conv = dyn_cast<ShortConvOp>(op)) {
    auto multiply = op->hasOneUse() ? dyn_cast<MultiplyOp>(*op->user_begin())
                                    : MultiplyOp();
    if (!multiply || factorOf(multiply) != conv)
      lowerConv(conv, MultiplyOp());
    return success();
  }
  if (auto norm = dyn_cast<LayerNormOp>(op)) {
    SmallVector<Attribute> weights = {norm.getWeightAttr()};
    if (norm.getBiasAttr())
      weights.push_back(norm.getBiasAttr());
    int64_t planes = wantedPlanes(norm.getResult());
    replaceByRows(op,
                  getLayerNorm(module, getColumns(norm.getInput()),
                               norm.getEpsilon().convertToDouble(),
                               norm.getBiasAttr() != nullptr,
                               {static_cast<int>(planes)}),
                  norm.getInput(), weights, {}, planes);
    return success();
  }
  if (auto norm = dyn_cast<RmsNormOp>(op)) {
    if (feedsAttention(op))
      return success(); // A part of what attention's operands are.
    int64_t columns = getColumns(norm.getInput());
    if (norm.getHeads()) {
      op->replaceAllUsesWith(ValueRange(
          heads(op, {norm.getInput(), 0, norm, RopeOp()}, *norm.getHeads(),
                columns / static_cast<int64_t>(*norm.getHeads()), {})));
      op->erase();
      return success();
    }
    int64_t planes = wantedPlanes(norm.getResult());
    replaceByRows(op,
                  getRmsNorm(module, columns,
                             norm.getEpsilon().convertToDouble(),
                             {static_cast<int>(planes)}),
                  norm.getInput(), norm.getWeightAttr(), {}, planes);
    return success();
  }
  if (auto rope = dyn_cast<RopeOp>(op)) {
    if (feedsAttention(op))
      return success();
    int64_t columns = getColumns(rope.getInput());
    op->replaceAllUsesWith(ValueRange(
        heads(op, {rope.getInput(), 0, RmsNormOp(), rope}, rope.getHeads(),
              columns / static_cast<int64_t>(rope.getHeads()), {})));
    op->erase();
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
    if (llvm::all_of(op->getUsers(), [&](Operation *user) {
          return isa<AttentionOp, OutputOp>(user) || feedsAttention(user);
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
  if (auto select = dyn_cast<SelectRowsOp>(op)) {
    if (isIndexType(select.getType()))
      return success();
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

LogicalResult KernelBuilder::run() {
  Block &body = func.getBody().front();
  for (auto linear : body.getOps<LinearOp>())
    arithmetics[linear] = chooseArithmetic(linear);
  for (auto attention : body.getOps<AttentionOp>())
    arithmetics[attention] = chooseArithmetic(attention);
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
    if (failed(KernelBuilder(module, *encode, cpu).run()))
      signalPassFailure();
  }
};

} // namespace
