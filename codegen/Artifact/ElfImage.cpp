//===- ElfImage.cpp - the linked library in memory ------------------------===//

#define XXH_INLINE_ALL
#include "codegen/Artifact/ElfImage.h"
#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstring>
#include <elf.h>
#include <xxhash.h>

namespace encast {
namespace {

Elf64_Ehdr readHeader(const std::vector<uint8_t> &image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image.data(), sizeof(header));
  return header;
}

std::vector<Elf64_Shdr> readSections(const std::vector<uint8_t> &image) {
  Elf64_Ehdr header = readHeader(image);
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  std::memcpy(sections.data(), image.data() + header.e_shoff,
              sections.size() * sizeof(Elf64_Shdr));
  return sections;
}

bool hasName(const std::vector<uint8_t> &image, const Elf64_Shdr &section,
             const Elf64_Shdr &names, const char *name) {
  return std::strcmp(reinterpret_cast<const char *>(
                         image.data() + names.sh_offset + section.sh_name),
                     name) == 0;
}

/// As encast_abi.h says, of an image whose id is zero.
XXH128_hash_t hashOfLoadedSections(const std::vector<uint8_t> &image) {
  std::vector<Elf64_Shdr> loaded;
  for (const Elf64_Shdr &section : readSections(image))
    if ((section.sh_flags & SHF_ALLOC) && section.sh_type != SHT_NOBITS)
      loaded.push_back(section);
  // Of sections at one address all but one are empty.
  std::sort(loaded.begin(), loaded.end(),
            [](const Elf64_Shdr &a, const Elf64_Shdr &b) {
              return a.sh_addr < b.sh_addr;
            });
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  for (const Elf64_Shdr &section : loaded)
    XXH3_128bits_update(&state, image.data() + section.sh_offset,
                        section.sh_size);
  return XXH3_128bits_digest(&state);
}

} // namespace

ElfImage::ElfImage(std::vector<uint8_t> library) : image(std::move(library)) {
  assert(readHeader(image).e_shoff +
                 readHeader(image).e_shnum * sizeof(Elf64_Shdr) ==
             image.size() &&
         "the linker ends a library with its section table");
}

uint64_t ElfImage::sizeWithoutTable() const {
  return readHeader(image).e_shoff;
}

void ElfImage::setDescriptor(const Descriptor &descriptor) {
  std::vector<Elf64_Shdr> sections = readSections(image);
  const Elf64_Shdr &names = sections[readHeader(image).e_shstrndx];
  uint8_t *linked = nullptr;
  for (const Elf64_Shdr &section : sections)
    if (hasName(image, section, names, ENCAST_DESCRIPTOR_SECTION) &&
        section.sh_size == descriptor.bytes.size())
      linked = image.data() + section.sh_offset;
  assert(linked && "the linker keeps the descriptor's section as it is");
  std::vector<uint8_t> final = descriptor.bytes;
  for (const FunctionField &field : descriptor.functions)
    std::memcpy(final.data() + field.offset, linked + field.offset, 8);
  std::memcpy(linked, final.data(), final.size());

  XXH128_hash_t hash = hashOfLoadedSections(image);
  uint64_t id[2] = {hash.low64, hash.high64};
  std::memcpy(linked + offsetof(encast_abi_descriptor, artifact_id), id,
              sizeof(id));
}

std::vector<uint8_t> ElfImage::addWeightsSection(uint64_t weightsOffset,
                                                 uint64_t weightsBytes,
                                                 uint64_t tailOffset) {
  Elf64_Ehdr header = readHeader(image);
  std::vector<Elf64_Shdr> sections = readSections(image);
  Elf64_Shdr &names = sections[header.e_shstrndx];
  Elf64_Shdr weights = {};
  weights.sh_name = uint32_t(names.sh_size);
  weights.sh_type = SHT_PROGBITS;
  weights.sh_offset = weightsOffset;
  weights.sh_size = weightsBytes;
  weights.sh_addralign = kWeightsAlignment;

  const uint8_t *oldNames = image.data() + names.sh_offset;
  std::vector<uint8_t> tail(oldNames, oldNames + names.sh_size);
  const char *name = ENCAST_WEIGHTS_SECTION;
  tail.insert(tail.end(), name, name + sizeof(ENCAST_WEIGHTS_SECTION));
  names.sh_offset = tailOffset;
  names.sh_size = tail.size();
  sections.push_back(weights);

  image.resize(header.e_shoff);
  header.e_shoff = alignedTo(tailOffset + tail.size(), alignof(Elf64_Shdr));
  header.e_shnum = uint16_t(sections.size());
  std::memcpy(image.data(), &header, sizeof(header));
  size_t tableOffset = header.e_shoff - tailOffset;
  tail.resize(tableOffset + sections.size() * sizeof(Elf64_Shdr));
  std::memcpy(tail.data() + tableOffset, sections.data(),
              sections.size() * sizeof(Elf64_Shdr));
  return tail;
}

} // namespace encast
