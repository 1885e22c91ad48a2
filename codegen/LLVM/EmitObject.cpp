//===- EmitObject.cpp - from LLVM IR to machine code ----------------------===//
///
/// \file
/// Clones the functions into a module of their own, translates it to LLVM IR,
/// runs the O2 pipeline and the code generator.
//===----------------------------------------------------------------------===//

#include "codegen/LLVM/EmitObject.h"
#include "codegen/LLVM/Triple.h"
#include "encast_abi.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicsX86.h"
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

/// 32 numbers of f32 to bf16, in one instruction.
static llvm::Value *roundWithInstruction(llvm::IRBuilder<> &b,
                                         llvm::Value *value) {
  llvm::Value *low = b.CreateExtractVector(
      llvm::FixedVectorType::get(b.getFloatTy(), 16), value, uint64_t(0));
  llvm::Value *high =
      b.CreateExtractVector(low->getType(), value, uint64_t(16));
  return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_cvtne2ps2bf16_512,
                           {high, low});
}

/// The same bits without that instruction.
static llvm::Value *roundInIntegers(llvm::IRBuilder<> &b, llvm::Value *value,
                                    llvm::Type *type) {
  auto *integers = llvm::VectorType::getInteger(
      llvm::cast<llvm::VectorType>(value->getType()));
  auto constant = [&](uint32_t bits) {
    return llvm::ConstantInt::get(integers, bits);
  };
  llvm::Value *bits = b.CreateBitCast(value, integers);
  // Half of the last bit that stays is added, less one in front of an even
  // number; the carry into the exponent is right, and makes infinity of what is
  // too large.
  llvm::Value *odd = b.CreateAnd(b.CreateLShr(bits, 16), constant(1));
  llvm::Value *sum = b.CreateAdd(b.CreateAdd(bits, constant(0x7fff)), odd);
  // NaN must not carry, nor be told from an infinity by what is cut alone.
  llvm::Value *isNaN = b.CreateFCmpUNO(value, value);
  sum = b.CreateSelect(isNaN, b.CreateOr(bits, constant(0x00400000)), sum);
  llvm::Value *noExponent =
      b.CreateICmpEQ(b.CreateAnd(bits, constant(0x7f800000)), constant(0));
  sum =
      b.CreateSelect(noExponent, b.CreateAnd(bits, constant(0x80000000)), sum);
  auto *halves = llvm::VectorType::getTruncatedElementVectorType(integers);
  return b.CreateBitCast(b.CreateTrunc(b.CreateLShr(sum, 16), halves), type);
}

/// Takes the place of LLVM's rounding of 32 numbers to bf16, which calls a
/// library or takes two instructions for the work of one. To nearest even; NaN
/// stays NaN, and denormal numbers become zero.
static void lowerRounding(llvm::Function &function, const TargetCpu &target) {
  llvm::LLVMContext &context = function.getContext();
  auto *columns =
      llvm::FixedVectorType::get(llvm::Type::getFloatTy(context), 32);
  auto *plane =
      llvm::FixedVectorType::get(llvm::Type::getBFloatTy(context), 32);
  for (llvm::Instruction &instruction :
       llvm::make_early_inc_range(llvm::instructions(function))) {
    if (!llvm::isa<llvm::FPTruncInst>(instruction) ||
        instruction.getOperand(0)->getType() != columns ||
        instruction.getType() != plane)
      continue;
    llvm::IRBuilder<> b(&instruction);
    llvm::Value *value = instruction.getOperand(0), *rounded;
    if (target.features & ENCAST_CPU_AVX512_BF16) {
      function.addFnAttr("target-features", "+avx512bf16");
      rounded = roundWithInstruction(b, value);
    } else {
      rounded = roundInIntegers(b, value, plane);
    }
    instruction.replaceAllUsesWith(rounded);
    instruction.eraseFromParent();
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
  for (llvm::Function &function : *code)
    lowerRounding(function, target);
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
