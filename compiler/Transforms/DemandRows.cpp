//===- DemandRows.cpp - compute the last layer only for demanded rows -----===//

#include "compiler/Transforms/Passes.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SetVector.h"

namespace encast {
#define GEN_PASS_DEF_DEMANDROWSPASS
#include "compiler/Transforms/Passes.h.inc"
} // namespace encast

using namespace mlir;
using namespace encast;
using namespace encast::encoder;

namespace {

/// Operations whose row of the result needs the same row of the operands only.
bool isRowByRow(Operation *op) {
  return isa<LinearOp, LayerNormOp, RmsNormOp, RopeOp, ActivationOp, AddOp,
             MultiplyOp, NormalizeOp, ColumnsOp, ConcatColumnsOp>(op);
}

/// Of an operation whose row of the result needs other rows: the operands that
/// stay for all rows. The others need the same row only.
SmallVector<OpOperand *, 2> operandsOfAllRows(Operation *op) {
  if (auto attention = dyn_cast<AttentionOp>(op))
    return {&attention.getKeyMutable(), &attention.getValueMutable()};
  if (auto conv = dyn_cast<ShortConvOp>(op))
    return {&conv.getInputMutable()};
  return {};
}

StringAttr nameOf(Operation *op) {
  return op ? op->getAttrOfType<StringAttr>("name") : StringAttr();
}

/// Clones what computes a value for all token rows, for selected rows.
class TailCloner {
public:
  TailCloner(OpBuilder &b, Value value) : b(b) { findFullRows(value); }

  /// The value for selected rows.
  Value clone(Value value) {
    Value &selected = clones[value];
    if (selected)
      return selected;
    Operation *op = value.getDefiningOp();
    auto all = cast<RankedTensorType>(value.getType());
    // Of rows, or of integers of tokens.
    Type type =
        RankedTensorType::get(all.getShape(), all.getElementType(),
                              RowsAttr::get(b.getContext(), Rows::Selected));
    SmallVector<OpOperand *, 2> kept;
    if (op)
      kept = operandsOfAllRows(op);
    if (!op || (fullRows.contains(op) && !isNormOfTail(op)) ||
        (!isRowByRow(op) && kept.empty()))
      return selected = SelectRowsOp::create(b, value.getLoc(), type, value,
                                             nameOf(op), IntegerAttr());
    SmallVector<Value> operands;
    for (OpOperand &operand : op->getOpOperands())
      operands.push_back(llvm::is_contained(kept, &operand)
                             ? operand.get()
                             : clone(operand.get()));
    Operation *copy = b.clone(*op);
    copy->setOperands(operands);
    copy->getResult(0).setType(type);
    // clone() above may have grown the map.
    return clones[value] = copy->getResult(0);
  }

  /// Whether any operation of the tail needs other rows: else nothing would be
  /// saved that a gather of the value's rows does not save as well.
  bool needsOtherRows() const { return sawOtherRows; }

private:
  OpBuilder &b;
  llvm::SetVector<Operation *> fullRows; ///< Needed for all rows in any case.
  DenseSet<Operation *> tail;            ///< Reads the same rows.
  DenseMap<Value, Value> clones;
  bool sawOtherRows = false;

  /// Whether an operation normalizes what the tail reads anyway: computed once
  /// more, it need not be kept for all rows.
  bool isNormOfTail(Operation *op) {
    return isa<LayerNormOp, RmsNormOp>(op) &&
           llvm::any_of(op->getOperand(0).getUsers(), [&](Operation *user) {
             return tail.contains(user) && !fullRows.contains(user);
           });
  }

  /// Collects what keys, values and neighbours of the tail are computed from.
  void findFullRows(Value value) {
    SmallVector<Operation *> work = {value.getDefiningOp()};
    while (!work.empty()) {
      Operation *op = work.pop_back_val();
      if (!op || fullRows.contains(op) || !tail.insert(op).second)
        continue;
      SmallVector<OpOperand *, 2> kept = operandsOfAllRows(op);
      if (kept.empty() && !isRowByRow(op))
        continue;
      sawOtherRows |= !kept.empty();
      BackwardSliceOptions options;
      options.inclusive = true;
      for (OpOperand &operand : op->getOpOperands())
        if (llvm::is_contained(kept, &operand))
          (void)getBackwardSlice(operand.get(), &fullRows, options);
        else
          work.push_back(operand.get().getDefiningOp());
    }
  }
};

struct DemandRows : encast::impl::DemandRowsPassBase<DemandRows> {
  void runOnOperation() override {
    if (getOperation().isExternal())
      return;
    // Readers of token rows, by the value they read.
    llvm::MapVector<Value, SmallVector<Operation *>> readers;
    getOperation().walk([&](Operation *op) {
      if (isa<FirstOp, PickOp, PoolOp>(op))
        readers[op->getOperand(0)].push_back(op);
    });
    for (auto &[value, ops] : readers)
      if (getRows(value) == Rows::Tokens)
        rewrite(value, ops);
    // The tail for all rows may have lost its last reader.
    for (Operation &op :
         llvm::make_early_inc_range(llvm::reverse(getOperation().front())))
      if (isOpTriviallyDead(&op))
        op.erase();
    getOperation().walk([&](OutputOp output) {
      if (readsAllRows(output))
        output.setAllRows(true);
    });
  }

  void rewrite(Value value, ArrayRef<Operation *> ops) {
    bool anyPool = false, anyPick = false, anySelected = false;
    for (Operation *op : ops) {
      anyPool |= isa<PoolOp>(op);
      anyPick |= isa<PickOp>(op);
      anySelected |= isa<FirstOp, PickOp>(op);
    }
    if (!anySelected)
      return;
    OpBuilder b(value.getContext());
    b.setInsertionPointAfterValue(value);
    TailCloner cloner(b, value);
    if (!cloner.needsOtherRows())
      return;
    Value demanded = cloner.clone(value);
    // Without given rows, a per-token output reads all rows.
    if (anyPool || anyPick) {
      demanded = EitherOp::create(
          b, value.getLoc(),
          getRowsType(b.getContext(), getColumns(value), Rows::Demanded), value,
          demanded, nameOf(value.getDefiningOp()), IntegerAttr());
    }
    for (Operation *op : ops)
      op->setOperand(0, demanded);
  }

  bool readsAllRows(OutputOp output) {
    SetVector<Operation *> slice;
    BackwardSliceOptions options;
    options.inclusive = true;
    // What a pool or gather reads is computed before the demand splits.
    options.filter = [](Operation *op) { return !isa<EitherOp>(op); };
    (void)getBackwardSlice(output.getValue(), &slice, options);
    // Rows that no tail was cut for exist for all tokens only.
    return llvm::any_of(slice, [](Operation *op) {
      return isa<PoolOp>(op) || (isa<FirstOp, PickOp>(op) &&
                                 getRows(op->getOperand(0)) == Rows::Tokens);
    });
  }
};

} // namespace
