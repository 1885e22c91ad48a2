//===- CompiledModule.cpp - run a module of the plan stage ----------------===//
///
/// \file
/// See CompiledModule.h.
//===----------------------------------------------------------------------===//

#include "CompiledModule.h"
#include "codegen/LLVM/EmitObject.h"
#include "codegen/LLVM/PlanToLLVM.h"
#include "codegen/RowPrograms/RowPrograms.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/TargetSelect.h"

using namespace mlir;
using namespace encast;
using namespace encast::test;

TargetCpu test::testTarget(const std::string &name) {
  TargetCpu target;
  std::string error;
  if (!parseTarget(name, target, error))
    llvm::report_fatal_error(llvm::StringRef(error));
  return target;
}

std::string test::missingFeatures(const std::string &name) {
  return featureNames(testTarget(name).features & ~hostFeatures());
}

void test::loadDialects(MLIRContext &context) {
  DialectRegistry registry;
  registerRowProgramDialects(registry);
  registry.insert<plan::PlanDialect>();
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
  // Stands for the dialects of weights and kernels.
  context.allowUnregisteredDialects();
}

bool test::lower(ModuleOp module, StringRef prefix) {
  PassManager passes(module.getContext());
  PlanToLLVMPassOptions options;
  options.prefix = prefix.str();
  passes.addPass(createPlanToLLVMPass(options));
  return succeeded(passes.run(module));
}

CompiledModule::CompiledModule(
    ModuleOp lowered, const TargetCpu &target,
    std::vector<std::pair<std::string, void *>> kernels) {
  std::vector<uint8_t> object;
  std::string error;
  if (!emitObject(lowered, target, object, nullptr, error))
    llvm::report_fatal_error(llvm::StringRef(error));

  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  llvm::ExitOnError check;
  jit = check(llvm::orc::LLJITBuilder().create());
  llvm::orc::SymbolMap symbols;
  for (auto &[name, address] : kernels)
    symbols[jit->mangleAndIntern(name)] = {
        llvm::orc::ExecutorAddr::fromPtr(address),
        llvm::JITSymbolFlags::Callable};
  if (!symbols.empty())
    check(jit->getMainJITDylib().define(llvm::orc::absoluteSymbols(symbols)));
  check(jit->addObjectFile(llvm::MemoryBuffer::getMemBufferCopy(StringRef(
      reinterpret_cast<const char *>(object.data()), object.size()))));
}

void *CompiledModule::address(StringRef name) const {
  // Functions are hidden, which a plain lookup does not see.
  llvm::ExitOnError check;
  return check(jit->getExecutionSession().lookup(
                   {{&jit->getMainJITDylib(),
                     llvm::orc::JITDylibLookupFlags::MatchAllSymbols}},
                   jit->mangleAndIntern(name)))
      .getAddress()
      .toPtr<void *>();
}
