//===- TestObjects.cpp - step objects made by LLVM ------------------------===//

#include "test/codegen/Artifact/TestObjects.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

using namespace llvm;

namespace encast {

std::vector<uint8_t> compileIR(const char *ir, const char *triple,
                               bool positionIndependent) {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  LLVMInitializeAArch64TargetInfo();
  LLVMInitializeAArch64Target();
  LLVMInitializeAArch64TargetMC();
  LLVMInitializeAArch64AsmPrinter();
  std::string error;
  const Target *target = TargetRegistry::lookupTarget(Triple(triple), error);
  std::unique_ptr<TargetMachine> machine(target->createTargetMachine(
      Triple(triple), "", "", TargetOptions(),
      positionIndependent ? Reloc::PIC_ : Reloc::Static));
  LLVMContext context;
  SMDiagnostic diagnostic;
  std::unique_ptr<Module> module = parseAssemblyString(ir, diagnostic, context);
  if (!module)
    report_fatal_error(diagnostic.getMessage());
  module->setTargetTriple(Triple(triple));
  module->setDataLayout(machine->createDataLayout());
  SmallString<0> object;
  raw_svector_ostream stream(object);
  legacy::PassManager passes;
  machine->addPassesToEmitFile(passes, stream, nullptr,
                               CodeGenFileType::ObjectFile);
  passes.run(*module);
  return std::vector<uint8_t>(object.begin(), object.end());
}

} // namespace encast
