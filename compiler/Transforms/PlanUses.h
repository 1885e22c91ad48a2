//===- PlanUses.h - which calls touch which slots ---------------*- C++ -*-===//
///
/// \file
/// What passes over the plan dialect ask of the calls of a step.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_COMPILER_TRANSFORMS_PLANUSES_H
#define ENCAST_COMPILER_TRANSFORMS_PLANUSES_H

#include "dialects/Plan/Plan.h"

namespace encast {

/// Calls `visit` for each address among the operands of `op` and of the calls
/// in its body.
void forEachAddress(mlir::Operation *op,
                    llvm::function_ref<void(plan::AtAttr)> visit);

} // namespace encast

#endif // ENCAST_COMPILER_TRANSFORMS_PLANUSES_H
