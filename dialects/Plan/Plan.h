//===- Plan.h - the plan dialect --------------------------------*- C++ -*-===//
///
/// \file
/// Steps over items, slots of the arena and calls; see PlanOps.td.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_DIALECTS_PLAN_PLAN_H
#define ENCAST_DIALECTS_PLAN_PLAN_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"

#include "dialects/Plan/PlanDialect.h.inc"
#include "dialects/Plan/PlanEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Plan/PlanAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/Plan/PlanOps.h.inc"

namespace encast::plan {

/// The terms of an address; what is not set is zero. See Plan_AtAttr.
struct At {
  llvm::StringRef symbol;
  llvm::StringRef by = {};
  bool sequence = false;
  int64_t offset = 0, rowBytes = 0, panelBytes = 0, keyBytes = 0;
  int64_t packedBytes = 0, positionBytes = 0;
  bool planes = false;
  int64_t planeFirst = 0, planesPerPanel = 0;
  Domain planeRows = Domain::Tokens;
  llvm::StringRef edges = {};
  int64_t edgeTile = 0;

  AtAttr attr(mlir::MLIRContext *context) const;
};

} // namespace encast::plan

#endif // ENCAST_DIALECTS_PLAN_PLAN_H
