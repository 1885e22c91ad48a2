//===- Demand.cpp - which runs need an operation --------------------------===//

#include "compiler/Transforms/Demand.h"
#include "dialects/Encoder/Encoder.h"
#include "encast_abi.h"

using namespace mlir;
using namespace encast;

DemandAnalysis::DemandAnalysis(func::FuncOp func,
                               llvm::function_ref<Demand(Operation *)> root) {
  auto ask = [&](Value value, Demand demand) {
    if (Operation *op = value.getDefiningOp()) {
      demands[op].modes |= demand.modes;
      demands[op].outputs |= demand.outputs;
    }
  };
  // Definitions come before uses, so one walk backwards sees every reader
  // first.
  for (Operation &op : llvm::reverse(func.getBody().front())) {
    if (op.getNumResults() == 0)
      demands[&op] = root(&op);
    Demand demand = demands.lookup(&op);
    if (!demand.modes || !demand.outputs)
      continue;
    if (auto either = dyn_cast<encoder::EitherOp>(op)) {
      ask(either.getAll(), {demand.modes & ENCAST_MODE_ALL, demand.outputs});
      ask(either.getSelected(),
          {demand.modes & ENCAST_MODE_SELECTED, demand.outputs});
      continue;
    }
    for (Value operand : op.getOperands())
      ask(operand, demand);
  }
}
