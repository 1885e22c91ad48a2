//===- Elf.h - checked view of an ELF shared library ------------*- C++ -*-===//
///
/// \file
/// dlopen trusts its file: most truncated or altered libraries kill the
/// process. So all that the dynamic loader will follow in the headers is
/// checked here first; what it follows in the sections is covered by the
/// artifact id.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_RUNTIME_SRC_ELF_H
#define ENCAST_RUNTIME_SRC_ELF_H

#include "encast.h"
#include <cstdint>
#include <elf.h>

namespace encast::runtime {

/// A little-endian x86-64 ELF shared library in memory, aligned to 8 bytes. The
/// bytes belong to the caller.
class ElfFile {
public:
  /// Most sections that an artifact may have.
  static constexpr uint64_t kMostSections = 1024;

  /// Checks that every header, segment and section lies inside the file, that
  /// sections in memory agree with the segments that load them, that the file
  /// ends with the section table and that no library is needed.
  /// Errors: BAD_ARTIFACT.
  encast_status parse(const uint8_t *bytes, uint64_t size, encast_error *error);

  uint64_t sectionCount() const { return header->e_shnum; }
  const Elf64_Shdr &section(uint64_t index) const { return sections[index]; }
  const char *sectionName(uint64_t index) const {
    return names + sections[index].sh_name;
  }
  /// The first section of this name, or null.
  const Elf64_Shdr *findSection(const char *name) const;
  const uint8_t *contents(const Elf64_Shdr &section) const {
    return bytes + section.sh_offset;
  }
  /// Whether a section shares bytes of the file with another one or with the
  /// section table.
  bool sharesBytes(uint64_t index) const;
  /// Whether `address` lies in a section of loaded code.
  bool isCode(uint64_t address) const;

private:
  encast_status checkHeader(encast_error *error);
  encast_status checkSections(encast_error *error);
  encast_status checkLoadedSection(uint64_t index, encast_error *error) const;
  encast_status checkSegments(encast_error *error) const;
  encast_status checkSegment(uint64_t index, encast_error *error) const;
  encast_status checkDynamic(uint64_t index, encast_error *error) const;
  const Elf64_Phdr *findLoad(uint64_t address, uint64_t bytes) const;

  const uint8_t *bytes = nullptr;
  uint64_t size = 0;
  const Elf64_Ehdr *header = nullptr;
  const Elf64_Phdr *segments = nullptr;
  const Elf64_Shdr *sections = nullptr;
  const char *names = nullptr;
};

} // namespace encast::runtime

#endif // ENCAST_RUNTIME_SRC_ELF_H
