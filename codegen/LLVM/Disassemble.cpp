//===- Disassemble.cpp - machine code as text -----------------------------===//
///
/// \file
/// Listings of kernels, through LLVM's MC disassembler.
//===----------------------------------------------------------------------===//

#include "codegen/LLVM/EmitObject.h"
#include "codegen/LLVM/Triple.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/MC/MCAsmInfo.h"
#include "llvm/MC/MCContext.h"
#include "llvm/MC/MCDisassembler/MCDisassembler.h"
#include "llvm/MC/MCInst.h"
#include "llvm/MC/MCInstPrinter.h"
#include "llvm/MC/MCInstrInfo.h"
#include "llvm/MC/MCRegisterInfo.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/MCTargetOptions.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/TargetSelect.h"

using namespace llvm;

bool encast::disassemble(ArrayRef<uint8_t> bytes, const TargetCpu &target,
                         raw_ostream &out, std::string &error) {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86Disassembler();
  Triple triple(kTriple);
  const Target *backend = TargetRegistry::lookupTarget(triple, error);
  if (!backend)
    return false;
  std::unique_ptr<MCRegisterInfo> registers(backend->createMCRegInfo(triple));
  std::unique_ptr<MCAsmInfo> syntax(
      backend->createMCAsmInfo(*registers, triple, MCTargetOptions()));
  std::unique_ptr<MCSubtargetInfo> cpu(
      backend->createMCSubtargetInfo(triple, target.llvmName, /*Features=*/""));
  std::unique_ptr<MCInstrInfo> instructions(backend->createMCInstrInfo());
  MCContext context(triple, syntax.get(), registers.get(), cpu.get());
  std::unique_ptr<MCDisassembler> decoder(
      backend->createMCDisassembler(*cpu, context));
  std::unique_ptr<MCInstPrinter> printer(backend->createMCInstPrinter(
      triple, kIntelSyntax, *syntax, *instructions, *registers));
  printer->setPrintImmHex(true);
  printer->setPrintBranchImmAsAddress(true);

  for (uint64_t offset = 0, size = 1; offset < bytes.size(); offset += size) {
    MCInst instruction;
    out << format("%6" PRIx64 ":", offset);
    MCDisassembler::DecodeStatus status = decoder->getInstruction(
        instruction, size, bytes.slice(offset), offset, nulls());
    if (status == MCDisassembler::Success) {
      // On x86 a branch counts from the instruction behind it.
      printer->printInst(&instruction, offset + size, "", *cpu, out);
    } else {
      size = 1;
      out << format("\t.byte\t0x%02x", bytes[offset]);
    }
    out << "\n";
  }
  return true;
}
