//===- ArtifactModel.h - from the llvm stage to an artifact -----*- C++ -*-===//

#ifndef ENCAST_COMPILER_DRIVER_ARTIFACTMODEL_H
#define ENCAST_COMPILER_DRIVER_ARTIFACTMODEL_H

#include "codegen/Artifact/ArtifactWriter.h"
#include "codegen/Target/TargetCpu.h"
#include "mlir/IR/BuiltinOps.h"

namespace encast {

/// Fills `model` from modules of the llvm stage, one per variant: tables from
/// the plan, weight recipes, kernels from their generators, and the object of
/// the step functions. On failure a diagnostic is emitted.
mlir::LogicalResult buildArtifactModel(llvm::ArrayRef<mlir::ModuleOp> variants,
                                       ArtifactModel &model);

/// Writes the machine code of a module of the llvm stage as text: the step
/// functions, then each kernel.
mlir::LogicalResult printAssembly(mlir::ModuleOp variant,
                                  llvm::raw_ostream &out);

/// The target that a module holds from the kernel stage on.
mlir::FailureOr<TargetCpu> targetOf(mlir::ModuleOp module);

} // namespace encast

#endif // ENCAST_COMPILER_DRIVER_ARTIFACTMODEL_H
