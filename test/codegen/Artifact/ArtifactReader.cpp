//===- ArtifactReader.cpp - readelf for artifacts, in tests ---------------===//

#define XXH_INLINE_ALL
#include "test/codegen/Artifact/ArtifactReader.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/MemoryBuffer.h"
#include <algorithm>
#include <cstddef>
#include <xxhash.h>

using namespace llvm;
using namespace llvm::object;

namespace encast {

struct ArtifactReader::Files {
  std::unique_ptr<MemoryBuffer> artifact, weights;
};

ArtifactReader::ArtifactReader() : files(new Files) {}
ArtifactReader::~ArtifactReader() = default;

namespace {

std::unique_ptr<MemoryBuffer> map(const std::string &path) {
  auto buffer = MemoryBuffer::getFile(path, /*IsText=*/false,
                                      /*RequiresNullTerminator=*/false);
  return buffer ? std::move(*buffer) : nullptr;
}

const uint8_t *bytesOf(const MemoryBuffer &buffer) {
  return reinterpret_cast<const uint8_t *>(buffer.getBufferStart());
}

} // namespace

std::string ArtifactReader::open(const std::string &path, bool hashBlobs) {
  files->artifact = map(path);
  if (!files->artifact)
    return "cannot read " + path;
  bytes = bytesOf(*files->artifact);
  size = files->artifact->getBufferSize();
  std::string error = readElf();
  if (error.empty())
    error = readDescriptor(path);
  if (error.empty())
    error = checkId();
  if (weights && hashBlobs)
    for (const encast_abi_blob &blob :
         table<encast_abi_blob>(descriptor->blobs))
      if (error.empty())
        error = checkBlob(blob);
  return error;
}

std::string ArtifactReader::readElf() {
  auto created = ELFFile<ELF64LE>::create(files->artifact->getBuffer());
  if (!created)
    return toString(created.takeError());
  const ELFFile<ELF64LE> &elf = *created;
  const ELF64LE::Ehdr &header = elf.getHeader();
  if (header.e_type != ELF::ET_DYN || header.e_machine != ELF::EM_X86_64)
    return "not a shared library for x86-64";
  if (header.e_shoff + header.e_shnum * uint64_t(header.e_shentsize) != size)
    return "the section table is not the end of the file";

  auto table = elf.sections();
  if (!table)
    return toString(table.takeError());
  bool exportsQuery = false;
  for (const ELF64LE::Shdr &from : *table) {
    auto name = elf.getSectionName(from);
    if (!name)
      return toString(name.takeError());
    sections.push_back({name->str(), from.sh_type, from.sh_flags, from.sh_addr,
                        from.sh_offset, from.sh_size, from.sh_addralign});
    if (from.sh_type != ELF::SHT_NOBITS &&
        (from.sh_offset > size || from.sh_size > size - from.sh_offset))
      return "section " + name->str() + " is not within the file";
    bool relocations = from.sh_type == ELF::SHT_RELA ||
                       from.sh_type == ELF::SHT_REL ||
                       from.sh_type == ELF::SHT_RELR;
    if (relocations && from.sh_size > 0)
      return "section " + name->str() + " has relocations";
    if (from.sh_type != ELF::SHT_SYMTAB && from.sh_type != ELF::SHT_DYNSYM)
      continue;
    auto names = elf.getStringTableForSymtab(from);
    auto entries = elf.symbols(&from);
    if (!names || !entries)
      return "unreadable symbols in " + name->str();
    for (const ELF64LE::Sym &entry : entries->drop_front()) {
      auto symbolName = entry.getName(*names);
      if (!symbolName)
        return toString(symbolName.takeError());
      ElfSymbol symbol = {symbolName->str(),
                          entry.getType(),
                          entry.getBinding(),
                          entry.getVisibility(),
                          entry.st_value,
                          entry.st_size,
                          entry.st_shndx != ELF::SHN_UNDEF};
      if (!symbol.defined)
        return "undefined symbol " + symbol.name;
      if (from.sh_type == ELF::SHT_SYMTAB) {
        symbols.push_back(symbol);
        continue;
      }
      if (symbol.name != ENCAST_QUERY_SYMBOL)
        return "exports " + symbol.name;
      exportsQuery = symbol.type == ELF::STT_FUNC && symbol.size > 0;
    }
  }
  if (!exportsQuery)
    return "does not export the query function";

  auto segments = elf.program_headers();
  if (!segments)
    return toString(segments.takeError());
  bool saysStack = false;
  for (const ELF64LE::Phdr &segment : *segments) {
    if (segment.p_type == ELF::PT_INTERP || segment.p_type == ELF::PT_TLS)
      return "has a segment of type " + std::to_string(segment.p_type);
    if ((segment.p_flags & ELF::PF_X) &&
        ((segment.p_flags & ELF::PF_W) || segment.p_type != ELF::PT_LOAD))
      return "has a segment or stack that is writable and executable";
    saysStack |= segment.p_type == ELF::PT_GNU_STACK;
  }
  if (!saysStack)
    return "does not say that the stack is not executable";

  auto dynamic = elf.dynamicEntries();
  if (!dynamic)
    return toString(dynamic.takeError());
  for (const ELF64LE::Dyn &entry : *dynamic)
    if (entry.d_tag == ELF::DT_NEEDED || entry.d_tag == ELF::DT_TEXTREL ||
        entry.d_tag == ELF::DT_INIT || entry.d_tag == ELF::DT_INIT_ARRAY)
      return "has the dynamic entry " + std::to_string(entry.d_tag);
  return "";
}

std::string ArtifactReader::readDescriptor(const std::string &path) {
  const ElfSection *found = section(ENCAST_DESCRIPTOR_SECTION);
  if (!found || found->type != ELF::SHT_PROGBITS ||
      found->flags != ELF::SHF_ALLOC)
    return "has no read-only section " ENCAST_DESCRIPTOR_SECTION;
  if (found->size < sizeof(encast_abi_descriptor) || found->offset % 8)
    return "the descriptor's section is too small or not aligned";
  descriptor =
      reinterpret_cast<const encast_abi_descriptor *>(bytes + found->offset);
  descriptorAddress = found->address;
  if (descriptor->magic != ENCAST_ABI_MAGIC ||
      descriptor->byte_order != ENCAST_ABI_BYTE_ORDER ||
      descriptor->abi_version != ENCAST_ABI_VERSION ||
      descriptor->header_bytes != sizeof(encast_abi_descriptor) ||
      descriptor->descriptor_bytes != found->size)
    return "the descriptor's first fields are wrong";

  auto fits = [&](encast_abi_table table, uint64_t rowBytes) {
    return table.offset % 8 == 0 && table.offset <= found->size &&
           table.count <= (found->size - table.offset) / rowBytes;
  };
  if (!fits(descriptor->outputs, sizeof(encast_abi_output)) ||
      !fits(descriptor->blobs, sizeof(encast_abi_blob)) ||
      !fits(descriptor->variants, sizeof(encast_abi_variant)))
    return "a table of the descriptor is out of range";
  const ElfSection *text = section(".text");
  for (const encast_abi_variant &variant :
       table<encast_abi_variant>(descriptor->variants)) {
    if (!fits(variant.slots, sizeof(encast_abi_slot)) ||
        !fits(variant.forms, sizeof(encast_abi_form)) ||
        !fits(variant.weights, sizeof(encast_abi_weight)) ||
        !fits(variant.steps, sizeof(encast_abi_step)) ||
        !fits(variant.calls, sizeof(encast_abi_call)))
      return "a table of a variant is out of range";
    for (const encast_abi_weight &weight :
         table<encast_abi_weight>(variant.weights))
      if (weight.blob >= descriptor->blobs.count)
        return "a weight names a blob that is not there";
    for (const encast_abi_call &call : table<encast_abi_call>(variant.calls)) {
      uint64_t address = descriptorAddress + call.function;
      if (!text || address < text->address ||
          address >= text->address + text->size)
        return "a call's function is not in .text";
    }
  }

  if (descriptor->weights_file) {
    if (section(ENCAST_WEIGHTS_SECTION))
      return "has a weights section beside a weights file";
    size_t slash = path.rfind('/');
    std::string folder =
        slash == std::string::npos ? "" : path.substr(0, slash + 1);
    std::string side = folder + string(descriptor->weights_file);
    files->weights = map(side);
    size_t table = descriptor->blobs.count * sizeof(encast_abi_blob);
    if (!files->weights ||
        files->weights->getBufferSize() != descriptor->weights_bytes + table)
      return "weights file " + side + " is missing or of another size";
    weights = bytesOf(*files->weights);
    if (memcmp(weights + descriptor->weights_bytes,
               reinterpret_cast<const uint8_t *>(descriptor) +
                   descriptor->blobs.offset,
               table))
      return "weights file " + side + " ends with another table of blobs";
  } else if (const ElfSection *inside = section(ENCAST_WEIGHTS_SECTION)) {
    if (inside->type != ELF::SHT_PROGBITS || inside->flags != 0 ||
        inside->alignment != 4096 || inside->offset % 4096 != 0 ||
        inside->size != descriptor->weights_bytes)
      return "the weights section is wrong";
    weights = bytes + inside->offset;
  }
  return "";
}

std::string ArtifactReader::checkId() const {
  std::vector<ElfSection> loaded;
  for (const ElfSection &each : sections)
    if ((each.flags & ELF::SHF_ALLOC) && each.type != ELF::SHT_NOBITS &&
        each.size > 0)
      loaded.push_back(each);
  std::sort(loaded.begin(), loaded.end(),
            [](const ElfSection &a, const ElfSection &b) {
              return a.address < b.address;
            });
  std::vector<uint8_t> contents;
  for (const ElfSection &each : loaded) {
    size_t start = contents.size();
    contents.insert(contents.end(), bytes + each.offset,
                    bytes + each.offset + each.size);
    if (each.name == ENCAST_DESCRIPTOR_SECTION)
      std::fill_n(contents.begin() + start +
                      offsetof(encast_abi_descriptor, artifact_id),
                  16, 0);
  }
  XXH128_hash_t hash = XXH3_128bits(contents.data(), contents.size());
  return hash.low64 == descriptor->artifact_id[0] &&
                 hash.high64 == descriptor->artifact_id[1]
             ? ""
             : "the artifact id is not the hash of the loaded sections";
}

std::string ArtifactReader::checkBlob(const encast_abi_blob &blob) const {
  if (blob.offset % ENCAST_ALIGNMENT != 0 ||
      blob.offset > descriptor->weights_bytes ||
      blob.size > descriptor->weights_bytes - blob.offset)
    return "a blob is not aligned or not within the weights";
  XXH128_hash_t hash = XXH3_128bits(weights + blob.offset, blob.size);
  return hash.low64 == blob.hash_low && hash.high64 == blob.hash_high
             ? ""
             : "the hash of a blob is wrong";
}

const ElfSection *ArtifactReader::section(const std::string &name) const {
  for (const ElfSection &each : sections)
    if (each.name == name)
      return &each;
  return nullptr;
}

const ElfSymbol *ArtifactReader::symbol(const std::string &name) const {
  for (const ElfSymbol &each : symbols)
    if (each.name == name)
      return &each;
  return nullptr;
}

const char *ArtifactReader::string(uint64_t offset) const {
  return offset ? reinterpret_cast<const char *>(descriptor) + offset : "";
}

std::vector<uint8_t> ArtifactReader::contents(const ElfSymbol &symbol) const {
  for (const ElfSection &each : sections)
    if ((each.flags & ELF::SHF_ALLOC) && symbol.address >= each.address &&
        symbol.address < each.address + each.size) {
      const uint8_t *first =
          bytes + each.offset + symbol.address - each.address;
      return std::vector<uint8_t>(first, first + symbol.size);
    }
  return {};
}

} // namespace encast
