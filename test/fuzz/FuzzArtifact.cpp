//===- FuzzArtifact.cpp - bytes that may be an artifact -------------------===//
///
/// \file
/// Most changes end at the artifact id, so it is made right and the bytes tried
/// again. Whatever is accepted must be safe to read as a whole.
//===----------------------------------------------------------------------===//

#include "runtime/src/Artifact.h"
#include "runtime/src/Elf.h"
#include "runtime/src/MemoryFormula.h"
#include <cstring>
#include <vector>

using namespace encast::runtime;

static void makeIdRight(std::vector<uint8_t> &bytes) {
  ElfFile elf;
  if (elf.parse(bytes.data(), bytes.size(), nullptr) != ENCAST_OK)
    return;
  const Elf64_Shdr *section = elf.findSection(ENCAST_DESCRIPTOR_SECTION);
  if (!section || section->sh_type != SHT_PROGBITS ||
      section->sh_size < sizeof(encast_abi_descriptor))
    return;
  Hash128 id = computeArtifactId(elf);
  uint8_t *place = bytes.data() + section->sh_offset +
                   offsetof(encast_abi_descriptor, artifact_id);
  memcpy(place, &id.low, 8);
  memcpy(place + 8, &id.high, 8);
}

/// Reads every string and table as the loader does.
static void readAll(const ArtifactView &view) {
  size_t characters = strlen(view.string(view->metadata));
  for (uint64_t v = 0; v < view->variants.count; ++v) {
    const encast_abi_variant &variant = view.variant(v);
    const auto *slots = view.rows<encast_abi_slot>(variant.slots);
    for (uint64_t i = 0; i < variant.slots.count; ++i)
      characters += strlen(view.string(slots[i].name));
    const auto *calls = view.rows<encast_abi_call>(variant.calls);
    for (uint64_t i = 0; i < variant.calls.count; ++i)
      characters += strlen(view.string(calls[i].kernel));
    std::vector<int64_t> colours(variant.colours);
    ArenaLayout layout;
    if (layOutArena(view, variant, view->max_tokens, 1, view.allOutputs(), 2,
                    colours.data(), layout))
      characters += layout.bytes == 0;
  }
  // The compiler must not drop the reads.
  __asm__ volatile("" : : "r"(characters));
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // A vector's memory is aligned, and ends where the file does.
  std::vector<uint8_t> bytes(data, data + size);
  ArtifactFile found;
  if (validateArtifact(bytes.data(), size, found, nullptr) == ENCAST_OK)
    readAll(found.view);
  makeIdRight(bytes);
  encast_error error = ENCAST_ERROR_INIT;
  if (validateArtifact(bytes.data(), size, found, &error) == ENCAST_OK)
    readAll(found.view);
  return 0;
}
