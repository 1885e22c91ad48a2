//===- Elf.cpp - checked view of an ELF shared library --------------------===//

#include "runtime/src/Elf.h"
#include "runtime/src/Errors.h"
#include <algorithm>
#include <cstring>

namespace encast::runtime {

constexpr uint64_t kPage = 4096;

/// Whether [offset, offset + count) lies in [0, size), without overflow.
static bool fits(uint64_t offset, uint64_t count, uint64_t size) {
  return offset <= size && count <= size - offset;
}

encast_status ElfFile::parse(const uint8_t *fileBytes, uint64_t fileSize,
                             encast_error *error) {
  bytes = fileBytes;
  size = fileSize;
  encast_status status = checkHeader(error);
  if (status == ENCAST_OK)
    status = checkSegments(error);
  if (status == ENCAST_OK)
    status = checkSections(error);
  return status;
}

encast_status ElfFile::checkHeader(encast_error *error) {
  if (size < sizeof(Elf64_Ehdr))
    return fileTooSmall(error, size, sizeof(Elf64_Ehdr));
  header = reinterpret_cast<const Elf64_Ehdr *>(bytes);

  uint32_t magic, expectedMagic;
  memcpy(&magic, header->e_ident, sizeof(magic));
  memcpy(&expectedMagic, ELFMAG, sizeof(expectedMagic));
  struct {
    const char *name;
    uint64_t given, expected;
  } fields[] = {
      {"the magic number", magic, expectedMagic},
      {"EI_CLASS", header->e_ident[EI_CLASS], ELFCLASS64},
      {"EI_DATA", header->e_ident[EI_DATA], ELFDATA2LSB},
      {"EI_VERSION", header->e_ident[EI_VERSION], EV_CURRENT},
      {"e_type", header->e_type, ET_DYN},
      {"e_machine", header->e_machine, EM_X86_64},
      {"e_version", header->e_version, EV_CURRENT},
      {"e_phentsize", header->e_phentsize, sizeof(Elf64_Phdr)},
      {"e_shentsize", header->e_shentsize, sizeof(Elf64_Shdr)},
      {"alignment of e_phoff", header->e_phoff % 8, 0},
      {"alignment of e_shoff", header->e_shoff % 8, 0},
  };
  for (const auto &field : fields)
    if (field.given != field.expected)
      return badElfField(error, field.name, field.given, field.expected);

  uint64_t tableBytes = header->e_shnum * sizeof(Elf64_Shdr);
  if (!fits(header->e_shoff, tableBytes, size) ||
      header->e_shoff + tableBytes != size)
    return tableNotAtEnd(error, header->e_shoff + tableBytes, size);
  if (header->e_shnum > kMostSections)
    return badElfField(error, "e_shnum", header->e_shnum, kMostSections);
  uint64_t segmentBytes = header->e_phnum * sizeof(Elf64_Phdr);
  if (!fits(header->e_phoff, segmentBytes, size))
    return outsideFile(error, "segment table", 0, header->e_phoff, segmentBytes,
                       size);
  segments = reinterpret_cast<const Elf64_Phdr *>(bytes + header->e_phoff);
  sections = reinterpret_cast<const Elf64_Shdr *>(bytes + header->e_shoff);
  return ENCAST_OK;
}

/// The PT_LOAD segment that loads [address, address + count) from the file.
const Elf64_Phdr *ElfFile::findLoad(uint64_t address, uint64_t count) const {
  for (uint64_t i = 0; i < header->e_phnum; ++i) {
    const Elf64_Phdr &load = segments[i];
    if (load.p_type == PT_LOAD && address >= load.p_vaddr &&
        fits(address - load.p_vaddr, count, load.p_memsz))
      return &load;
  }
  return nullptr;
}

encast_status ElfFile::checkSegments(encast_error *error) const {
  uint64_t loads = 0, dynamics = 0, endOfLoads = 0;
  for (uint64_t i = 0; i < header->e_phnum; ++i) {
    const Elf64_Phdr &segment = segments[i];
    if (!fits(segment.p_offset, segment.p_filesz, size))
      return outsideFile(error, "segment", i, segment.p_offset,
                         segment.p_filesz, size);
    if (segment.p_vaddr + segment.p_memsz < segment.p_vaddr)
      return badSegment(error, i, "wraps around the address space");
    if (segment.p_filesz > segment.p_memsz)
      return badSegment(error, i, "is larger in the file than in memory");
    dynamics += segment.p_type == PT_DYNAMIC;
    if (segment.p_type != PT_LOAD)
      continue;
    if (!(segment.p_flags & PF_R))
      return badSegment(error, i, "cannot be read");
    if (segment.p_align & (segment.p_align - 1))
      return badSegment(error, i, "has an alignment that is no power of two");
    if ((segment.p_vaddr - segment.p_offset) % kPage)
      return badSegment(error, i, "lies differently in pages and file");
    if (loads++ && segment.p_vaddr < endOfLoads)
      return badSegment(error, i, "overlaps the segment before it");
    endOfLoads = segment.p_vaddr + segment.p_memsz;
  }
  if (!loads)
    return badElfField(error, "number of PT_LOAD segments", 0, 1);
  if (dynamics != 1)
    return badElfField(error, "number of PT_DYNAMIC segments", dynamics, 1);
  for (uint64_t i = 0; i < header->e_phnum; ++i)
    if (encast_status status = checkSegment(i, error))
      return status;
  return ENCAST_OK;
}

encast_status ElfFile::checkSegment(uint64_t index, encast_error *error) const {
  const Elf64_Phdr &segment = segments[index];
  switch (segment.p_type) {
  case PT_NULL:
  case PT_LOAD:
  case PT_GNU_STACK:
    return ENCAST_OK;
  case PT_DYNAMIC:
  case PT_GNU_EH_FRAME:
  case PT_GNU_PROPERTY:
  case PT_GNU_RELRO:
  case PT_NOTE:
  case PT_PHDR:
    break;
  default:
    return badSegment(error, index, "is of a type that artifacts do not have");
  }
  // The loader protects whole pages, so the last one may be empty from there
  // on.
  uint64_t memory = segment.p_memsz;
  if (segment.p_type == PT_GNU_RELRO)
    memory -= std::min(memory, (segment.p_vaddr + memory) % kPage);
  const Elf64_Phdr *load = findLoad(segment.p_vaddr, memory);
  if (!load ||
      segment.p_vaddr - load->p_vaddr != segment.p_offset - load->p_offset ||
      !fits(segment.p_offset - load->p_offset, segment.p_filesz,
            load->p_filesz))
    return badSegment(error, index, "is not part of a loaded segment");
  if (segment.p_type == PT_GNU_RELRO && !(load->p_flags & PF_W))
    return badSegment(error, index, "protects memory that is not writable");
  if (segment.p_type == PT_PHDR && segment.p_offset != header->e_phoff)
    return badSegment(error, index, "is not the segment table");
  if (segment.p_type == PT_DYNAMIC)
    return checkDynamic(index, error);
  return ENCAST_OK;
}

encast_status ElfFile::checkDynamic(uint64_t index, encast_error *error) const {
  const Elf64_Phdr &segment = segments[index];
  if (segment.p_offset % 8)
    return badSegment(error, index, "is not aligned to 8 bytes");
  auto *entry = reinterpret_cast<const Elf64_Dyn *>(bytes + segment.p_offset);
  uint64_t entries = segment.p_filesz / sizeof(Elf64_Dyn);
  auto *end = entry + entries;
  for (; entry != end && entry->d_tag != DT_NULL; ++entry)
    if (entry->d_tag == DT_NEEDED)
      return libraryNeeded(error);
  if (entry == end)
    return badSegment(error, index, "has no end mark (DT_NULL)");
  return ENCAST_OK;
}

encast_status ElfFile::checkSections(encast_error *error) {
  uint64_t nameIndex = header->e_shstrndx;
  if (nameIndex >= header->e_shnum || sections[nameIndex].sh_type != SHT_STRTAB)
    return badElfField(error, "type of section e_shstrndx", nameIndex,
                       SHT_STRTAB);
  for (uint64_t i = 0; i < header->e_shnum; ++i) {
    const Elf64_Shdr &section = sections[i];
    if (section.sh_type != SHT_NULL && section.sh_type != SHT_NOBITS &&
        !fits(section.sh_offset, section.sh_size, size))
      return outsideFile(error, "section", i, section.sh_offset,
                         section.sh_size, size);
  }
  const Elf64_Shdr &nameTable = sections[nameIndex];
  names = reinterpret_cast<const char *>(contents(nameTable));
  if (!nameTable.sh_size || names[nameTable.sh_size - 1])
    return badSection(error, nameIndex, "of names does not end with NUL");
  for (uint64_t i = 0; i < header->e_shnum; ++i) {
    const Elf64_Shdr &section = sections[i];
    if (section.sh_name >= nameTable.sh_size)
      return badSection(error, i, "has a name outside of the name table");
    if (section.sh_type != SHT_NULL && (section.sh_flags & SHF_ALLOC) &&
        section.sh_size)
      if (encast_status status = checkLoadedSection(i, error))
        return status;
  }
  return ENCAST_OK;
}

encast_status ElfFile::checkLoadedSection(uint64_t index,
                                          encast_error *error) const {
  const Elf64_Shdr &section = sections[index];
  const Elf64_Phdr *load = findLoad(section.sh_addr, section.sh_size);
  if (!load)
    return badSection(error, index, "is not part of a loaded segment");
  if (section.sh_type != SHT_NOBITS &&
      (section.sh_addr - load->p_vaddr != section.sh_offset - load->p_offset ||
       !fits(section.sh_offset - load->p_offset, section.sh_size,
             load->p_filesz)))
    return badSection(error, index, "lies differently in memory and file");
  bool writes = section.sh_flags & SHF_WRITE;
  bool runs = section.sh_flags & SHF_EXECINSTR;
  if ((writes && !(load->p_flags & PF_W)) || (runs && !(load->p_flags & PF_X)))
    return badSection(error, index, "lacks rights that its flags ask for");
  return ENCAST_OK;
}

const Elf64_Shdr *ElfFile::findSection(const char *name) const {
  for (uint64_t i = 1; i < header->e_shnum; ++i)
    if (sections[i].sh_type != SHT_NULL && !strcmp(sectionName(i), name))
      return &sections[i];
  return nullptr;
}

bool ElfFile::sharesBytes(uint64_t index) const {
  const Elf64_Shdr &section = sections[index];
  if (section.sh_offset + section.sh_size > header->e_shoff)
    return true;
  for (uint64_t i = 0; i < header->e_shnum; ++i) {
    const Elf64_Shdr &other = sections[i];
    if (i != index && other.sh_type != SHT_NULL &&
        other.sh_type != SHT_NOBITS &&
        section.sh_offset < other.sh_offset + other.sh_size &&
        other.sh_offset < section.sh_offset + section.sh_size)
      return true;
  }
  return false;
}

bool ElfFile::isCode(uint64_t address) const {
  for (uint64_t i = 1; i < header->e_shnum; ++i) {
    const Elf64_Shdr &section = sections[i];
    if (section.sh_type == SHT_PROGBITS && (section.sh_flags & SHF_ALLOC) &&
        (section.sh_flags & SHF_EXECINSTR) && address >= section.sh_addr &&
        address - section.sh_addr < section.sh_size)
      return true;
  }
  return false;
}

} // namespace encast::runtime
