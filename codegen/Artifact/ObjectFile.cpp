//===- ObjectFile.cpp - relocatable objects in memory ---------------------===//

#include "codegen/Artifact/ObjectFile.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/MC/MCAsmBackend.h"
#include "llvm/MC/MCAsmInfo.h"
#include "llvm/MC/MCCodeEmitter.h"
#include "llvm/MC/MCContext.h"
#include "llvm/MC/MCExpr.h"
#include "llvm/MC/MCInstrInfo.h"
#include "llvm/MC/MCObjectFileInfo.h"
#include "llvm/MC/MCObjectWriter.h"
#include "llvm/MC/MCRegisterInfo.h"
#include "llvm/MC/MCSectionELF.h"
#include "llvm/MC/MCStreamer.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/MCSymbol.h"
#include "llvm/MC/MCTargetOptions.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/TargetSelect.h"
#include <cassert>

using namespace llvm;

namespace encast {
namespace {

const Target &x86Target() {
  static const Target *target = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    std::string error;
    const Target *found =
        TargetRegistry::lookupTarget(Triple("x86_64-unknown-linux-gnu"), error);
    assert(found && "this LLVM has no X86 target");
    return found;
  }();
  return *target;
}

StringRef bytesRef(const uint8_t *bytes, size_t size) {
  return StringRef(reinterpret_cast<const char *>(bytes), size);
}

/// An MC streamer into memory, with all that it needs.
class ObjectEmitter {
public:
  ObjectEmitter()
      : target(x86Target()), registers(target.createMCRegInfo(triple)),
        asmInfo(target.createMCAsmInfo(*registers, triple, options)),
        instructions(target.createMCInstrInfo()),
        subtarget(target.createMCSubtargetInfo(triple, "x86-64", "")),
        context(triple, asmInfo.get(), registers.get(), subtarget.get(),
                /*Mgr=*/nullptr, &options),
        fileInfo(target.createMCObjectFileInfo(context, /*PIC=*/true)) {
    context.setObjectFileInfo(fileInfo.get());
    std::unique_ptr<MCAsmBackend> backend(
        target.createMCAsmBackend(*subtarget, *registers, options));
    std::unique_ptr<MCObjectWriter> writer =
        backend->createObjectWriter(stream);
    std::unique_ptr<MCCodeEmitter> codeEmitter(
        target.createMCCodeEmitter(*instructions, context));
    streamer.reset(target.createMCObjectStreamer(
        triple, context, std::move(backend), std::move(writer),
        std::move(codeEmitter), *subtarget));
    streamer->initSections(/*NoExecStack=*/true, *subtarget);
  }

  void beginSection(const char *name, unsigned flags) {
    streamer->switchSection(
        context.getELFSection(name, ELF::SHT_PROGBITS, flags));
    streamer->emitValueToAlignment(Align(ENCAST_ALIGNMENT));
  }

  /// Starts a function in .text.
  MCSymbol *beginFunction(const std::string &name, bool hidden) {
    streamer->switchSection(fileInfo->getTextSection());
    streamer->emitCodeAlignment(Align(ENCAST_ALIGNMENT), subtarget.get());
    MCSymbol *symbol = context.getOrCreateSymbol(name);
    streamer->emitSymbolAttribute(symbol, MCSA_Global);
    if (hidden)
      streamer->emitSymbolAttribute(symbol, MCSA_Hidden);
    streamer->emitSymbolAttribute(symbol, MCSA_ELF_TypeFunction);
    streamer->emitLabel(symbol);
    return symbol;
  }

  void endFunction(MCSymbol *symbol) {
    streamer->emitELFSize(symbol, distance(label(), symbol));
  }

  void bytes(const uint8_t *from, size_t size) {
    streamer->emitBytes(bytesRef(from, size));
  }

  MCSymbol *symbol(const std::string &name) {
    return context.getOrCreateSymbol(name);
  }

  /// A temporary symbol here.
  MCSymbol *label() {
    MCSymbol *symbol = context.createTempSymbol();
    streamer->emitLabel(symbol);
    return symbol;
  }

  const MCExpr *distance(MCSymbol *to, MCSymbol *from) {
    return MCBinaryExpr::createSub(MCSymbolRefExpr::create(to, context),
                                   MCSymbolRefExpr::create(from, context),
                                   context);
  }

  std::vector<uint8_t> finish() {
    streamer->finish();
    assert(!context.hadError());
    return std::vector<uint8_t>(object.begin(), object.end());
  }

  Triple triple{"x86_64-unknown-linux-gnu"};
  MCTargetOptions options;
  const Target &target;
  std::unique_ptr<MCRegisterInfo> registers;
  std::unique_ptr<MCAsmInfo> asmInfo;
  std::unique_ptr<MCInstrInfo> instructions;
  std::unique_ptr<MCSubtargetInfo> subtarget;
  MCContext context;
  std::unique_ptr<MCObjectFileInfo> fileInfo;
  SmallString<0> object;
  raw_svector_ostream stream{object};
  std::unique_ptr<MCStreamer> streamer;
};

} // namespace

bool readObjectSymbols(const std::vector<uint8_t> &object,
                       ObjectSymbols &symbols, std::string &error) {
  using namespace llvm::object;
  auto fail = [&](Error reason) {
    error = "not a readable ELF64 object: " + toString(std::move(reason));
    return false;
  };
  Expected<ELFFile<ELF64LE>> file =
      ELFFile<ELF64LE>::create(bytesRef(object.data(), object.size()));
  if (!file)
    return fail(file.takeError());
  const ELF64LE::Ehdr &header = file->getHeader();
  if (!header.checkMagic() || header.getFileClass() != ELF::ELFCLASS64 ||
      header.getDataEncoding() != ELF::ELFDATA2LSB ||
      header.e_type != ELF::ET_REL || header.e_machine != ELF::EM_X86_64) {
    error = "not an ELF64 relocatable for x86-64";
    return false;
  }
  auto sections = file->sections();
  if (!sections)
    return fail(sections.takeError());
  for (const ELF64LE::Shdr &section : *sections) {
    if (section.sh_type != ELF::SHT_SYMTAB)
      continue;
    auto table = file->symbols(&section);
    if (!table)
      return fail(table.takeError());
    auto names = file->getStringTableForSymtab(section);
    if (!names)
      return fail(names.takeError());
    for (const ELF64LE::Sym &symbol : *table) {
      if (symbol.getBinding() == ELF::STB_LOCAL)
        continue;
      Expected<StringRef> name = symbol.getName(*names);
      if (!name)
        return fail(name.takeError());
      if (symbol.st_shndx == ELF::SHN_UNDEF)
        symbols.undefined.push_back(name->str());
      else if (symbol.getBinding() == ELF::STB_GLOBAL)
        symbols.defined.push_back(name->str());
    }
  }
  return true;
}

std::vector<uint8_t> emitKernelObject(const std::vector<KernelCode> &kernels) {
  ObjectEmitter emitter;
  for (const KernelCode &kernel : kernels) {
    MCSymbol *symbol = emitter.beginFunction(kernel.symbol, /*hidden=*/true);
    emitter.bytes(kernel.bytes.data(), kernel.bytes.size());
    emitter.endFunction(symbol);
  }
  return emitter.finish();
}

std::vector<uint8_t> emitDescriptorObject(const Descriptor &descriptor) {
  ObjectEmitter emitter;
  emitter.beginSection(ENCAST_DESCRIPTOR_SECTION, ELF::SHF_ALLOC);
  MCSymbol *start = emitter.symbol("encast_descriptor");
  emitter.streamer->emitLabel(start);
  size_t written = 0;
  for (const FunctionField &field : descriptor.functions) {
    emitter.bytes(descriptor.bytes.data() + written, field.offset - written);
    emitter.streamer->emitValue(
        emitter.distance(emitter.symbol(field.symbol), start), 8);
    written = field.offset + 8;
  }
  emitter.bytes(descriptor.bytes.data() + written,
                descriptor.bytes.size() - written);

  // abi_version < ENCAST_ABI_VERSION ? NULL : descriptor
  static_assert(ENCAST_ABI_VERSION < 128, "fits the compare below");
  const uint8_t lea[] = {0x48, 0x8d, 0x05}; // lea descriptor(%rip), %rax
  const uint8_t rest[] = {
      0x31, 0xc9,                     // xor   %ecx, %ecx
      0x83, 0xff, ENCAST_ABI_VERSION, // cmp   $version, %edi
      0x48, 0x0f, 0x42,
      0xc1, // cmovb %rcx, %rax
      0xc3, // ret
  };
  MCSymbol *query = emitter.beginFunction(ENCAST_QUERY_SYMBOL,
                                          /*hidden=*/false);
  emitter.bytes(lea, sizeof(lea));
  MCSymbol *next = emitter.context.createTempSymbol();
  emitter.streamer->emitValue(emitter.distance(start, next), 4);
  emitter.streamer->emitLabel(next);
  emitter.bytes(rest, sizeof(rest));
  emitter.endFunction(query);
  return emitter.finish();
}

} // namespace encast
