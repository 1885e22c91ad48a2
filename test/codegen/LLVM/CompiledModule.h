//===- CompiledModule.h - run a module of the plan stage --------*- C++ -*-===//
///
/// \file
/// Lowers a module with `plan-to-llvm`, emits its object and loads that into
/// this process.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_TEST_CODEGEN_LLVM_COMPILEDMODULE_H
#define ENCAST_TEST_CODEGEN_LLVM_COMPILEDMODULE_H

#include "codegen/Target/TargetCpu.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"

#include <memory>
#include <utility>
#include <vector>

namespace encast::test {

/// The target of that name, which exists.
TargetCpu testTarget(const std::string &name);
/// Features that this machine lacks to run code for the target; empty if none.
std::string missingFeatures(const std::string &name);

/// Loads the dialects that tests parse and build.
void loadDialects(mlir::MLIRContext &context);

/// Runs `plan-to-llvm`; false after a diagnostic.
bool lower(mlir::ModuleOp module, llvm::StringRef prefix = "v0.");

/// Code of an object in this process.
class CompiledModule {
public:
  /// `kernels` are the external symbols with their addresses. Exits the test
  /// with a message if the object cannot be made or loaded.
  CompiledModule(mlir::ModuleOp lowered, const TargetCpu &target,
                 std::vector<std::pair<std::string, void *>> kernels = {});

  template <typename Function> Function *find(llvm::StringRef name) const {
    return reinterpret_cast<Function *>(address(name));
  }

private:
  void *address(llvm::StringRef name) const;

  std::unique_ptr<llvm::orc::LLJIT> jit;
};

} // namespace encast::test

#endif // ENCAST_TEST_CODEGEN_LLVM_COMPILEDMODULE_H
