//===- PlanToLLVM.h - from Plan IR to LLVM IR -------------------*- C++ -*-===//
///
/// \file
/// The pass `plan-to-llvm` and what its code takes for granted about the
/// descriptor: numbers of slots and weights, names of kernels.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_LLVM_PLANTOLLVM_H
#define ENCAST_CODEGEN_LLVM_PLANTOLLVM_H

#include "dialects/Plan/Plan.h"
#include "mlir/Pass/Pass.h"

namespace encast {

#define GEN_PASS_DECL
#include "codegen/LLVM/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "codegen/LLVM/Passes.h.inc"

/// The slots that encast_abi_context::slots holds, by their number there: all
/// but those of kind block and workspace, in the order of the module.
llvm::SmallVector<plan::SlotOp> collectSlots(mlir::ModuleOp module);

/// The weights that encast_abi_context::weights holds, by their number there:
/// the ops `encoder.weight` in the order of the module.
llvm::SmallVector<mlir::Operation *> collectWeights(mlir::ModuleOp module);

/// The symbol under which the code of kernel `callee` is called; the object
/// with the kernels defines it, hidden.
std::string kernelSymbol(llvm::StringRef prefix, llvm::StringRef callee);

} // namespace encast

#endif // ENCAST_CODEGEN_LLVM_PLANTOLLVM_H
