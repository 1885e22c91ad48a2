//===- encast-opt.cpp - run passes over printed stages --------------------===//
///
/// \file
/// An ordinary mlir-opt with our dialects and passes, and MLIR's own cleanups.
//===----------------------------------------------------------------------===//

#include "compiler/Pipeline/Pipeline.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  encast::registerDialects(registry);
  encast::registerPasses();
  mlir::registerTransformsPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "encast-opt\n", registry));
}
