//===- Validate.cpp - check an artifact before it is loaded ---------------===//

#include "runtime/src/Artifact.h"
#include "runtime/src/Elf.h"
#include "runtime/src/Errors.h"
#include "runtime/src/MappedFile.h"
#include <algorithm>
#include <cstring>

namespace encast::runtime {
namespace {

constexpr uint64_t kMostInt32 = INT32_MAX;
constexpr uint64_t kMostInt64 = INT64_MAX;
constexpr uint64_t kMostHeads = 65536;
constexpr uint64_t kMostLayers = 65536;

bool hasContents(const Elf64_Shdr &section) {
  return (section.sh_flags & SHF_ALLOC) && section.sh_type != SHT_NOBITS &&
         section.sh_type != SHT_NULL;
}

/// The loaded section with contents that follows `previous` in the order of
/// addresses (and of indices at one address); null behind the last.
const Elf64_Shdr *nextInMemory(const ElfFile &elf, const Elf64_Shdr *previous) {
  const Elf64_Shdr *next = nullptr;
  for (uint64_t i = 1; i < elf.sectionCount(); ++i) {
    const Elf64_Shdr &section = elf.section(i);
    bool behind = !previous || section.sh_addr > previous->sh_addr ||
                  (section.sh_addr == previous->sh_addr && &section > previous);
    if (hasContents(section) && behind &&
        (!next || section.sh_addr < next->sh_addr))
      next = &section;
  }
  return next;
}

/// Checks the descriptor's tables. Each function returns the first failure.
class DescriptorChecker {
public:
  DescriptorChecker(const ElfFile &elf, const Elf64_Shdr &section,
                    encast_error *error)
      : elf(elf), section(section), error(error),
        base(reinterpret_cast<const char *>(elf.contents(section))),
        descriptor(*reinterpret_cast<const encast_abi_descriptor *>(base)),
        view(&descriptor) {}

  encast_status checkVersion();
  encast_status checkModel();
  encast_status checkOutputs();
  encast_status checkBlobs();
  encast_status checkVariants();

private:
  encast_status checkRange(const char *what, int64_t index, const char *field,
                           uint64_t value, uint64_t least, uint64_t most) {
    if (value < least || value > most)
      return badDescriptorField(error, what, index, field, value, least, most);
    return ENCAST_OK;
  }
  encast_status checkString(const char *what, int64_t index, const char *field,
                            uint64_t offset) {
    if (offset < sizeof(encast_abi_descriptor) || offset > lastNul)
      return badDescriptorString(error, what, index, field, offset);
    return ENCAST_OK;
  }
  template <typename Row>
  encast_status checkTable(const char *name, const encast_abi_table &table) {
    uint64_t bytes = descriptor.descriptor_bytes;
    if (table.offset % 8 || table.offset > bytes ||
        table.count > (bytes - table.offset) / sizeof(Row))
      return badDescriptorTable(error, name, table.offset, table.count, bytes);
    return ENCAST_OK;
  }
  /// A mask that names at least one output, and none that is not there.
  encast_status checkOutputMask(const char *what, int64_t index,
                                uint64_t outputs) {
    return checkRange(what, index, "outputs", outputs, 1, view.allOutputs());
  }
  encast_status checkVariant(const encast_abi_variant &variant, uint64_t index);
  encast_status checkSlots(const encast_abi_variant &variant);
  encast_status checkForms(const encast_abi_variant &variant);
  encast_status checkWeights(const encast_abi_variant &variant);
  encast_status checkSteps(const encast_abi_variant &variant);
  encast_status checkCalls(const encast_abi_variant &variant);

  const ElfFile &elf;
  const Elf64_Shdr &section;
  encast_error *error;
  const char *base;
  const encast_abi_descriptor &descriptor;
  ArtifactView view;
  /// Place of the last NUL byte: strings that start up to there do end.
  uint64_t lastNul = 0;
};

encast_status DescriptorChecker::checkVersion() {
  if (descriptor.magic != ENCAST_ABI_MAGIC)
    return badMagic(error, descriptor.magic, ENCAST_ABI_MAGIC);
  if (descriptor.byte_order != ENCAST_ABI_BYTE_ORDER)
    return badByteOrder(error, descriptor.byte_order);
  if (descriptor.abi_version < ENCAST_ABI_OLDEST ||
      descriptor.abi_version > ENCAST_ABI_VERSION)
    return otherAbiVersion(error, descriptor.abi_version, ENCAST_ABI_OLDEST,
                           ENCAST_ABI_VERSION);
  if (uint64_t unknown =
          descriptor.required_features & ~uint64_t(ENCAST_FEATURES_KNOWN))
    return unknownFeatures(error, unknown);
  ENCAST_TRY(checkRange("header", -1, "header_bytes", descriptor.header_bytes,
                        sizeof(descriptor), sizeof(descriptor)));
  return checkRange("header", -1, "descriptor_bytes",
                    descriptor.descriptor_bytes, sizeof(descriptor),
                    section.sh_size);
}

encast_status DescriptorChecker::checkModel() {
  const void *nul = memrchr(base, 0, descriptor.descriptor_bytes);
  lastNul = nul ? static_cast<const char *>(nul) - base : 0;
  ENCAST_TRY(checkRange("model", -1, "vocabulary", descriptor.vocabulary, 1,
                        kMostInt32));
  ENCAST_TRY(checkRange("model", -1, "max_tokens", descriptor.max_tokens, 1,
                        kMostInt32));
  ENCAST_TRY(checkRange("model", -1, "token_types", descriptor.token_types, 0,
                        kMostInt32));
  if (descriptor.pad_id != -1)
    ENCAST_TRY(checkRange("model", -1, "pad_id", descriptor.pad_id, 0,
                          descriptor.vocabulary - 1));
  ENCAST_TRY(
      checkRange("model", -1, "hidden", descriptor.hidden, 1, kMostInt32));
  ENCAST_TRY(
      checkRange("model", -1, "layers", descriptor.layers, 0, kMostLayers));
  ENCAST_TRY(checkString("model", -1, "family", descriptor.model));
  if (descriptor.metadata)
    ENCAST_TRY(checkString("model", -1, "metadata", descriptor.metadata));
  ENCAST_TRY(checkRange("model", -1, "weights_bytes", descriptor.weights_bytes,
                        0, kMostInt64));
  if (!descriptor.weights_file)
    return ENCAST_OK;
  ENCAST_TRY(checkString("model", -1, "weights_file", descriptor.weights_file));
  const char *name = view.string(descriptor.weights_file);
  if (!*name || strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, ".."))
    return badWeightsFileName(error, name);
  return ENCAST_OK;
}

encast_status DescriptorChecker::checkOutputs() {
  ENCAST_TRY(checkTable<encast_abi_output>("outputs", descriptor.outputs));
  uint64_t count = descriptor.outputs.count;
  ENCAST_TRY(checkRange("model", -1, "number of outputs", count, 1, 64));
  ENCAST_TRY(checkRange("model", -1, "default_output",
                        descriptor.default_output, 0, count - 1));
  for (uint64_t i = 0; i < count; ++i) {
    const encast_abi_output &output = view.output(i);
    ENCAST_TRY(checkString("output", i, "name", output.name));
    ENCAST_TRY(
        checkRange("output", i, "columns", output.columns, 1, kMostInt32));
    ENCAST_TRY(checkRange("output", i, "per_token", output.per_token, 0, 1));
    ENCAST_TRY(checkRange("output", i, "all_rows", output.all_rows, 0, 1));
    const char *name = view.string(output.name);
    for (uint64_t j = 0; j < i; ++j)
      if (!strcmp(name, view.string(view.output(j).name)))
        return repeatedOutput(error, name);
  }
  return ENCAST_OK;
}

encast_status DescriptorChecker::checkBlobs() {
  ENCAST_TRY(checkTable<encast_abi_blob>("blobs", descriptor.blobs));
  const auto *blobs = view.rows<encast_abi_blob>(descriptor.blobs);
  uint64_t bytes = descriptor.weights_bytes;
  for (uint64_t i = 0; i < descriptor.blobs.count; ++i) {
    ENCAST_TRY(checkRange("blob", i, "alignment of offset",
                          blobs[i].offset % ENCAST_ALIGNMENT, 0, 0));
    ENCAST_TRY(checkRange("blob", i, "offset", blobs[i].offset, 0, bytes));
    ENCAST_TRY(checkRange("blob", i, "size", blobs[i].size, 0,
                          bytes - blobs[i].offset));
  }
  return ENCAST_OK;
}

encast_status DescriptorChecker::checkVariants() {
  ENCAST_TRY(checkTable<encast_abi_variant>("variants", descriptor.variants));
  ENCAST_TRY(checkRange("model", -1, "number of variants",
                        descriptor.variants.count, 1, 64));
  for (uint64_t i = 0; i < descriptor.variants.count; ++i)
    ENCAST_TRY(checkVariant(view.variant(i), i));
  return ENCAST_OK;
}

encast_status DescriptorChecker::checkVariant(const encast_abi_variant &variant,
                                              uint64_t index) {
  ENCAST_TRY(checkString("variant", index, "name", variant.name));
  ENCAST_TRY(checkRange("variant", index, "block_bytes", variant.block_bytes, 0,
                        kMostInt64));
  ENCAST_TRY(checkRange("variant", index, "workspace_bytes",
                        variant.workspace_bytes, 0, kMostInt64));
  ENCAST_TRY(checkTable<encast_abi_slot>("slots", variant.slots));
  ENCAST_TRY(checkTable<encast_abi_form>("forms", variant.forms));
  ENCAST_TRY(checkTable<encast_abi_weight>("weights", variant.weights));
  ENCAST_TRY(checkTable<encast_abi_step>("steps", variant.steps));
  ENCAST_TRY(checkTable<encast_abi_call>("calls", variant.calls));
  ENCAST_TRY(checkRange("variant", index, "colours", variant.colours, 0,
                        variant.forms.count));
  ENCAST_TRY(checkSlots(variant));
  ENCAST_TRY(checkForms(variant));
  ENCAST_TRY(checkWeights(variant));
  ENCAST_TRY(checkSteps(variant));
  return checkCalls(variant);
}

encast_status DescriptorChecker::checkSlots(const encast_abi_variant &variant) {
  const auto *slots = view.rows<encast_abi_slot>(variant.slots);
  for (uint64_t i = 0; i < variant.slots.count; ++i) {
    ENCAST_TRY(checkString("slot", i, "name", slots[i].name));
    ENCAST_TRY(checkRange("slot", i, "kind", slots[i].kind, ENCAST_SLOT_ARENA,
                          ENCAST_SLOT_PICK));
    uint64_t rows = slots[i].kind == ENCAST_SLOT_ARENA    ? variant.colours
                    : slots[i].kind == ENCAST_SLOT_OUTPUT ? view->outputs.count
                                                          : 1;
    if (slots[i].index >= rows)
      return badDescriptorField(error, "slot", i, "index", slots[i].index, 0,
                                rows ? rows - 1 : 0);
  }
  return ENCAST_OK;
}

encast_status DescriptorChecker::checkForms(const encast_abi_variant &variant) {
  const auto *forms = view.rows<encast_abi_form>(variant.forms);
  for (uint64_t i = 0; i < variant.forms.count; ++i) {
    if (forms[i].colour >= variant.colours)
      return badDescriptorField(error, "form", i, "colour", forms[i].colour, 0,
                                variant.colours ? variant.colours - 1 : 0);
    ENCAST_TRY(checkOutputMask("form", i, forms[i].outputs));
    ENCAST_TRY(checkRange("form", i, "bytes_per_token",
                          forms[i].bytes_per_token, 0, kMostInt64));
    ENCAST_TRY(checkRange("form", i, "bytes_per_sequence",
                          forms[i].bytes_per_sequence, 0, kMostInt64));
    ENCAST_TRY(checkRange("form", i, "bytes", forms[i].bytes, 0, kMostInt64));
  }
  return ENCAST_OK;
}

encast_status
DescriptorChecker::checkWeights(const encast_abi_variant &variant) {
  const auto *weights = view.rows<encast_abi_weight>(variant.weights);
  for (uint64_t i = 0; i < variant.weights.count; ++i) {
    ENCAST_TRY(checkString("weight", i, "name", weights[i].name));
    if (weights[i].blob >= descriptor.blobs.count)
      return badDescriptorField(
          error, "weight", i, "blob", weights[i].blob, 0,
          descriptor.blobs.count ? descriptor.blobs.count - 1 : 0);
  }
  return ENCAST_OK;
}

encast_status DescriptorChecker::checkSteps(const encast_abi_variant &variant) {
  const auto *steps = view.rows<encast_abi_step>(variant.steps);
  const auto *calls = view.rows<encast_abi_call>(variant.calls);
  uint64_t nextCall = 0;
  for (uint64_t i = 0; i < variant.steps.count; ++i) {
    const encast_abi_step &step = steps[i];
    ENCAST_TRY(checkString("step", i, "name", step.name));
    ENCAST_TRY(checkRange("step", i, "domain", step.domain, 0,
                          ENCAST_DOMAIN_ATTENTION_RUNS));
    ENCAST_TRY(checkRange("step", i, "layer", step.layer, 0, view->layers));
    ENCAST_TRY(checkRange("step", i, "max_rows", step.max_rows, 1, kMostInt32));
    ENCAST_TRY(
        checkRange("step", i, "row_tile", step.row_tile, 1, step.max_rows));
    bool attends = step.domain >= ENCAST_DOMAIN_ATTENTION_TOKENS;
    ENCAST_TRY(checkRange("step", i, "heads", step.heads, attends ? 1 : 0,
                          attends ? kMostHeads : 0));
    ENCAST_TRY(checkRange("step", i, "first_call", step.first_call, nextCall,
                          nextCall));
    ENCAST_TRY(checkRange("step", i, "call_count", step.call_count, 0,
                          variant.calls.count - nextCall));
    bool tokens = step.domain == ENCAST_DOMAIN_TOKENS;
    for (uint32_t j = 0; j < step.call_count; ++j, ++nextCall)
      ENCAST_TRY(checkRange("call", nextCall, "per_head",
                            calls[nextCall].per_head, 0, tokens ? 1 : 0));
  }
  return checkRange("steps", -1, "number of calls", nextCall,
                    variant.calls.count, variant.calls.count);
}

encast_status DescriptorChecker::checkCalls(const encast_abi_variant &variant) {
  const auto *calls = view.rows<encast_abi_call>(variant.calls);
  for (uint64_t i = 0; i < variant.calls.count; ++i) {
    const encast_abi_call &call = calls[i];
    ENCAST_TRY(checkString("call", i, "name", call.name));
    ENCAST_TRY(checkString("call", i, "kernel", call.kernel));
    if (!elf.isCode(section.sh_addr + static_cast<uint64_t>(call.function)))
      return functionNotInCode(error, i, call.function);
    ENCAST_TRY(checkRange("call", i, "modes", call.modes, 1,
                          ENCAST_MODE_ALL | ENCAST_MODE_SELECTED));
    ENCAST_TRY(checkRange("call", i, "panels", call.panels, call.per_head,
                          call.per_head ? kMostHeads : kMostInt32));
    if (call.panels)
      ENCAST_TRY(
          checkRange("call", i, "panel_tile", call.panel_tile, 1, kMostInt32));
    ENCAST_TRY(checkRange("call", i, "window", call.window, 0, kMostInt32));
    ENCAST_TRY(checkOutputMask("call", i, call.outputs));
    ENCAST_TRY(checkRange("call", i, "flops_per_row", call.flops_per_row, 0,
                          kMostInt64));
    ENCAST_TRY(checkRange("call", i, "flops_per_row_and_key",
                          call.flops_per_row_and_key, 0, kMostInt64));
  }
  return ENCAST_OK;
}

encast_status findDescriptor(const ElfFile &elf, const Elf64_Shdr *&section,
                             encast_error *error) {
  section = elf.findSection(ENCAST_DESCRIPTOR_SECTION);
  if (!section)
    return sectionMissing(error, ENCAST_DESCRIPTOR_SECTION,
                          "this library is no Encast artifact");
  uint64_t index = section - &elf.section(0);
  if (section->sh_type != SHT_PROGBITS || !(section->sh_flags & SHF_ALLOC))
    return badSection(error, index, "with the descriptor is not loaded");
  if (section->sh_offset % 8)
    return badSection(error, index,
                      "with the descriptor is not aligned to 8 bytes");
  if (section->sh_size < sizeof(encast_abi_descriptor))
    return badSection(error, index,
                      "with the descriptor is smaller than its header");
  return ENCAST_OK;
}

encast_status findWeights(const ElfFile &elf, const ArtifactView &view,
                          uint64_t &offset, encast_error *error) {
  offset = 0;
  if (view->weights_file || !view->weights_bytes)
    return ENCAST_OK;
  const Elf64_Shdr *section = elf.findSection(ENCAST_WEIGHTS_SECTION);
  if (!section)
    return sectionMissing(
        error, ENCAST_WEIGHTS_SECTION,
        "the weights were stripped (GNU strip keeps them, "
        "llvm-strip --strip-all and --strip-sections do not)");
  uint64_t index = section - &elf.section(0);
  if (section->sh_type != SHT_PROGBITS)
    return badSection(error, index, "with the weights has no contents");
  if (section->sh_offset % ENCAST_ALIGNMENT)
    return badSection(error, index, "with the weights is not aligned");
  if (section->sh_size != view->weights_bytes)
    return weightsSize(error, ENCAST_WEIGHTS_SECTION, section->sh_size,
                       view->weights_bytes);
  // No hash covers the section table: its weights must not be something else.
  if (elf.sharesBytes(index))
    return badSection(error, index, "with the weights overlaps another one");
  offset = section->sh_offset;
  return ENCAST_OK;
}

} // namespace

Hash128 computeArtifactId(const ElfFile &elf) {
  const Elf64_Shdr *descriptor = elf.findSection(ENCAST_DESCRIPTOR_SECTION);
  constexpr uint64_t idBegin = offsetof(encast_abi_descriptor, artifact_id);
  constexpr uint64_t idEnd =
      idBegin + sizeof(encast_abi_descriptor::artifact_id);
  const uint8_t zeros[idEnd - idBegin] = {};
  Hasher hasher;
  for (const Elf64_Shdr *section = nextInMemory(elf, nullptr); section;
       section = nextInMemory(elf, section)) {
    const uint8_t *contents = elf.contents(*section);
    if (section == descriptor && section->sh_size >= idEnd) {
      hasher.add(contents, idBegin);
      hasher.add(zeros, sizeof(zeros));
      hasher.add(contents + idEnd, section->sh_size - idEnd);
    } else {
      hasher.add(contents, section->sh_size);
    }
  }
  return hasher.finish();
}

encast_status validateArtifact(const uint8_t *bytes, uint64_t size,
                               ArtifactFile &found, encast_error *error) {
  ElfFile elf;
  const Elf64_Shdr *section;
  ENCAST_TRY(elf.parse(bytes, size, error));
  ENCAST_TRY(findDescriptor(elf, section, error));
  DescriptorChecker checker(elf, *section, error);
  ENCAST_TRY(checker.checkVersion());
  found.view = ArtifactView(
      reinterpret_cast<const encast_abi_descriptor *>(elf.contents(*section)));
  if (!(computeArtifactId(elf) == found.view.id()))
    return artifactAltered(error);
  ENCAST_TRY(checker.checkModel());
  ENCAST_TRY(checker.checkOutputs());
  ENCAST_TRY(checker.checkBlobs());
  ENCAST_TRY(checker.checkVariants());
  ENCAST_TRY(findWeights(elf, found.view, found.weightsOffset, error));
  found.codeBytes = 0;
  for (uint64_t i = 1; i < elf.sectionCount(); ++i)
    if (hasContents(elf.section(i)) &&
        (elf.section(i).sh_flags & SHF_EXECINSTR))
      found.codeBytes += elf.section(i).sh_size;
  return ENCAST_OK;
}

encast_status checkWeightsFile(const OpenFile &file, const ArtifactView &view,
                               encast_error *error) {
  constexpr uint32_t withTable = 4;
  uint64_t start = view->weights_bytes;
  uint64_t bytes = view->abi_version < withTable
                       ? 0
                       : view->blobs.count * sizeof(encast_abi_blob);
  if (file.size() != start + bytes)
    return weightsSize(error, view.string(view->weights_file), file.size(),
                       start + bytes);
  auto *table =
      reinterpret_cast<const char *>(view.rows<encast_abi_blob>(view->blobs));
  char piece[4096];
  for (uint64_t at = 0, count; at < bytes; at += count) {
    count = std::min<uint64_t>(sizeof(piece), bytes - at);
    ENCAST_TRY(file.read(piece, start + at, count, error));
    if (memcmp(piece, table + at, count) != 0)
      return weightsOfAnotherArtifact(error);
  }
  return ENCAST_OK;
}

} // namespace encast::runtime
