//===- PlanToLLVM.cpp - from Plan IR to LLVM IR ---------------------------===//
///
/// \file
/// Row programs go through MLIR's conversions. For each call of a step a
/// function is built that reads the context and the item, computes addresses as
/// Plan_AtAttr says, and calls the kernel or the row programs.
//===----------------------------------------------------------------------===//

#include "codegen/LLVM/PlanToLLVM.h"
#include "encast_abi.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringMap.h"

#include <cstddef>

using namespace mlir;
using namespace encast;
using namespace encast::plan;

namespace encast {
#define GEN_PASS_DEF_PLANTOLLVMPASS
#include "codegen/LLVM/Passes.h.inc"
} // namespace encast

static bool isLocal(SlotOp slot) {
  return slot.getKind() == SlotKind::Block ||
         slot.getKind() == SlotKind::Workspace;
}

SmallVector<SlotOp> encast::collectSlots(ModuleOp module) {
  SmallVector<SlotOp> slots;
  for (SlotOp slot : module.getOps<SlotOp>())
    if (!isLocal(slot))
      slots.push_back(slot);
  return slots;
}

SmallVector<Operation *> encast::collectWeights(ModuleOp module) {
  SmallVector<Operation *> weights;
  for (Operation &op : *module.getBody())
    if (op.getName().getStringRef() == "encoder.weight")
      weights.push_back(&op);
  return weights;
}

std::string encast::kernelSymbol(StringRef prefix, StringRef callee) {
  return (prefix + callee).str();
}

namespace {

/// What a symbol of an address is.
struct Place {
  StringRef name;
  SlotOp slot;        ///< Null for a weight.
  int64_t number = 0; ///< In the context's table; not for local slots.
};
using Places = llvm::StringMap<Place>;

Places collectPlaces(ModuleOp module) {
  Places places;
  for (SlotOp slot : module.getOps<SlotOp>())
    places[slot.getSymName()] = {slot.getSymName(), slot, 0};
  for (auto [number, slot] : llvm::enumerate(collectSlots(module)))
    places[slot.getSymName()].number = number;
  for (auto [number, weight] : llvm::enumerate(collectWeights(module))) {
    StringRef name = SymbolTable::getSymbolName(weight);
    places[name] = {name, SlotOp(), int64_t(number)};
  }
  return places;
}

/// Where a call stands: the values that its operands are functions of.
struct Scope {
  Value row;
  Value panel, panels;
  Value firstPanel;         ///< Of the group, from which workspaces count.
  bool panelOnly = false;   ///< In plan.for_each_panel: the row is 0.
  int64_t panelsAtOnce = 1; ///< In plan.for_each_panel.
  int64_t columns = 0;      ///< Of the enclosing plan.for_panels.
};

/// A field of a struct of the ABI; its name is that of the loaded value in
/// printed IR.
struct Field {
  StringRef name;
  int64_t offset;
};
#define ITEM(field)                                                            \
  Field { #field, offsetof(encast_abi_item, field) }
#define CONTEXT(field)                                                         \
  Field { #field, offsetof(encast_abi_context, field) }

/// Builds one function of type encast_abi_function.
class StepFunction {
public:
  StepFunction(const Places &places, SymbolTable &symbols, StringRef prefix,
               StringRef name, Operation *call)
      : places(places), symbols(symbols), prefix(prefix),
        b(call->getLoc(), call->getContext()),
        pointer(LLVM::LLVMPointerType::get(b.getContext())) {
    auto type = LLVM::LLVMFunctionType::get(
        LLVM::LLVMVoidType::get(b.getContext()), {pointer, pointer});
    b.setInsertionPointToEnd(&symbols.getOp()->getRegion(0).front());
    function = LLVM::LLVMFuncOp::create(b, name, type);
    function.setVisibility_(LLVM::Visibility::Hidden);
    symbols.insert(function);

    // What does not change in the function is loaded in its entry.
    Block *entry = function.addEntryBlock(b);
    Block *body = b.createBlock(&function.getBody());
    b.setInsertionPointToEnd(entry);
    entryEnd = LLVM::BrOp::create(b, body);
    b.setInsertionPointToStart(body);
    context = function.getArgument(0);
    item = function.getArgument(1);
    context.setLoc(NameLoc::get(b.getStringAttr("context")));
    item.setLoc(NameLoc::get(b.getStringAttr("item")));
  }

  /// Fills the function; fails with a diagnostic at the op.
  LogicalResult build(Operation *op) {
    Scope scope;
    scope.row = itemField(ITEM(row));
    scope.panel = scope.firstPanel = itemField(ITEM(panel));
    scope.panels = itemField(ITEM(panels));
    LogicalResult result = emit(op, scope);
    LLVM::ReturnOp::create(b, ValueRange());
    // Both blocks are one, now that the entry is complete.
    Block *entry = entryEnd->getBlock(), *body = entry->getNextNode();
    entryEnd->erase();
    entry->getOperations().splice(entry->end(), body->getOperations());
    body->erase();
    return result;
  }

private:
  LogicalResult emit(Operation *op, const Scope &scope) {
    b.setLoc(op->getLoc());
    if (auto call = dyn_cast<CallOp>(op))
      return emitCall(call, scope);
    if (auto rows = dyn_cast<ForRowsOp>(op))
      return emitRows(rows, scope);
    if (auto each = dyn_cast<ForEachPanelOp>(op))
      return emitEachPanel(each, scope);
    return emitPanels(cast<ForPanelsOp>(op), scope);
  }

  /// Calls the kernel with a struct of its operands, 8 bytes each.
  LogicalResult emitCall(CallOp call, const Scope &scope) {
    if (symbols.lookup<LLVM::LLVMFuncOp>(call.getCallee()))
      return call.emitOpError() << "calls " << call.getCalleeAttr()
                                << ", a row program, where a kernel is needed";
    FailureOr<LLVM::LLVMFuncOp> kernel = declareKernel(call);
    if (failed(kernel))
      return failure();
    auto type = LLVM::LLVMArrayType::get(b.getI64Type(), call.getArgs().size());
    Value arguments;
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(entryEnd);
      arguments =
          LLVM::AllocaOp::create(b, pointer, type, integer(1), /*alignment=*/8);
    }
    for (auto [number, operand] : llvm::enumerate(call.getArgs())) {
      FailureOr<Value> value = emitOperand(call, operand, scope);
      if (failed(value))
        return failure();
      LLVM::StoreOp::create(b, *value, at(arguments, integer(8 * number)),
                            /*alignment=*/8);
    }
    LLVM::CallOp::create(b, *kernel, arguments);
    return success();
  }

  LogicalResult emitRows(ForRowsOp rows, const Scope &scope) {
    Value first = itemField(ITEM(row));
    Value count = itemField(ITEM(rows));
    return forEach(first, add(first, count), 1, [&](Value row) {
      Scope inner = scope;
      inner.row = row;
      if (FlatSymbolRefAttr weights = rows.getAheadAttr())
        if (failed(emitFetch(rows, weights, subtract(row, first))))
          return failure();
      OpBuilder::InsertionGuard guard(b);
      if (int64_t tile = rows.getEdgesOf()) {
        Value isEdge =
            arith::OrIOp::create(b, equals(remainder(row, tile), 0),
                                 equals(remainder(row, tile), tile - 1));
        auto branch = scf::IfOp::create(b, isEdge, /*withElseRegion=*/false);
        b.setInsertionPointToStart(branch.thenBlock());
      }
      return emitProgram(rows, rows.getCalleeAttr(), rows.getArgs(), inner);
    });
  }

  LogicalResult emitEachPanel(ForEachPanelOp each, const Scope &scope) {
    int64_t tile = each.getPanelTile();
    return forEach(
        scope.panel, add(scope.panel, scope.panels), tile, [&](Value panel) {
          Scope inner = scope;
          inner.row = integer(0);
          inner.panelOnly = true;
          inner.panelsAtOnce = tile;
          inner.panel = panel;
          return emitProgram(each, each.getCalleeAttr(), each.getArgs(), inner);
        });
  }

  LogicalResult emitPanels(ForPanelsOp panels, const Scope &scope) {
    Value end = add(scope.panel, scope.panels);
    int64_t tile = panels.getPanelTile();
    return forEach(scope.panel, end, tile, [&](Value panel) {
      Scope inner = scope;
      inner.panel = inner.firstPanel = panel;
      inner.panels = minimum(subtract(end, panel), integer(tile));
      inner.columns = panels.getColumns();
      for (Operation &op : panels.getBody().front())
        if (failed(emit(&op, inner)))
          return failure();
      return success();
    });
  }

  /// Calls a row program with its operands.
  LogicalResult emitProgram(Operation *op, FlatSymbolRefAttr callee,
                            ArrayAttr operands, const Scope &scope) {
    auto program = symbols.lookup<LLVM::LLVMFuncOp>(callee.getValue());
    if (!program || program.isExternal())
      return op->emitOpError()
             << "calls " << callee << ", which is no row program";
    ArrayRef<Type> types = program.getFunctionType().getParams();
    if (types.size() != operands.size())
      return op->emitOpError()
             << "passes " << operands.size() << " operands to " << callee
             << ", which takes " << types.size();
    SmallVector<Value> arguments;
    for (auto [number, operand] : llvm::enumerate(operands)) {
      FailureOr<Value> value = emitOperand(op, operand, scope);
      if (failed(value))
        return failure();
      if (value->getType() != types[number])
        return op->emitOpError()
               << "passes operand " << number << " of type " << value->getType()
               << " to " << callee << ", which takes " << types[number];
      arguments.push_back(*value);
    }
    LLVM::CallOp::create(b, program, arguments);
    return success();
  }

  FailureOr<Value> emitOperand(Operation *op, Attribute operand,
                               const Scope &scope) {
    if (auto address = dyn_cast<AtAttr>(operand))
      return emitAddress(op, address, scope);
    if (auto ahead = dyn_cast<AheadAttr>(operand))
      return emitAhead(cast<CallOp>(op), ahead, scope);
    if (auto count = dyn_cast<CountAttr>(operand))
      return emitCount(op, count.getValue(), scope);
    return integer(cast<IntegerAttr>(operand).getInt());
  }

  Value emitCount(Operation *op, Count count, const Scope &scope) {
    switch (count) {
    case Count::Rows:
      return itemField(ITEM(rows));
    case Count::Panels:
      return scope.panels;
    case Count::Keys:
      return itemField(ITEM(keys));
    case Count::SequenceTokens:
      return subtract(offsetOf(add(scope.row, integer(1))),
                      offsetOf(scope.row));
    case Count::TokenPlaneBytes:
      return multiply(domainRows(Domain::Tokens), 64);
    case Count::SelectedPlaneBytes:
      return multiply(domainRows(Domain::Selected), 64);
    case Count::PanelColumns:
      return minimum(columnsFrom(scope), integer(16 * scope.panelsAtOnce));
    case Count::GroupColumns:
      return minimum(columnsFrom(scope), multiply(scope.panels, 16));
    case Count::Position:
      return itemField(ITEM(position));
    case Count::RowsToNextHead:
      return select(
          equals(scope.panel, int64_t(cast<CallOp>(op).getPanels()) - 1),
          integer(0), domainRows(Domain::Packed));
    }
    llvm_unreachable("unknown count");
  }

  /// Columns of the enclosing plan.for_panels from the scope's panel on.
  Value columnsFrom(const Scope &scope) {
    return subtract(integer(scope.columns), multiply(scope.panel, 16));
  }

  /// See Plan_AtAttr.
  FailureOr<Value> emitAddress(Operation *op, AtAttr address,
                               const Scope &scope) {
    auto found = places.find(address.getSymbol().getValue());
    if (found == places.end())
      return op->emitOpError() << "reads " << address.getSymbol()
                               << ", which is neither a slot nor a weight";
    Place place = found->second;
    if (address.getEdges())
      return emitNeighbour(address, place, scope);
    bool workspace = place.slot && place.slot.getKind() == SlotKind::Workspace;
    Value panel =
        workspace ? subtract(scope.panel, scope.firstPanel) : scope.panel;

    Value offset = integer(address.getOffset());
    if (address.getRowBytes())
      offset = add(offset, multiply(rowIndex(address, place, scope),
                                    address.getRowBytes()));
    if (address.getPanelBytes())
      offset = add(offset, multiply(panel, address.getPanelBytes()));
    const std::pair<int64_t, Field> terms[] = {
        {address.getKeyBytes(), ITEM(key)},
        {address.getPackedBytes(), ITEM(packed)},
        {address.getPositionBytes(), ITEM(position)}};
    for (auto [factor, field] : terms)
      if (factor)
        offset = add(offset, multiply(itemField(field), factor));
    if (address.getPlanes()) {
      Value plane = add(integer(address.getPlaneFirst()),
                        multiply(panel, address.getPlanesPerPanel()));
      Value planeBytes = multiply(domainRows(address.getPlaneRows()), 64);
      offset = add(offset, arith::MulIOp::create(b, plane, planeBytes));
    }
    return at(base(place), offset);
  }

  /// See Plan_AheadAttr.
  FailureOr<Value> emitAhead(CallOp call, AheadAttr ahead, const Scope &scope) {
    FailureOr<Value> weights = emitWeights(call, ahead.getSymbol());
    if (failed(weights))
      return failure();
    return select(equals(scope.panels, int64_t(call.getPanels())), *weights,
                  LLVM::ZeroOp::create(b, pointer));
  }

  /// Fetches a kilobyte of weights into the L2.
  LogicalResult emitFetch(Operation *op, FlatSymbolRefAttr symbol,
                          Value kilobyte) {
    constexpr int64_t kBytes = 1024, kLineBytes = 64;
    constexpr int64_t kRead = 0, kIntoL2 = 2, kData = 1; // of llvm.prefetch
    FailureOr<Value> weights = emitWeights(op, symbol);
    if (failed(weights))
      return failure();
    Value first = at(*weights, multiply(kilobyte, kBytes));
    for (int64_t line = 0; line < kBytes; line += kLineBytes)
      LLVM::Prefetch::create(b, at(first, integer(line)), kRead, kIntoL2,
                             kData);
    return success();
  }

  /// Where the weights begin that are to be fetched ahead.
  FailureOr<Value> emitWeights(Operation *op, FlatSymbolRefAttr symbol) {
    auto found = places.find(symbol.getValue());
    if (found == places.end() || found->second.slot)
      return op->emitOpError()
             << "reads ahead " << symbol << ", which is no weight";
    return base(found->second);
  }

  /// A neighbour of another tile is taken from where the edges of tiles are.
  Value emitNeighbour(AtAttr address, Place place, const Scope &scope) {
    int64_t bytes = address.getRowBytes(), tile = address.getEdgeTile();
    Value row = add(scope.row, integer(address.getOffset() / bytes));
    Value isOther =
        arith::CmpIOp::create(b, arith::CmpIPredicate::ne,
                              quotient(scope.row, tile), quotient(row, tile));
    Value edges = base(places.find(address.getEdges().getValue())->second);
    return at(select(isOther, edges, base(place)),
              multiply(select(isOther, edgeIndex(row, tile), row), bytes));
  }

  /// Place of a row among the first and last rows of tiles.
  Value edgeIndex(Value row, int64_t tile) {
    Value isFirst = equals(remainder(row, tile), 0);
    return add(multiply(quotient(row, tile), 2),
               select(isFirst, integer(0), integer(1)));
  }

  Value rowIndex(AtAttr address, Place place, const Scope &scope) {
    if (address.getSequence())
      return offsetOf(scope.row);
    if (address.getEdgeTile())
      return edgeIndex(scope.row, address.getEdgeTile());
    if (FlatSymbolRefAttr by = address.getBy()) {
      Value table = base(places.find(by.getValue())->second);
      Value index = LLVM::LoadOp::create(b, b.getI32Type(),
                                         at(table, multiply(scope.row, 4)),
                                         /*alignment=*/4);
      return arith::ExtSIOp::create(b, b.getI64Type(), index);
    }
    if (scope.panelOnly || !place.slot || !isLocal(place.slot))
      return scope.row;
    // Local rows count from the first row of the block, or of the item.
    bool block = place.slot.getKind() == SlotKind::Block;
    return subtract(scope.row, itemField(block ? ITEM(block) : ITEM(row)));
  }

  /// Address of the first byte of a slot or weight.
  Value base(Place place) {
    if (!place.slot)
      return entryOf(contextPointer(CONTEXT(weights)), place);
    SlotOp slot = place.slot;
    if (!isLocal(slot))
      return entryOf(contextPointer(CONTEXT(slots)), place);
    Value memory =
        contextPointer(slot.getKind() == SlotKind::Block ? CONTEXT(block)
                                                         : CONTEXT(workspace));
    return at(memory, integer(slot.getOffset().value_or(0)));
  }

  Value domainRows(Domain domain) {
    auto field = [&](Field field) {
      return load(context, field, b.getI64Type());
    };
    if (domain == Domain::Packed) // ENCAST_PACKED_ROWS
      return add(field(CONTEXT(tokens)),
                 multiply(field(CONTEXT(sequences)), ENCAST_PACKED_ROWS(0, 1)));
    return field(domain == Domain::Tokens ? CONTEXT(tokens)
                                          : CONTEXT(selected));
  }

  /// First token of a sequence.
  Value offsetOf(Value sequence) {
    Value offsets = contextPointer(CONTEXT(offsets));
    return LLVM::LoadOp::create(b, b.getI64Type(),
                                at(offsets, multiply(sequence, 8)),
                                /*alignment=*/8);
  }

  Value contextPointer(Field field) { return load(context, field, pointer); }
  Value itemField(Field field) { return load(item, field, b.getI64Type()); }
  Value entryOf(Value table, Place place) {
    return load(table, {place.name, 8 * place.number}, pointer);
  }

  /// Loads a value that no call changes, once, in the entry.
  Value load(Value from, Field field, Type type) {
    Value &value = loaded[{from, field.offset}];
    if (!value) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(entryEnd);
      value = LLVM::LoadOp::create(b, type, at(from, integer(field.offset)),
                                   /*alignment=*/8);
      value.setLoc(NameLoc::get(b.getStringAttr(field.name), b.getLoc()));
    }
    return value;
  }

  FailureOr<LLVM::LLVMFuncOp> declareKernel(CallOp call) {
    std::string name = kernelSymbol(prefix, call.getCallee());
    if (Operation *taken = symbols.lookup(name)) {
      auto known = dyn_cast<LLVM::LLVMFuncOp>(taken);
      if (known && known.isExternal())
        return known;
      return call.emitOpError()
             << "needs @" << name << " for its kernel, a name that is taken";
    }
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(function);
    auto type = LLVM::LLVMFunctionType::get(
        LLVM::LLVMVoidType::get(b.getContext()), {pointer});
    auto kernel = LLVM::LLVMFuncOp::create(b, name, type);
    kernel.setVisibility_(LLVM::Visibility::Hidden);
    symbols.insert(kernel);
    return kernel;
  }

  LogicalResult forEach(Value from, Value to, int64_t step,
                        function_ref<LogicalResult(Value)> body) {
    auto loop = scf::ForOp::create(b, from, to, integer(step));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    return body(loop.getInductionVar());
  }

  Value at(Value base, Value offset) {
    return LLVM::GEPOp::create(b, pointer, b.getI8Type(), base, offset);
  }
  Value integer(int64_t value) {
    return arith::ConstantOp::create(b, b.getI64IntegerAttr(value));
  }
  Value add(Value left, Value right) {
    return arith::AddIOp::create(b, left, right);
  }
  Value subtract(Value left, Value right) {
    return arith::SubIOp::create(b, left, right);
  }
  Value multiply(Value left, int64_t right) {
    return arith::MulIOp::create(b, left, integer(right));
  }
  Value quotient(Value left, int64_t right) {
    return arith::DivSIOp::create(b, left, integer(right));
  }
  Value remainder(Value left, int64_t right) {
    return arith::RemSIOp::create(b, left, integer(right));
  }
  Value equals(Value left, int64_t right) {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, left,
                                 integer(right));
  }
  Value select(Value condition, Value yes, Value no) {
    return arith::SelectOp::create(b, condition, yes, no);
  }
  Value minimum(Value left, Value right) {
    return arith::MinSIOp::create(b, left, right);
  }

  const Places &places;
  SymbolTable &symbols;
  StringRef prefix;
  ImplicitLocOpBuilder b;
  Type pointer;
  LLVM::LLVMFuncOp function;
  Operation *entryEnd = nullptr;
  Value context, item;
  llvm::DenseMap<std::pair<Value, int64_t>, Value> loaded;
};

/// What a call runs, for the profile: its callee; of a plan.for_panels that of
/// its kernel, or of its first op if it has none.
StringRef kernelName(Operation *op) {
  if (auto call = dyn_cast<CallOp>(op))
    return call.getCallee();
  if (auto rows = dyn_cast<ForRowsOp>(op))
    return rows.getCallee();
  if (auto each = dyn_cast<ForEachPanelOp>(op))
    return each.getCallee();
  Block &body = cast<ForPanelsOp>(op).getBody().front();
  auto calls = body.getOps<CallOp>();
  if (!calls.empty())
    return (*calls.begin()).getCallee();
  return body.empty() ? StringRef() : kernelName(&body.front());
}

template <typename Op> void replaceByInvoke(Op op, StringRef function) {
  OpBuilder b(op);
  InvokeOp::create(b, op.getLoc(), function, kernelName(op), op.getNameAttr(),
                   op.getModes(), op.getOutputs(), op.getPanels(),
                   op.getPanelTile(), op.getFlopsPerRow(),
                   op.getFlopsPerRowAndKey(), op.getWindow(), op.getPerHead());
  op.erase();
}

class PlanToLLVM : public encast::impl::PlanToLLVMPassBase<PlanToLLVM> {
public:
  using Base = encast::impl::PlanToLLVMPassBase<PlanToLLVM>;
  using Base::Base;

  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<LLVM::LLVMDialect, arith::ArithDialect, scf::SCFDialect,
                    cf::ControlFlowDialect, PlanDialect>();
    lowerRowPrograms().getDependentDialects(registry);
    lowerSteps().getDependentDialects(registry);
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<StringAttr> programs;
    for (auto function : module.getOps<func::FuncOp>())
      programs.push_back(function.getSymNameAttr());
    OpPassManager rows = lowerRowPrograms();
    if (failed(runPipeline(rows, module)))
      return signalPassFailure();

    SymbolTable symbols(module);
    for (StringAttr name : programs) {
      auto program = symbols.lookup<LLVM::LLVMFuncOp>(name);
      if (!program || program.isExternal())
        continue;
      program.setLinkage(LLVM::Linkage::Internal);
      program.setNoInline(true);
    }
    Places places = collectPlaces(module);
    for (StepOp step : llvm::to_vector(module.getOps<StepOp>()))
      if (failed(lowerStep(step, places, symbols)))
        return signalPassFailure();

    OpPassManager steps = lowerSteps();
    if (failed(runPipeline(steps, module)))
      signalPassFailure();
  }

private:
  LogicalResult lowerStep(StepOp step, const Places &places,
                          SymbolTable &symbols) {
    int64_t number = 0;
    for (Operation &op : llvm::make_early_inc_range(step.getBody().front())) {
      if (isa<InvokeOp>(op))
        continue;
      std::string name =
          (prefix + step.getSymName() + "." + Twine(number++)).str();
      if (symbols.lookup(name))
        return op.emitOpError()
               << "becomes function @" << name << ", a name that is taken";
      StepFunction function(places, symbols, prefix, name, &op);
      if (failed(function.build(&op)))
        return failure();
      if (auto call = dyn_cast<CallOp>(op))
        replaceByInvoke(call, name);
      else if (auto rows = dyn_cast<ForRowsOp>(op))
        replaceByInvoke(rows, name);
      else
        replaceByInvoke(cast<ForPanelsOp>(op), name);
    }
    return success();
  }

  static OpPassManager lowerRowPrograms() {
    OpPassManager passes(ModuleOp::getOperationName());
    ConvertVectorToLLVMPassOptions vectors;
    vectors.vectorTransposeLowering =
        vector::VectorTransposeLowering::Shuffle16x16;
    passes.addPass(createConvertVectorToLLVMPass(vectors));
    passes.addPass(createSCFToControlFlowPass());
    passes.addPass(createConvertMathToLLVMPass());
    passes.addPass(createArithToLLVMConversionPass());
    passes.addPass(createFinalizeMemRefToLLVMConversionPass());
    ConvertFuncToLLVMPassOptions functions;
    functions.useBarePtrCallConv = true;
    passes.addPass(createConvertFuncToLLVMPass(functions));
    passes.addPass(createConvertControlFlowToLLVMPass());
    passes.addPass(createReconcileUnrealizedCastsPass());
    return passes;
  }

  static OpPassManager lowerSteps() {
    OpPassManager passes(ModuleOp::getOperationName());
    passes.addPass(createSCFToControlFlowPass());
    passes.addPass(createArithToLLVMConversionPass());
    passes.addPass(createConvertControlFlowToLLVMPass());
    OpPassManager &functions = passes.nest<LLVM::LLVMFuncOp>();
    functions.addPass(createCanonicalizerPass());
    functions.addPass(createCSEPass());
    return passes;
  }
};

} // namespace
