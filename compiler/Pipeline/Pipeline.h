//===- Pipeline.h - the order of all passes ---------------------*- C++ -*-===//
///
/// \file
/// The only place that orders passes.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_COMPILER_PIPELINE_PIPELINE_H
#define ENCAST_COMPILER_PIPELINE_PIPELINE_H

#include "dialects/Encoder/Encoder.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/PassManager.h"

namespace encast {

/// The rows of Stages.def, in order.
enum class Stage {
#define STAGE(id, name, resumable, summary) id,
#include "compiler/Pipeline/Stages.def"
};

/// "encoder", "kernel", ...
llvm::StringRef stageName(Stage stage);
/// The inverse; none if no stage has that name.
std::optional<Stage> parseStage(llvm::StringRef name);
/// "encoder, kernel, ..." for messages.
std::string stageNames();

/// The stage of a module that was printed, by what it holds; none if it is not
/// one of ours.
std::optional<Stage> stageOf(mlir::ModuleOp module);

/// Adds the passes that bring a module from stage `from` to stage `to`, at most
/// llvm. `target` is needed to leave the encoder stage; later stages hold it.
void addPasses(mlir::PassManager &passes, Stage from, Stage to,
               llvm::StringRef target,
               std::optional<encoder::Precision> precision);

/// Starts the names of a target's functions and kernels in an artifact.
std::string symbolPrefix(llvm::StringRef target);

/// Registers what the resumable stages consist of.
void registerDialects(mlir::DialectRegistry &registry);
/// Registers every pass of ours, for encast-opt.
void registerPasses();

} // namespace encast

#endif // ENCAST_COMPILER_PIPELINE_PIPELINE_H
