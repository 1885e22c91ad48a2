//===- EmitObject.cpp - from LLVM IR to machine code ----------------------===//
///
/// \file
/// Clones the functions into a module of their own, translates it to LLVM IR,
/// runs the O2 pipeline and the code generator.
//===----------------------------------------------------------------------===//

#include "codegen/LLVM/EmitObject.h"
#include "codegen/LLVM/Triple.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace mlir;
using namespace encast;

/// The functions of the module, translated; null with `error` if MLIR or LLVM
/// refuses.
static std::unique_ptr<llvm::Module>
translate(ModuleOp module, llvm::LLVMContext &context, std::string &error) {
  registerBuiltinDialectTranslation(*module.getContext());
  registerLLVMDialectTranslation(*module.getContext());
  OwningOpRef<ModuleOp> functions = ModuleOp::create(module.getLoc());
  OpBuilder b = OpBuilder::atBlockEnd(functions->getBody());
  for (auto function : module.getOps<LLVM::LLVMFuncOp>())
    b.clone(*function);
  // LLVM's verifier would print to stderr.
  std::unique_ptr<llvm::Module> code = translateModuleToLLVMIR(
      *functions, context, "encast", /*disableVerification=*/true);
  std::string reason;
  llvm::raw_string_ostream stream(reason);
  if (code && !llvm::verifyModule(*code, &stream))
    return code;
  error = "the llvm stage does not translate to LLVM IR";
  if (!reason.empty())
    error += ": " + reason.substr(0, reason.find('\n'));
  return nullptr;
}

/// What every function is compiled with.
static void setAttributes(llvm::Module &module, const TargetCpu &target) {
  std::string vectorBits = std::to_string(8 * target.vectorBytes);
  for (llvm::Function &function : module) {
    if (function.isIntrinsic())
      continue;
    function.setDSOLocal(true);
    function.addFnAttr(llvm::Attribute::NoUnwind);
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", target.llvmName);
    function.addFnAttr("tune-cpu", target.llvmTune);
    // Vectors of 16 floats use registers of this width, and no wider ones.
    function.addFnAttr("prefer-vector-width", vectorBits);
    function.addFnAttr("min-legal-vector-width", "0");
    // Loops that fill or copy stay loops: there is no libc to call.
    function.addFnAttr("no-builtins");
    function.addFnAttr("no-trapping-math", "true");
  }
}

static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder passes(&machine);
  passes.registerModuleAnalyses(modules);
  passes.registerCGSCCAnalyses(components);
  passes.registerFunctionAnalyses(functions);
  passes.registerLoopAnalyses(loops);
  passes.crossRegisterProxies(loops, functions, components, modules);
  passes.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2)
      .run(module, modules);
}

static bool generate(llvm::Module &module, llvm::TargetMachine &machine,
                     llvm::CodeGenFileType type, SmallVectorImpl<char> &bytes,
                     std::string &error) {
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type)) {
    error =
        "LLVM cannot write this file for " + machine.getTargetTriple().str();
    return false;
  }
  passes.run(module);
  return true;
}

/// The object may need what the module declares, and nothing else.
static bool checkUndefined(StringRef object, const llvm::Module &module,
                           std::string &error) {
  auto file = llvm::object::ObjectFile::createELFObjectFile(
      llvm::MemoryBufferRef(object, "object"));
  if (!file) {
    error = llvm::toString(file.takeError());
    return false;
  }
  for (const llvm::object::ELFSymbolRef symbol :
       llvm::cast<llvm::object::ELFObjectFileBase>(**file).symbols()) {
    llvm::Expected<uint32_t> flags = symbol.getFlags();
    llvm::Expected<StringRef> name = symbol.getName();
    if (!flags || !name) {
      error =
          llvm::toString(llvm::joinErrors(flags.takeError(), name.takeError()));
      return false;
    }
    if (!(*flags & llvm::object::SymbolRef::SF_Undefined) || name->empty())
      continue;
    const llvm::Function *function = module.getFunction(*name);
    if (!function || function->isIntrinsic()) {
      error = ("generated code calls '" + *name + "', which nothing provides")
                  .str();
      return false;
    }
  }
  return true;
}

bool encast::emitObject(ModuleOp module, const TargetCpu &target,
                        std::vector<uint8_t> &object, std::string *assembly,
                        std::string &error) {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();

  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code = translate(module, context, error);
  if (!code)
    return false;
  llvm::Triple triple(kTriple);
  const llvm::Target *backend =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backend)
    return false;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  options.MCOptions.OutputAsmVariant = kIntelSyntax;
  std::unique_ptr<llvm::TargetMachine> machine(backend->createTargetMachine(
      triple, target.llvmName, /*Features=*/"", options, llvm::Reloc::PIC_,
      llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
  code->setTargetTriple(triple);
  code->setDataLayout(machine->createDataLayout());
  code->setPICLevel(llvm::PICLevel::BigPIC);
  setAttributes(*code, target);
  optimize(*code, *machine);

  // The code generator changes its module, so that each file needs its own.
  SmallVector<char> bytes;
  if (assembly) {
    std::unique_ptr<llvm::Module> copy = llvm::CloneModule(*code);
    if (!generate(*copy, *machine, llvm::CodeGenFileType::AssemblyFile, bytes,
                  error))
      return false;
    assembly->assign(bytes.begin(), bytes.end());
    bytes.clear();
  }
  if (!generate(*code, *machine, llvm::CodeGenFileType::ObjectFile, bytes,
                error) ||
      !checkUndefined(StringRef(bytes.data(), bytes.size()), *code, error))
    return false;
  object.assign(bytes.begin(), bytes.end());
  return true;
}
