//===- DemandRows.cpp - compute the last layer only for demanded rows -----===//

#include "compiler/Transforms/Passes.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
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
  return isa<LinearOp, LayerNormOp, ActivationOp, AddOp, NormalizeOp, ColumnsOp,
             ConcatColumnsOp>(op);
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
    Type type = getRowsType(b.getContext(), getColumns(value), Rows::Selected);
    if (!op || fullRows.contains(op) ||
        (!isRowByRow(op) && !isa<AttentionOp>(op)))
      return selected = SelectRowsOp::create(b, value.getLoc(), type, value,
                                             nameOf(op), IntegerAttr());
    Operation *copy;
    if (auto attention = dyn_cast<AttentionOp>(op)) {
      // Keys and values stay, also if the query is one of them.
      Value query = clone(attention.getQuery());
      copy = b.clone(*op);
      cast<AttentionOp>(copy).getQueryMutable().assign(query);
    } else {
      IRMapping mapping;
      for (Value operand : op->getOperands())
        mapping.map(operand, clone(operand));
      copy = b.clone(*op, mapping);
    }
    copy->getResult(0).setType(type);
    // clone() above may have grown the map.
    return clones[value] = copy->getResult(0);
  }

  /// Whether any attention lies in the tail: else nothing would be saved that a
  /// gather of the value's rows does not save as well.
  bool hasAttention() const { return sawAttention; }

private:
  OpBuilder &b;
  llvm::SetVector<Operation *> fullRows; ///< Needed for all rows in any case.
  DenseMap<Value, Value> clones;
  bool sawAttention = false;

  /// Collects what keys and values of the tail's attention are computed from.
  void findFullRows(Value value) {
    SmallVector<Operation *> work = {value.getDefiningOp()};
    DenseSet<Operation *> seen;
    while (!work.empty()) {
      Operation *op = work.pop_back_val();
      if (!op || fullRows.contains(op) || !seen.insert(op).second)
        continue;
      if (auto attention = dyn_cast<AttentionOp>(op)) {
        sawAttention = true;
        BackwardSliceOptions options;
        options.inclusive = true;
        for (Value all : {attention.getKey(), attention.getValue()})
          (void)getBackwardSlice(all, &fullRows, options);
        work.push_back(attention.getQuery().getDefiningOp());
      } else if (isRowByRow(op)) {
        for (Value operand : op->getOperands())
          work.push_back(operand.getDefiningOp());
      }
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
    if (!cloner.hasAttention())
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
