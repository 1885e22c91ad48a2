//===- KernelToPlan.cpp - group kernels into steps ------------------------===//
///
/// \file
/// Two walks over the function: the first decides the step of each operation
/// and the slot of each value, the second writes slots, steps and calls.
///
///   op      embed  linear  pack  | attention | linear  rows  linear  rows ...
///   step    0      0       0     | 1         | 2       2     2       2
///   value   block  arena   arena   arena       block   block block   arena
//===----------------------------------------------------------------------===//

#include "codegen/Kernels/KernelArgs.h"
#include "codegen/Kernels/Kernels.h"
#include "codegen/RowPrograms/RowPrograms.h"
#include "compiler/Conversion/Passes.h"
#include "compiler/Transforms/Demand.h"
#include "dialects/Kernel/Layout.h"
#include "encast_abi.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/TypeSwitch.h"

namespace encast {
#define GEN_PASS_DEF_KERNELTOPLANPASS
#include "compiler/Conversion/Passes.h.inc"
} // namespace encast

using namespace mlir;
using namespace encast;
using namespace encast::plan;

namespace {

constexpr int64_t kFloatBytes = sizeof(float);
constexpr int64_t kPanelBytes = kernel::kPanelColumns * kFloatBytes;
/// Of tiles with fewer rows, the first and the last take more than an eighth.
constexpr int64_t kFewestRowsBetweenEdges = 16;

/// Consecutive operations that run on one block of rows.
struct Step {
  Domain domain;
  SmallVector<Operation *> ops;
};

using Operations = llvm::SmallPtrSet<Operation *, 16>;

/// What multiplies a convolution comes from the norm that its input comes from.
/// A copy of that norm in the convolution's step makes it there, from a value
/// that the arena holds for a later reader anyway, and it needs no place in the
/// arena. Returns the operations that are to wait for that step.
Operations delayScales(func::FuncOp func) {
  Operations delayed;
  for (auto conv : func.getOps<kernel::ShortConvOp>()) {
    if (!conv.getScale())
      continue;
    auto input = conv.getInput().getDefiningOp<kernel::LinearOp>();
    auto scale = conv.getScale().getDefiningOp<kernel::LinearOp>();
    if (!input || !scale || !scale->hasOneUse() || scale.getAccumulate() ||
        scale.getResidual() || scale.getInput() != input.getInput())
      continue;
    auto norm = scale.getInput().getDefiningOp<kernel::RowsProgramOp>();
    auto isKept = [&](Value value) {
      return llvm::any_of(value.getUsers(), [&](Operation *user) {
        return conv->isBeforeInBlock(user);
      });
    };
    if (!norm || !llvm::all_of(norm.getInputs(), isKept))
      continue;
    OpBuilder b(conv);
    auto again = cast<kernel::RowsProgramOp>(b.clone(*norm));
    scale.getInputMutable().assign(again.getResult());
    scale->moveBefore(conv);
    delayed.insert(again);
    delayed.insert(scale);
  }
  return delayed;
}

/// The type of a value with the rows of another one.
RankedTensorType withRowsOf(Value rows, Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return RankedTensorType::get(
      type.getShape(), type.getElementType(),
      cast<RankedTensorType>(rows.getType()).getEncoding());
}

/// Where all outputs are per token and can do with selected rows, the picked
/// rows are those that a run computes the tail for, in their order: all tokens,
/// or the given ones. So outputs are stored by the tail, from its block, and
/// what a head multiplies is made there: the arena holds neither the rows
/// themselves nor those picked.
void storeFromTails(func::FuncOp func) {
  auto needsPicks = [](kernel::OutputOp output) {
    return !output.getPerToken() || output.getAllRows();
  };
  if (llvm::any_of(func.getOps<kernel::OutputOp>(), needsPicks))
    return;
  OpBuilder b(func.getContext());
  auto cloneBehind = [&](Value side, auto op) {
    b.setInsertionPointAfterValue(side);
    return cast<decltype(op)>(b.clone(*op));
  };
  auto store = [&](encoder::EitherOp either, kernel::StoreOp store) {
    for (Value side : {either.getAll(), either.getSelected()}) {
      auto copy = cloneBehind(side, store);
      copy.getValueMutable().assign(side);
      copy.setPick(false);
    }
    store.erase();
  };
  // A row program of picked rows becomes one of each side.
  auto split = [&](encoder::EitherOp either, kernel::RowsProgramOp program) {
    SmallVector<Value, 2> sides;
    for (Value side : {either.getAll(), either.getSelected()}) {
      auto copy = cloneBehind(side, program);
      copy.getInputsMutable().assign(side);
      copy.getResult().setType(withRowsOf(side, program.getResult()));
      sides.push_back(copy.getResult());
    }
    b.setInsertionPointAfter(either);
    auto both = encoder::EitherOp::create(
        b, program.getLoc(), withRowsOf(either, program.getResult()), sides[0],
        sides[1], program.getNameAttr(), program.getLayerAttr());
    program.replaceAllUsesWith(both.getResult());
    program.erase();
  };
  auto isHead = [](Operation *op) { return isa<kernel::LinearStoreOp>(op); };
  for (auto either :
       llvm::make_early_inc_range(func.getOps<encoder::EitherOp>())) {
    for (Operation *user : llvm::to_vector(either.getResult().getUsers())) {
      if (auto output = dyn_cast<kernel::StoreOp>(user);
          output && output.getPick())
        store(either, output);
      auto gather = dyn_cast<kernel::GatherOp>(user);
      if (!gather || gather.getIndex() != kernel::GatherIndex::Pick ||
          !gather->hasOneUse())
        continue;
      Operation *reader = *gather->user_begin();
      auto program = dyn_cast<kernel::RowsProgramOp>(reader);
      if (program && program.getInputs().size() == 1 && !program.getColumns() &&
          llvm::all_of(program->getUsers(), isHead))
        split(either, program);
      else if (isHead(reader))
        gather.replaceAllUsesWith(either.getResult());
      if (gather.use_empty())
        gather.erase();
    }
    if (either.use_empty())
      either.erase();
  }
}

class PlanBuilder {
public:
  PlanBuilder(ModuleOp module, func::FuncOp func)
      : module(module), func(func), symbols(module), b(module.getContext()),
        delayed(prepare(func)),
        demand(func, [this](Operation *op) { return rootDemand(op); }) {}

  LogicalResult run();

private:
  static Operations prepare(func::FuncOp func) {
    storeFromTails(func);
    return delayScales(func);
  }

  ModuleOp module;
  func::FuncOp func;
  SymbolTable symbols;
  OpBuilder b;
  SmallVector<Step> steps;
  DenseMap<Operation *, unsigned> stepOf;
  DenseMap<Value, SlotOp> slots;
  DenseMap<Value, SlotOp> edgeSlots; ///< Of values that keepsEdges.
  llvm::StringMap<SlotOp> outputSlots;
  DenseMap<Attribute, SlotOp> indexSlots;
  Operations delayed; ///< Until the step of their only reader.
  DemandAnalysis demand;
  uint64_t allOutputs = 0;

  Demand rootDemand(Operation *op);
  int64_t outputIndex(StringRef name);
  int64_t outputMask(uint64_t outputs);

  LogicalResult checkEithers();
  LogicalResult makeSteps();
  void makeSlots();
  void makeSlot(Value value);
  void fetchAhead();
  void makeEdgeSlot(Value value);
  bool isLastReaderOfResidual(kernel::LinearOp linear);
  bool endsInArena(Value value);
  bool canReplaceResidual(kernel::LinearOp linear);
  bool canReplaceQuery(kernel::TileAttentionOp attention);
  bool keepsEdges(Value value);
  static int64_t rowTile(const Step &step);
  int64_t edgeTile(Value value);
  FailureOr<Domain> domainOf(Operation *op);
  static Domain rowsDomain(encoder::Rows rows);
  bool isLocal(Value value);

  SlotOp addSlot(const Twine &name, SlotKind kind);
  SlotOp indexSlot(SlotKind kind);
  StringRef name(Value value) { return slots.lookup(value).getSymName(); }

  int64_t rowBytes(Value value);
  static bool isPanelMajor(Value value);
  At at(Value value);
  Attribute attr(const At &at) { return at.attr(b.getContext()); }
  Attribute count(Count count) { return CountAttr::get(b.getContext(), count); }
  Attribute number(int64_t value) { return b.getI64IntegerAttr(value); }
  Attribute weight(FlatSymbolRefAttr symbol) {
    return attr({.symbol = symbol.getValue()});
  }
  At positionAt(Value positions);
  At packedAt(Value value, int64_t rowBytes, int64_t heads);
  SlotOp addWorkspace(Value before, const Twine &name, int64_t bytes);
  Attribute workspace(Operation *op, int64_t bytes);
  int64_t storedPanelBytes(StringRef weight, int64_t panels);
  int64_t packedPanelBytes(FlatSymbolRefAttr kernel, int64_t k);
  Domain attentionDomain(Operation *op, Value query);
  bool hasWindow(Operation *op);
  bool joinsRows(Operation *op);
  bool walksOverHeads(Operation *op);
  bool readsOtherRows(Operation *op, Value value);
  void setAttentionFlops(CallOp call, int64_t columns);
  void setPerHead(CallOp call, int64_t heads);

  void emitStep(const Step &step, unsigned number);
  void emit(kernel::EmbedOp op);
  void emit(kernel::LinearOp op);
  void emit(kernel::LinearStoreOp op);
  void emit(kernel::AttentionOp op);
  void emit(kernel::AttentionPackOp op);
  void emit(kernel::TileAttentionOp op);
  void emit(kernel::HeadsOp op);
  void emit(kernel::ShortConvOp op);
  void emit(kernel::RowsProgramOp op);
  void emit(kernel::GatherOp op);
  void emit(kernel::PoolOp op);
  void emit(kernel::StoreOp op);
  void emitEdges(Value value);
  ForRowsOp forRows(Operation *op, FlatSymbolRefAttr program,
                    ArrayRef<Attribute> args);
  template <typename CallOpType> void setDemand(CallOpType call, Operation *op);
};

//===----------------------------------------------------------------------===//
// Demand
//===----------------------------------------------------------------------===//

int64_t PlanBuilder::outputIndex(StringRef name) {
  int64_t index = 0;
  for (auto output : func.getOps<kernel::OutputOp>()) {
    if (output.getName() == name)
      return index;
    ++index;
  }
  return -1;
}

Demand PlanBuilder::rootDemand(Operation *op) {
  StringRef name;
  if (auto store = dyn_cast<kernel::StoreOp>(op))
    name = store.getOutput();
  else if (auto store = dyn_cast<kernel::LinearStoreOp>(op))
    name = store.getOutput();
  else
    return {};
  int64_t index = outputIndex(name);
  if (index < 0)
    return {};
  uint32_t modes = ENCAST_MODE_ALL | ENCAST_MODE_SELECTED;
  if (auto store = dyn_cast<kernel::StoreOp>(op); store && !store.getPick()) {
    // Of a tail: the other mode has another one.
    encoder::Rows rows = encoder::getRows(store.getValue());
    if (rows == encoder::Rows::Tokens)
      modes = ENCAST_MODE_ALL;
    else if (rows == encoder::Rows::Selected)
      modes = ENCAST_MODE_SELECTED;
  }
  return {modes, uint64_t(1) << index};
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

Domain PlanBuilder::rowsDomain(encoder::Rows rows) {
  switch (rows) {
  case encoder::Rows::Tokens:
    return Domain::Tokens;
  case encoder::Rows::Selected:
  case encoder::Rows::Demanded:
    return Domain::Selected;
  case encoder::Rows::Picked:
    return Domain::Picked;
  case encoder::Rows::Sequences:
    return Domain::Sequences;
  }
  llvm_unreachable("all rows are listed");
}

bool PlanBuilder::hasWindow(Operation *op) {
  auto kernel = symbols.lookup<kernel::DefineOp>(
      op->getAttrOfType<FlatSymbolRefAttr>("kernel").getValue());
  return kernel.getShape().contains("window");
}

/// Windows need to know where queries are, so that selected ones must follow
/// each other.
Domain PlanBuilder::attentionDomain(Operation *op, Value query) {
  if (encoder::getRows(query) == encoder::Rows::Tokens)
    return Domain::AttentionTokens;
  return hasWindow(op) ? Domain::AttentionRuns : Domain::AttentionSelected;
}

FailureOr<Domain> PlanBuilder::domainOf(Operation *op) {
  // How many rows are demanded is known in a run only; gathers choose by it.
  if (op->getNumResults() &&
      encoder::getRows(op->getResult(0)) == encoder::Rows::Demanded)
    return op->emitOpError("computes demanded rows, which only first, pick and "
                           "pool may read");
  if (auto attention = dyn_cast<kernel::AttentionOp>(op))
    return attentionDomain(op, attention.getQuery());
  if (auto attention = dyn_cast<kernel::TileAttentionOp>(op))
    return joinsRows(op) ? Domain::Tokens
                         : attentionDomain(op, attention.getQuery());
  if (auto store = dyn_cast<kernel::StoreOp>(op))
    return store.getPick() ? Domain::Picked
                           : rowsDomain(encoder::getRows(store.getValue()));
  if (auto store = dyn_cast<kernel::LinearStoreOp>(op))
    return rowsDomain(encoder::getRows(store.getInput()));
  if (isa<kernel::EmbedOp, kernel::LinearOp, kernel::RowsProgramOp,
          kernel::HeadsOp, kernel::AttentionPackOp, kernel::ShortConvOp,
          kernel::GatherOp, kernel::PoolOp>(op))
    return rowsDomain(encoder::getRows(op->getResult(0)));
  return op->emitOpError("is not an operation of the kernel stage");
}

/// Whether `op` selects rows of an index, which addresses do.
static bool isIndex(Operation *op) { return isa<encoder::SelectRowsOp>(op); }

/// Whether attention of tokens is part of a step over rows: keys of a window
/// are few, and a block of rows is queries enough.
bool PlanBuilder::joinsRows(Operation *op) {
  auto attention = dyn_cast<kernel::TileAttentionOp>(op);
  return attention && hasWindow(op) &&
         encoder::getRows(attention.getQuery()) == encoder::Rows::Tokens;
}

/// Other attention: a step of its own over heads.
bool PlanBuilder::walksOverHeads(Operation *op) {
  return isa<kernel::AttentionOp, kernel::TileAttentionOp>(op) &&
         !joinsRows(op);
}

/// Whether `op` packs its weights for each block of rows: a step of its own,
/// whose blocks have more rows than those of what comes before.
static bool packsPanels(Operation *op) {
  auto head = dyn_cast<kernel::LinearStoreOp>(op);
  return head && head.getTransposeAttr();
}

/// Whether `op` reads rows of a value other than its own.
bool PlanBuilder::readsOtherRows(Operation *op, Value value) {
  if (auto store = dyn_cast<kernel::StoreOp>(op))
    return store.getPick();
  if (auto conv = dyn_cast<kernel::ShortConvOp>(op))
    return conv.getInput() == value;
  if (auto attention = dyn_cast<kernel::TileAttentionOp>(op);
      attention && attention.getQuery() == value)
    return walksOverHeads(op);
  return isa<kernel::AttentionOp, kernel::TileAttentionOp, kernel::GatherOp,
             kernel::PoolOp>(op);
}

LogicalResult PlanBuilder::makeSteps() {
  bool open = false; // Whether the last step takes more operations.
  for (Operation &op : func.getBody().front()) {
    if (isa<encoder::InputOp, encoder::EitherOp, kernel::OutputOp,
            func::ReturnOp>(op) ||
        isIndex(&op))
      continue;
    FailureOr<Domain> domain = domainOf(&op);
    if (failed(domain))
      return failure();
    Operation *reader = &op;
    while (delayed.contains(reader))
      reader = *reader->user_begin();
    bool alone = walksOverHeads(&op) || packsPanels(&op);
    bool joins = open && !alone && steps.back().domain == *domain &&
                 llvm::none_of(reader->getOperands(), [&](Value operand) {
                   auto step = stepOf.find(operand.getDefiningOp());
                   return readsOtherRows(reader, operand) &&
                          step != stepOf.end() &&
                          step->second == steps.size() - 1;
                 });
    if (!joins)
      steps.push_back({*domain, {}});
    open = !alone;
    steps.back().ops.push_back(&op);
    stepOf[&op] = steps.size() - 1;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

bool PlanBuilder::isPanelMajor(Value value) {
  if (auto linear = value.getDefiningOp<kernel::LinearOp>())
    return linear.getPanelMajor();
  auto heads = value.getDefiningOp<kernel::HeadsOp>();
  return heads && heads.getPanels();
}

int64_t PlanBuilder::rowBytes(Value value) {
  if (auto pack = value.getDefiningOp<kernel::AttentionPackOp>())
    return 2 * pack.getRowBytes() * pack.getKeyHeads();
  if (!isPanelMajor(value))
    return kernel::getRowBytes(value);
  if (auto linear = value.getDefiningOp<kernel::LinearOp>())
    return linear.getPanels() * kPanelBytes;
  return *value.getDefiningOp<kernel::HeadsOp>().getPanels() * kPanelBytes;
}

/// Whether only operations of the value's own step read it, row by row.
bool PlanBuilder::isLocal(Value value) {
  if (isPanelMajor(value))
    return false;
  unsigned step = stepOf.lookup(value.getDefiningOp());
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    return !isa<encoder::EitherOp>(user) && stepOf.lookup(user) == step &&
           !readsOtherRows(user, value);
  });
}

/// The value whose memory a sum goes on in until it is complete.
static Value completeSum(Value value) {
  while (value.hasOneUse()) {
    auto linear = dyn_cast<kernel::LinearOp>(*value.user_begin());
    if (!linear || linear.getAccumulate() != value)
      break;
    value = linear.getResult();
  }
  return value;
}

SlotOp PlanBuilder::addSlot(const Twine &name, SlotKind kind) {
  auto slot = SlotOp::create(b, module.getLoc(), name.str(), kind,
                             /*rows=*/DomainAttr(), /*row_bytes=*/IntegerAttr(),
                             /*offset=*/IntegerAttr(), /*index=*/IntegerAttr());
  symbols.insert(slot, b.getInsertionPoint());
  return slot;
}

SlotOp PlanBuilder::indexSlot(SlotKind kind) {
  SlotOp &slot = indexSlots[SlotKindAttr::get(b.getContext(), kind)];
  if (!slot)
    slot = addSlot("index." + stringifySlotKind(kind), kind);
  return slot;
}

/// "rows." and the operation's name in the model, with what tells values of one
/// name apart.
static std::string slotName(Operation *op) {
  auto name = op->getAttrOfType<StringAttr>("name");
  std::string slot =
      ("rows." + (name ? name.getValue() : op->getName().stripDialect())).str();
  if (auto gather = dyn_cast<kernel::GatherOp>(op))
    slot += "." + stringifyGatherIndex(gather.getIndex()).str();
  else if (encoder::getRows(op->getResult(0)) == encoder::Rows::Selected)
    slot += ".selected";
  return slot;
}

/// -1 if all outputs are meant.
int64_t PlanBuilder::outputMask(uint64_t outputs) {
  return outputs == allOutputs ? -1 : static_cast<int64_t>(outputs);
}

void PlanBuilder::makeSlots() {
  for (auto [index, output] :
       llvm::enumerate(func.getOps<kernel::OutputOp>())) {
    SlotOp slot = addSlot("output." + output.getName(), SlotKind::Output);
    slot.setIndex(index);
    outputSlots[output.getName()] = slot;
    allOutputs |= uint64_t(1) << index;
  }
  for (Operation &op : func.getBody().front()) {
    if (auto input = dyn_cast<encoder::InputOp>(op)) {
      SlotKind kind = SlotKind::Ids;
      if (input.getIndex() == encoder::IndexInput::TokenTypes)
        kind = SlotKind::Types;
      else if (input.getIndex() == encoder::IndexInput::Positions)
        kind = SlotKind::Positions;
      slots[input.getResult()] = indexSlot(kind);
      continue;
    }
    if (isa<encoder::EitherOp>(op) || isIndex(&op))
      continue;
    for (Value value : op.getResults()) {
      makeSlot(value);
      if (keepsEdges(value))
        makeEdgeSlot(value);
    }
  }
}

/// Whether a linear may write over its residual, element by element: it alone
/// reads it then, only as its residual.
bool PlanBuilder::isLastReaderOfResidual(kernel::LinearOp linear) {
  if (!linear || !linear.getResidual() || linear.getAccumulate())
    return false;
  auto define = symbols.lookup<kernel::DefineOp>(linear.getKernel());
  const KernelRow *row = findKernelRow(define.getRow());
  LinearShape shape;
  shape.k = define.getNumber("k");
  shape.gated = define.getShape().contains("gated");
  if (!row || !mayReplaceResidual(*row, shape))
    return false;
  Value value = linear.getResult(), residual = linear.getResidual();
  auto isEither = [](Operation *user) { return isa<encoder::EitherOp>(user); };
  // Other blocks of the same step may not have read their neighbours yet.
  auto isDone = [&](Operation *user) {
    return user->isBeforeInBlock(linear) &&
           (stepOf.lookup(user) != stepOf.lookup(linear) ||
            !readsOtherRows(user, residual));
  };
  bool isLast = llvm::all_of(residual.getUsers(), [&](Operation *user) {
    return user == linear || isDone(user);
  });
  return isLast && linear.getInput() != residual &&
         completeSum(value) == value &&
         llvm::none_of(value.getUsers(), isEither) &&
         llvm::none_of(residual.getUsers(), isEither) &&
         demand.of(residual.getDefiningOp()) == demand.of(linear);
}

/// Whether the arena holds a value, or the last of the sums that are written
/// over it.
bool PlanBuilder::endsInArena(Value value) {
  if (!isLocal(value))
    return true;
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    auto linear = dyn_cast<kernel::LinearOp>(user);
    return linear && linear.getResidual() == value &&
           isLastReaderOfResidual(linear) && endsInArena(linear.getResult());
  });
}

/// Whether a linear writes over its residual: where that costs no memory. A sum
/// of a block in the arena pays if a later one stays there.
bool PlanBuilder::canReplaceResidual(kernel::LinearOp linear) {
  if (!isLastReaderOfResidual(linear))
    return false;
  SlotOp residual = slots.lookup(linear.getResidual());
  return residual.getKind() == SlotKind::Arena ? endsInArena(linear.getResult())
                                               : isLocal(linear.getResult());
}

/// Whether attention may write over its queries: it alone reads them, and rows
/// of both look alike, so that a call writes what it alone has read, in the
/// same kind of memory.
bool PlanBuilder::canReplaceQuery(kernel::TileAttentionOp attention) {
  Value value = attention.getResult(), query = attention.getQuery();
  return query.hasOneUse() &&
         kernel::getColumns(value) == kernel::getColumns(query) &&
         kernel::getPlanes(value) == kernel::getPlanes(query) &&
         isLocal(value) == isLocal(query) &&
         llvm::none_of(
             value.getUsers(),
             [](Operation *user) { return isa<encoder::EitherOp>(user); }) &&
         demand.of(query.getDefiningOp()) == demand.of(attention);
}

/// Rows at multiples of which the blocks of a step are cut.
int64_t PlanBuilder::rowTile(const Step &step) {
  int64_t tile = 1;
  for (Operation *op : step.ops)
    if (auto attr = op->getAttrOfType<IntegerAttr>("row_tile"))
      tile = std::max(tile, attr.getInt());
  return tile;
}

/// Rows between the edges of a value: the tile of the step of its convolution.
int64_t PlanBuilder::edgeTile(Value value) {
  return rowTile(steps[stepOf.lookup(*value.user_begin())]);
}

/// Whether the first and last rows of tiles are kept beside a value that a
/// convolution reads last: then a block reads nothing of it but its own rows,
/// and later values of its step may be written over these.
bool PlanBuilder::keepsEdges(Value value) {
  if (!value.hasOneUse())
    return false;
  auto conv = dyn_cast<kernel::ShortConvOp>(*value.user_begin());
  if (!conv || conv.getInput() != value ||
      encoder::getRows(conv.getResult()) != encoder::Rows::Tokens)
    return false;
  auto mayReplace = [&](Operation *op) {
    return conv->isBeforeInBlock(op) &&
           llvm::any_of(op->getResults(), [&](Value other) {
             return !isa<kernel::AttentionPackOp>(op) && !isLocal(other) &&
                    !isPanelMajor(other) && rowBytes(other) == rowBytes(value);
           });
  };
  return edgeTile(value) >= kFewestRowsBetweenEdges &&
         edgeTile(value) <= ENCAST_PACKED_ROWS(1, 1) &&
         llvm::any_of(steps[stepOf.lookup(conv)].ops, mayReplace);
}

void PlanBuilder::makeEdgeSlot(Value value) {
  SlotOp slot = addSlot(name(value) + ".edges", SlotKind::Arena);
  slot.setRowBytes(llvm::divideCeil(2 * rowBytes(value), edgeTile(value)));
  slot.setRows(Domain::Packed); // Enough for a last tile that is not full.
  slot.setOutputs(slots.lookup(value).getOutputs());
  edgeSlots[value] = slot;
}

/// The slot of a value, which may be another one's.
void PlanBuilder::makeSlot(Value value) {
  Operation *op = value.getDefiningOp();
  auto linear = dyn_cast<kernel::LinearOp>(op);
  if (linear && linear.getAccumulate()) {
    slots[value] = slots.lookup(linear.getAccumulate());
    return;
  }
  Value whole = completeSum(value);
  // Both sides of an either share the slot; only one is computed in a run.
  for (Operation *user : whole.getUsers()) {
    auto either = dyn_cast<encoder::EitherOp>(user);
    if (either && slots.count(either.getResult()))
      slots[value] = slots.lookup(either.getResult());
  }
  if (SlotOp shared = slots.lookup(value)) {
    uint64_t before = static_cast<uint64_t>(shared.getOutputs());
    shared.setOutputs(outputMask(before | demand.of(op).outputs));
    shared.setRows(Domain::Selected); // At least as many rows as tokens.
    return;
  }
  if (canReplaceResidual(linear)) {
    slots[value] = slots.lookup(linear.getResidual());
    return;
  }
  if (auto attention = dyn_cast<kernel::TileAttentionOp>(op);
      attention && canReplaceQuery(attention)) {
    slots[value] = slots.lookup(attention.getQuery());
    return;
  }
  bool packs = isa<kernel::AttentionPackOp>(op);
  if (packs && value != op->getResult(0)) {
    slots[value] = slots.lookup(op->getResult(0)); // Values lie behind keys.
    return;
  }
  bool local = !packs && isLocal(whole);
  std::string name = slotName(op);
  if (packs)
    name += ".packed";
  SlotOp slot = addSlot(name, local ? SlotKind::Block : SlotKind::Arena);
  slot.setRowBytes(rowBytes(value));
  if (!local) {
    slot.setRows(packs ? Domain::Packed : rowsDomain(encoder::getRows(value)));
    slot.setOutputs(outputMask(demand.of(op).outputs));
  }
  slots[value] = slot;
  for (Operation *user : whole.getUsers())
    if (auto either = dyn_cast<encoder::EitherOp>(user))
      slots[either.getResult()] = slot;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// The address of the item's row of a value, and panel where it has panels.
At PlanBuilder::at(Value value) {
  At at{.symbol = name(value)};
  if (isPanelMajor(value)) {
    at.rowBytes = kPanelBytes;
    at.planes = true;
    at.planeRows = rowsDomain(encoder::getRows(value));
  } else {
    at.rowBytes = rowBytes(value);
  }
  return at;
}

template <typename CallOpType>
void PlanBuilder::setDemand(CallOpType call, Operation *op) {
  if (auto name = op->getAttrOfType<StringAttr>("name"))
    call.setNameAttr(name);
  else if (auto store = dyn_cast<kernel::StoreOp>(op))
    call.setNameAttr(store.getOutputAttr());
  Demand demand = this->demand.of(op);
  call.setModes(demand.modes);
  call.setOutputs(outputMask(demand.outputs));
}

ForRowsOp PlanBuilder::forRows(Operation *op, FlatSymbolRefAttr program,
                               ArrayRef<Attribute> args) {
  auto call = ForRowsOp::create(b, op->getLoc(), program, b.getArrayAttr(args),
                                FlatSymbolRefAttr(), StringAttr());
  setDemand(call, op);
  return call;
}

/// Copies the rows that the next step's blocks read of their neighbours.
void PlanBuilder::emitEdges(Value value) {
  SlotOp slot = edgeSlots.lookup(value);
  if (!slot)
    return;
  func::FuncOp copy = getCopy(module, rowBytes(value) / kFloatBytes);
  At from = at(value);
  At to{.symbol = slot.getSymName(),
        .rowBytes = from.rowBytes,
        .edgeTile = edgeTile(value)};
  forRows(value.getDefiningOp(), FlatSymbolRefAttr::get(copy),
          {attr(from), attr(to)})
      .setEdgesOf(edgeTile(value));
}

void PlanBuilder::emit(kernel::EmbedOp op) {
  SmallVector<Attribute> args;
  for (auto [index, table] : llvm::zip_equal(
           op.getIndices(), op.getTables().getAsRange<FlatSymbolRefAttr>())) {
    auto type = symbols.lookup<encoder::WeightOp>(table.getValue()).getType();
    args.push_back(attr(
        {.symbol = table.getValue(),
         .by = name(index),
         .rowBytes = type.getDimSize(1) * type.getElementTypeBitWidth() / 8}));
  }
  args.push_back(attr(at(op.getResult())));
  forRows(op, op.getProgramAttr(), args);
}

void PlanBuilder::emit(kernel::RowsProgramOp op) {
  SmallVector<Attribute> args;
  for (auto [i, input] : llvm::enumerate(op.getInputs())) {
    At from = at(input);
    if (std::optional<ArrayRef<int64_t>> columns = op.getColumns())
      from.offset = (*columns)[i] * kFloatBytes;
    args.push_back(attr(from));
  }
  if (op.getWeights())
    for (auto symbol : op.getWeights()->getAsRange<FlatSymbolRefAttr>())
      args.push_back(weight(symbol));
  args.push_back(attr(at(op.getResult())));
  forRows(op, op.getProgramAttr(), args);
}

void PlanBuilder::emit(kernel::GatherOp op) {
  SlotKind kind = SlotKind::Selected;
  if (op.getIndex() == kernel::GatherIndex::First)
    kind = SlotKind::First;
  else if (op.getIndex() == kernel::GatherIndex::Pick)
    kind = SlotKind::Pick;
  At from = at(op.getInput());
  from.by =
      indexSlots.lookup(SlotKindAttr::get(b.getContext(), kind)).getSymName();
  forRows(op, op.getProgramAttr(), {attr(from), attr(at(op.getResult()))});
}

void PlanBuilder::emit(kernel::PoolOp op) {
  At from = at(op.getInput());
  from.sequence = true;
  forRows(op, op.getProgramAttr(),
          {attr(from), count(Count::SequenceTokens), attr(at(op.getResult()))});
}

void PlanBuilder::emit(kernel::StoreOp op) {
  At from = at(op.getValue());
  from.offset = op.getColumn() * kFloatBytes;
  if (op.getPick())
    from.by =
        indexSlots.lookup(SlotKindAttr::get(b.getContext(), SlotKind::Pick))
            .getSymName();
  At to{.symbol = outputSlots.lookup(op.getOutput()).getSymName(),
        .rowBytes = op.getColumns() * kFloatBytes};
  forRows(op, op.getProgramAttr(), {attr(from), attr(to)});
}

/// The int32 position of each row.
At PlanBuilder::positionAt(Value positions) {
  At at{.symbol = {}, .rowBytes = sizeof(int32_t)};
  if (auto select = positions.getDefiningOp<encoder::SelectRowsOp>()) {
    at.by = indexSlot(SlotKind::Selected).getSymName();
    positions = select.getInput();
  }
  at.symbol = name(positions);
  return at;
}

void PlanBuilder::emit(kernel::HeadsOp op) {
  At from = at(op.getInput());
  from.offset = op.getColumn() * kFloatBytes;
  SmallVector<Attribute> args = {attr(from)};
  auto weights =
      llvm::to_vector(op.getWeights().getAsRange<FlatSymbolRefAttr>());
  // The table of positions comes last, behind the position.
  for (auto [number, symbol] : llvm::enumerate(weights)) {
    if (op.getPositions() && number + 1 == weights.size())
      args.push_back(attr(positionAt(op.getPositions())));
    args.push_back(weight(symbol));
  }
  args.push_back(attr(at(op.getResult())));
  if (op.getPanels())
    args.push_back(
        count(encoder::getRows(op.getResult()) == encoder::Rows::Tokens
                  ? Count::TokenPlaneBytes
                  : Count::SelectedPlaneBytes));
  forRows(op, op.getProgramAttr(), args);
}

void PlanBuilder::emit(kernel::ShortConvOp op) {
  SmallVector<Attribute> args;
  int64_t bytes = rowBytes(op.getInput());
  for (int64_t neighbour : {-1, 0, 1}) {
    At from = at(op.getInput());
    from.offset = neighbour * bytes;
    if (SlotOp edges = edgeSlots.lookup(op.getInput()); edges && neighbour) {
      from.edges = edges.getSymName();
      from.edgeTile = edgeTile(op.getInput());
    }
    if (encoder::getRows(op.getResult()) == encoder::Rows::Selected)
      from.by = indexSlot(SlotKind::Selected).getSymName();
    args.push_back(attr(from));
  }
  args.push_back(attr(positionAt(op.getPositions())));
  for (auto symbol : op.getWeights().getAsRange<FlatSymbolRefAttr>())
    args.push_back(weight(symbol));
  if (op.getScale())
    args.push_back(attr(at(op.getScale())));
  args.push_back(attr(at(op.getResult())));
  forRows(op, op.getProgramAttr(), args);
}

/// A slot of the thread's own for one call, declared before that of a value.
SlotOp PlanBuilder::addWorkspace(Value before, const Twine &name,
                                 int64_t bytes) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(slots.lookup(before));
  SlotOp slot = addSlot(name, SlotKind::Workspace);
  slot.setRowBytes(bytes);
  return slot;
}

Attribute PlanBuilder::workspace(Operation *op, int64_t bytes) {
  Value result = op->getResult(0);
  SlotOp slot = addWorkspace(result, "workspace." + name(result), bytes);
  return attr({.symbol = slot.getSymName()});
}

/// Bytes of one of all `panels` of a packed weight, whose type knows them.
int64_t PlanBuilder::storedPanelBytes(StringRef weight, int64_t panels) {
  auto type = symbols.lookup<encoder::WeightOp>(weight).getType();
  return type.getNumElements() * type.getElementTypeBitWidth() / 8 / panels;
}

/// Bytes of a packed panel that a kernel multiplies by values of k columns.
int64_t PlanBuilder::packedPanelBytes(FlatSymbolRefAttr kernel, int64_t k) {
  auto define = symbols.lookup<kernel::DefineOp>(kernel.getValue());
  const KernelRow *row = findKernelRow(define.getRow());
  if (!row || row->arithmetic == Arithmetic::F32)
    return k * kPanelBytes;
  constexpr int64_t bf16Bytes = 2;
  int64_t planes = packedWeightPlanes(row->arithmetic);
  return kernel::planeStride(k) * kernel::kPanelColumns *
         (planes ? planes * bf16Bytes : kFloatBytes);
}

void PlanBuilder::emit(kernel::LinearOp op) {
  int64_t k = kernel::getColumns(op.getInput());
  auto kernel = symbols.lookup<kernel::DefineOp>(op.getKernel());
  int64_t gates = kernel.getShape().contains("gated") ? 2 : 1;
  At to = at(op.getResult());
  Attribute panelBytes;
  if (op.getPanelMajor()) {
    to.planesPerPanel = 1;
    panelBytes = count(encoder::getRows(op.getResult()) == encoder::Rows::Tokens
                           ? Count::TokenPlaneBytes
                           : Count::SelectedPlaneBytes);
  } else {
    constexpr int64_t bf16Bytes = 2;
    to.panelBytes =
        kernel::kPanelColumns / gates *
        (kernel::getPlanes(op.getResult()) ? bf16Bytes : kFloatBytes);
    panelBytes = number(to.panelBytes);
  }
  Attribute bias = number(0), residual = number(0), space = number(0);
  if (op.getBiasAttr())
    bias = attr({.symbol = *op.getBias(), .panelBytes = kPanelBytes});
  if (op.getResidual()) {
    At from = at(op.getResidual());
    from.panelBytes = kPanelBytes / gates;
    residual = attr(from);
  }
  if (op.getWorkspaceBytes())
    space = workspace(op, *op.getWorkspaceBytes());
  auto call = CallOp::create(
      b, op.getLoc(), op.getKernelAttr(),
      b.getArrayAttr({attr(at(op.getInput())),
                      attr({.symbol = op.getWeight(),
                            .panelBytes = storedPanelBytes(op.getWeight(),
                                                           op.getPanels())}),
                      attr(to), bias, residual, count(Count::Rows),
                      count(Count::Panels), panelBytes, space, number(0)}),
      StringAttr());
  setDemand(call, op);
  call.setPanels(op.getPanels());
  call.setPanelTile(op.getPanelTile());
  call.setFlopsPerRow(2 * k * gates * kernel::getColumns(op.getResult()));
}

void PlanBuilder::emit(kernel::LinearStoreOp op) {
  int64_t k = kernel::getColumns(op.getInput());
  int64_t columns = op.getColumns(), tile = op.getPanelTile();
  bool tiles = kernel::getPlanes(op.getInput());
  int64_t panels =
      kernel::panelsFor(tiles ? kernel::planeStride(columns) : columns);
  // The workspace holds the result of a group and, if needed, its packed
  // panels, and what the kernel needs.
  StringRef output = op.getOutput();
  SlotOp result =
      addWorkspace(op.getInput(), "group." + output, tile * kPanelBytes);
  result.setRows(Domain::Picked);
  At weights{.symbol = op.getWeight()};
  SlotOp packed;
  if (op.getTransposeAttr()) {
    auto type = symbols.lookup<encoder::WeightOp>(op.getWeight()).getType();
    weights.panelBytes =
        kernel::kPanelColumns * k * type.getElementTypeBitWidth() / 8;
    packed = addWorkspace(op.getInput(), "panels." + output,
                          tile * packedPanelBytes(op.getKernelAttr(), k));
  } else {
    weights.panelBytes = storedPanelBytes(op.getWeight(), panels);
  }
  Attribute space = number(0);
  if (op.getWorkspaceBytes())
    space = attr({.symbol = addWorkspace(op.getInput(), "workspace." + output,
                                         *op.getWorkspaceBytes())
                                .getSymName()});

  auto loop = ForPanelsOp::create(b, op.getLoc(), columns, StringAttr());
  setDemand(loop, op);
  loop.setPanels(panels);
  loop.setPanelTile(tile);
  loop.setFlopsPerRow(2 * k * columns);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&loop.getBody().emplaceBlock());
  if (packed) {
    At to{.symbol = packed.getSymName(),
          .panelBytes = packedPanelBytes(op.getKernelAttr(), k)};
    ForEachPanelOp::create(
        b, op.getLoc(), op.getTransposeAttr(),
        b.getArrayAttr({attr(weights), count(Count::PanelColumns), attr(to)}),
        b.getI64IntegerAttr(tiles ? 2 : 1));
    weights = to;
  }
  At group{.symbol = result.getSymName(), .rowBytes = tile * kPanelBytes};
  Attribute bias = number(0);
  if (op.getBiasAttr())
    bias = attr({.symbol = *op.getBias(), .panelBytes = kPanelBytes});
  CallOp::create(
      b, op.getLoc(), op.getKernelAttr(),
      b.getArrayAttr({attr(at(op.getInput())), attr(weights), attr(group), bias,
                      number(0), count(Count::Rows), count(Count::Panels),
                      number(kPanelBytes), space, number(0)}),
      StringAttr());
  At to{.symbol = outputSlots.lookup(output).getSymName(),
        .rowBytes = columns * kFloatBytes,
        .panelBytes = kPanelBytes};
  ForRowsOp::create(
      b, op.getLoc(), op.getStoreAttr(),
      b.getArrayAttr({attr(group), count(Count::GroupColumns), attr(to)}),
      FlatSymbolRefAttr(), StringAttr());
}

/// Two products of each query with the keys that it sees.
void PlanBuilder::setAttentionFlops(CallOp call, int64_t columns) {
  auto kernel = symbols.lookup<kernel::DefineOp>(call.getCallee());
  call.setFlopsPerRowAndKey(4 * columns);
  call.setWindow(kernel.getNumber("window"));
}

void PlanBuilder::emit(kernel::AttentionOp op) {
  int64_t perHead = op.getPlanesPerHead();
  int64_t columns = kernel::getColumns(op.getResult());
  int64_t queryHeads = op.getHeads() / op.getKeyHeads();
  ArrayRef<int64_t> planes = op.getPlanes();
  auto operand = [&](Value value, int64_t first, int64_t perItem, bool keys) {
    At from = at(value);
    from.planeFirst = first;
    from.planesPerPanel = perItem;
    if (keys)
      std::swap(from.rowBytes, from.keyBytes);
    return attr(from);
  };
  At to = at(op.getResult());
  to.panelBytes = columns / op.getKeyHeads() * kFloatBytes;
  bool tokens = encoder::getRows(op.getQuery()) == encoder::Rows::Tokens;
  auto call = CallOp::create(
      b, op.getLoc(), op.getKernelAttr(),
      b.getArrayAttr(
          {operand(op.getQuery(), planes[0], perHead * queryHeads, false),
           operand(op.getKey(), planes[1], perHead, true),
           operand(op.getValue(), planes[2], perHead, true), attr(to),
           count(Count::Rows), count(Count::Keys),
           count(tokens ? Count::TokenPlaneBytes : Count::SelectedPlaneBytes),
           count(Count::TokenPlaneBytes), workspace(op, op.getWorkspaceBytes()),
           count(Count::Position)}),
      StringAttr());
  setDemand(call, op);
  setAttentionFlops(call, columns);
}

/// Rows of packed keys or values: of the sequence's first token, of a head.
At PlanBuilder::packedAt(Value value, int64_t rowBytes, int64_t heads) {
  int64_t planes = rowBytes / kPanelBytes;
  bool isValue = value != value.getDefiningOp()->getResult(0);
  return {.symbol = name(value),
          .packedBytes = rowBytes,
          .planes = true,
          .planeFirst = isValue ? heads * planes : 0,
          .planesPerPanel = planes,
          .planeRows = Domain::Packed};
}

void PlanBuilder::emit(kernel::AttentionPackOp op) {
  auto from = [&](Value value) {
    constexpr int64_t bf16Bytes = 2;
    At from = at(value);
    from.panelBytes = kernel::getColumns(value) / op.getKeyHeads() * bf16Bytes;
    return attr(from);
  };
  auto to = [&](Value value) {
    At to = packedAt(value, op.getRowBytes(), op.getKeyHeads());
    to.positionBytes = op.getRowBytes();
    return attr(to);
  };
  auto call = CallOp::create(
      b, op.getLoc(), op.getKernelAttr(),
      b.getArrayAttr(
          {from(op.getKey()), from(op.getValue()), to(op.getPackedKey()),
           to(op.getPackedValue()), count(Count::Rows),
           attr({.symbol = indexSlot(SlotKind::Positions).getSymName(),
                 .rowBytes = sizeof(int32_t)})}),
      StringAttr());
  setDemand(call, op);
  setPerHead(call, op.getKeyHeads());
}

/// Lets a call of a step over rows be made for each head.
void PlanBuilder::setPerHead(CallOp call, int64_t heads) {
  call.setPanels(heads);
  call.setPerHead(true);
}

void PlanBuilder::emit(kernel::TileAttentionOp op) {
  int64_t columns = kernel::getColumns(op.getResult());
  constexpr int64_t bf16Bytes = 2;
  At query = at(op.getQuery()), to = at(op.getResult());
  query.panelBytes =
      kernel::getColumns(op.getQuery()) / op.getKeyHeads() * bf16Bytes;
  to.panelBytes = columns / op.getKeyHeads() *
                  (kernel::getPlanes(op.getResult()) ? bf16Bytes : kFloatBytes);
  auto packed = [&](Value value) {
    return attr(packedAt(value, op.getRowBytes(), op.getKeyHeads()));
  };
  Attribute ahead = joinsRows(op) ? count(Count::RowsToNextHead) : number(0);
  auto call = CallOp::create(
      b, op.getLoc(), op.getKernelAttr(),
      b.getArrayAttr({attr(query), packed(op.getPackedKey()),
                      packed(op.getPackedValue()), attr(to), count(Count::Rows),
                      count(Count::Keys), count(Count::Position),
                      workspace(op, op.getWorkspaceBytes()), ahead}),
      StringAttr());
  setDemand(call, op);
  setAttentionFlops(call, columns);
  if (joinsRows(op))
    setPerHead(call, op.getKeyHeads());
}

void PlanBuilder::emitStep(const Step &step, unsigned number) {
  Operation *first = step.ops.front();
  const int64_t tile = rowTile(step);
  int64_t maxRows = tile;
  std::optional<int64_t> heads, layer;
  for (Operation *op : step.ops) {
    if (auto attr = op->getAttrOfType<IntegerAttr>("layer"); attr && !layer)
      layer = attr.getInt();
    if (auto attr = op->getAttrOfType<IntegerAttr>("max_rows"))
      maxRows = std::max(tile, attr.getInt());
    if (walksOverHeads(op))
      heads = op->getAttrOfType<IntegerAttr>("key_heads").getInt();
  }
  std::string name = "step." + std::to_string(number) + "." +
                     stringifyDomain(step.domain).str();
  auto op = StepOp::create(b, first->getLoc(), name, step.domain, maxRows, tile,
                           /*split_rows=*/0,
                           heads ? b.getI64IntegerAttr(*heads) : IntegerAttr(),
                           layer ? b.getI64IntegerAttr(*layer) : IntegerAttr());
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&op.getBody().emplaceBlock());
  for (Operation *op : step.ops) {
    llvm::TypeSwitch<Operation *, void>(op)
        .Case<kernel::EmbedOp, kernel::LinearOp, kernel::LinearStoreOp,
              kernel::AttentionOp, kernel::AttentionPackOp,
              kernel::TileAttentionOp, kernel::HeadsOp, kernel::ShortConvOp,
              kernel::RowsProgramOp, kernel::GatherOp, kernel::PoolOp,
              kernel::StoreOp>([&](auto op) { emit(op); });
    for (Value value : op->getResults())
      emitEdges(value);
  }
}

/// Lets calls fetch what the next linear reads from memory first: a linear
/// beside its last products, row programs right in front of one beside what
/// little they do. Only linears that fetch their weights ahead themselves gain
/// by it: those of tiles, which multiply faster than memory delivers.
void PlanBuilder::fetchAhead() {
  FlatSymbolRefAttr weights; // of the next linear
  auto planned = llvm::to_vector(module.getOps<StepOp>());
  for (StepOp step : llvm::reverse(planned)) {
    bool follows = false; // behind row programs at most
    for (Operation &op : llvm::reverse(step.getBody().front())) {
      if (auto rows = dyn_cast<ForRowsOp>(op)) {
        if (follows && !rows.getEdgesOf())
          rows.setAheadAttr(weights);
        continue;
      }
      auto call = dyn_cast<CallOp>(op);
      auto define =
          call ? symbols.lookup<kernel::DefineOp>(call.getCallee()) : nullptr;
      const KernelRow *row = define ? findKernelRow(define.getRow()) : nullptr;
      bool isLinear = row && row->family == KernelFamily::Linear;
      follows = isLinear && packedWeightPlanes(row->arithmetic) > 0;
      if (!isLinear)
        continue;
      FlatSymbolRefAttr next = weights;
      weights =
          cast<AtAttr>(call.getArgs()[offsetof(LinearArgs, b) / 8]).getSymbol();
      if (!follows || !next)
        continue;
      SmallVector<Attribute> args = llvm::to_vector(call.getArgs());
      args[offsetof(LinearArgs, ahead) / 8] =
          AheadAttr::get(b.getContext(), next);
      call.setArgsAttr(b.getArrayAttr(args));
    }
  }
}

/// A slot of both sides of an `either` holds in each run the side that the run
/// computes, so nothing else may need the other side then.
LogicalResult PlanBuilder::checkEithers() {
  llvm::DenseSet<Value> seen;
  for (auto either : func.getOps<encoder::EitherOp>())
    for (auto [value, mode] :
         {std::pair<Value, uint32_t>(either.getAll(), ENCAST_MODE_ALL),
          std::pair<Value, uint32_t>(either.getSelected(),
                                     ENCAST_MODE_SELECTED)})
      if (!seen.insert(value).second || isPanelMajor(value) ||
          demand.of(value.getDefiningOp()).modes & ~mode)
        return either.emitOpError()
               << "cannot keep both sides in one slot: "
               << (mode == ENCAST_MODE_ALL ? "'all'" : "'selected'")
               << " is needed elsewhere";
  return success();
}

LogicalResult PlanBuilder::run() {
  if (failed(checkEithers()))
    return failure();
  b.setInsertionPoint(func);
  for (auto output : func.getOps<kernel::OutputOp>())
    b.clone(*output);
  if (failed(makeSteps()))
    return failure();
  for (const Step &step : steps)
    for (Operation *op : step.ops) {
      auto conv = dyn_cast<kernel::ShortConvOp>(op);
      if (conv && encoder::getRows(conv.getResult()) != encoder::Rows::Tokens)
        indexSlot(SlotKind::Selected);
      if (isa<kernel::AttentionPackOp>(op))
        indexSlot(SlotKind::Positions);
      if (auto heads = dyn_cast<kernel::HeadsOp>(op);
          heads && heads.getPositions() &&
          heads.getPositions().getDefiningOp<encoder::SelectRowsOp>())
        indexSlot(SlotKind::Selected);
      if (auto gather = dyn_cast<kernel::GatherOp>(op)) {
        kernel::GatherIndex index = gather.getIndex();
        indexSlot(index == kernel::GatherIndex::Selected ? SlotKind::Selected
                  : index == kernel::GatherIndex::First  ? SlotKind::First
                                                         : SlotKind::Pick);
      } else if (auto store = dyn_cast<kernel::StoreOp>(op);
                 store && store.getPick()) {
        indexSlot(SlotKind::Pick);
      }
    }
  makeSlots();
  for (auto [number, step] : llvm::enumerate(steps))
    emitStep(step, number);
  fetchAhead();
  symbols.erase(func);
  return success();
}

struct KernelToPlan : encast::impl::KernelToPlanPassBase<KernelToPlan> {
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<PlanDialect>();
    registerRowProgramDialects(registry);
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<func::FuncOp> encode = encoder::findEncode(module);
    if (failed(encode))
      return signalPassFailure();
    for (Operation &op :
         llvm::make_early_inc_range(llvm::reverse(encode->front())))
      if (isOpTriviallyDead(&op))
        op.erase();
    if (failed(PlanBuilder(module, *encode).run()))
      signalPassFailure();
  }
};

} // namespace
