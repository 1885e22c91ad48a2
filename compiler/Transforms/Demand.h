//===- Demand.h - which runs need an operation ------------------*- C++ -*-===//
///
/// \file
/// An analysis over the function of the encoder or kernel stage.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_COMPILER_TRANSFORMS_DEMAND_H
#define ENCAST_COMPILER_TRANSFORMS_DEMAND_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace encast {

/// The runs that need an operation: modes (ENCAST_MODE_* of encast_abi.h) and
/// outputs (bit i: the i-th output). Both zero: none does.
struct Demand {
  uint32_t modes = 0;
  uint64_t outputs = 0;
  bool operator==(const Demand &other) const {
    return modes == other.modes && outputs == other.outputs;
  }
};

/// Walks from the roots, operations without results that `root` gives a demand,
/// to their operands. `encoder.either` asks for one operand in each mode.
class DemandAnalysis {
public:
  DemandAnalysis(mlir::func::FuncOp func,
                 llvm::function_ref<Demand(mlir::Operation *)> root);
  Demand of(mlir::Operation *op) const { return demands.lookup(op); }

private:
  llvm::DenseMap<mlir::Operation *, Demand> demands;
};

} // namespace encast

#endif // ENCAST_COMPILER_TRANSFORMS_DEMAND_H
