//===- Pipeline.cpp - the order of all passes -----------------------------===//

#include "compiler/Pipeline/Pipeline.h"
#include "codegen/LLVM/PlanToLLVM.h"
#include "codegen/RowPrograms/RowPrograms.h"
#include "compiler/Conversion/Passes.h"
#include "compiler/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace encast;

llvm::StringRef encast::stageName(Stage stage) {
  switch (stage) {
#define STAGE(id, name, resumable, summary)                                    \
  case Stage::id:                                                              \
    return name;
#include "compiler/Pipeline/Stages.def"
  }
  llvm_unreachable("all stages are listed");
}

std::optional<Stage> encast::parseStage(llvm::StringRef text) {
#define STAGE(id, name, resumable, summary)                                    \
  if (text == name)                                                            \
    return Stage::id;
#include "compiler/Pipeline/Stages.def"
  return std::nullopt;
}

std::string encast::stageNames() {
  std::string names;
#define STAGE(id, name, resumable, summary)                                    \
  names += names.empty() ? name : ", " name;
#include "compiler/Pipeline/Stages.def"
  return names;
}

std::optional<Stage> encast::stageOf(ModuleOp module) {
  if (!module->hasAttr(encoder::kModelAttrName))
    return std::nullopt;
  if (!module->hasAttr(kernel::kTargetAttrName))
    return Stage::Encoder;
  auto steps = module.getOps<plan::StepOp>();
  if (steps.empty())
    return Stage::Kernel;
  for (plan::StepOp step : steps)
    if (!step.getBody().front().getOps<plan::InvokeOp>().empty())
      return Stage::Llvm;
  return Stage::Plan;
}

std::string encast::symbolPrefix(llvm::StringRef target) {
  return (target + ".").str();
}

void encast::addPasses(PassManager &passes, Stage from, Stage to,
                       llvm::StringRef target,
                       std::optional<encoder::Precision> precision) {
  if (from <= Stage::Encoder && to >= Stage::Encoder) {
    // All of these find nothing to do in IR that they made, so that a printed
    // encoder stage may enter again, edited or not.
    passes.addNestedPass<func::FuncOp>(createCSEPass());
    // Needs a query that alone reads its weights, so before tails are cloned.
    passes.addPass(createFoldAttentionScalePass());
    // Activations first: a gate has one, a residual is added behind it. A
    // residual is added behind the gate, too.
    passes.addNestedPass<func::FuncOp>(createFuseActivationIntoLinearPass());
    passes.addNestedPass<func::FuncOp>(createFuseGateIntoLinearPass());
    passes.addNestedPass<func::FuncOp>(createFuseResidualIntoLinearPass());
    if (precision)
      passes.addNestedPass<func::FuncOp>(
          createAssignPrecisionPass({*precision}));
    // Clones the last layer's tail, so after fusion has made it small.
    passes.addNestedPass<func::FuncOp>(createDemandRowsPass());
    // Needs to know which runs need a query, so behind the demand.
    passes.addPass(createMergeLinearsPass());
  }
  if (from < Stage::Kernel && to >= Stage::Kernel) {
    passes.addPass(createEncoderToKernelPass({target.str()}));
    // What the tails of the last layer prepare alike is prepared once.
    passes.addNestedPass<func::FuncOp>(createCSEPass());
  }
  if (from < Stage::Plan && to >= Stage::Plan) {
    passes.addPass(createKernelToPlanPass());
    passes.addPass(createTileRowsPass());
  }
  // Bytes of blocks depend on their rows, which may be edited.
  if (from <= Stage::Plan && to >= Stage::Plan)
    passes.addPass(createAssignMemoryPass());
  if (from < Stage::Llvm && to >= Stage::Llvm)
    passes.addPass(createPlanToLLVMPass({symbolPrefix(target)}));
}

void encast::registerDialects(DialectRegistry &registry) {
  registry.insert<encoder::EncoderDialect, kernel::KernelDialect,
                  plan::PlanDialect, LLVM::LLVMDialect>();
  registerRowProgramDialects(registry);
}

void encast::registerPasses() {
  registerEncastTransformsPasses();
  registerEncastConversionPasses();
  registerCodegenLLVMPasses();
}
