//===- Descriptor.cpp - the tables of an artifact as bytes ----------------===//

#include "codegen/Artifact/Descriptor.h"
#include <cassert>
#include <cstddef>
#include <cstring>
#include <map>

namespace encast {
namespace {

class DescriptorBuilder {
public:
  Descriptor build(const ArtifactModel &model,
                   const DescriptorWeights &weights) {
    encast_abi_descriptor header = {};
    descriptor.bytes.resize(sizeof(header));
    header.magic = ENCAST_ABI_MAGIC;
    header.byte_order = ENCAST_ABI_BYTE_ORDER;
    header.abi_version = ENCAST_ABI_VERSION;
    header.header_bytes = sizeof(header);
    header.vocabulary = model.vocabulary;
    header.max_tokens = model.maxTokens;
    header.token_types = model.tokenTypes;
    header.pad_id = model.padId;
    header.hidden = model.hidden;
    header.layers = model.layers;
    header.model = string(model.family);
    header.metadata = string(model.metadata);
    header.default_output = model.defaultOutput;
    header.weights_bytes = weights.bytes;
    header.weights_file = string(weights.fileName);
    header.outputs = outputs(model.outputs);
    std::vector<encast_abi_variant> variants;
    for (size_t i = 0; i < model.variants.size(); ++i)
      variants.push_back(variant(model.variants[i], weights.blobOf[i]));
    header.variants = table(variants);
    // Last, so that the number of blobs moves nothing.
    header.blobs = table(weights.blobs);
    assert(weights.blobs.size() <= weights.capacity);
    descriptor.bytes.resize(header.blobs.offset +
                            weights.capacity * sizeof(encast_abi_blob));
    header.descriptor_bytes = descriptor.bytes.size();
    std::memcpy(descriptor.bytes.data(), &header, sizeof(header));
    return std::move(descriptor);
  }

private:
  /// Offset of the string, which is stored once; 0 for the empty string.
  uint64_t string(const std::string &text) {
    if (text.empty())
      return 0;
    auto [entry, isNew] = strings.try_emplace(text, descriptor.bytes.size());
    if (isNew) {
      const char *first = text.c_str();
      descriptor.bytes.insert(descriptor.bytes.end(), first,
                              first + text.size() + 1);
    }
    return entry->second;
  }

  template <typename Row> encast_abi_table table(const std::vector<Row> &rows) {
    static_assert(alignof(Row) <= 8);
    uint64_t offset = (descriptor.bytes.size() + 7) / 8 * 8;
    descriptor.bytes.resize(offset + rows.size() * sizeof(Row));
    if (!rows.empty())
      std::memcpy(descriptor.bytes.data() + offset, rows.data(),
                  rows.size() * sizeof(Row));
    return {offset, rows.size()};
  }

  encast_abi_table outputs(const std::vector<ArtifactOutput> &from) {
    std::vector<encast_abi_output> rows;
    for (const ArtifactOutput &output : from)
      rows.push_back({string(output.name), output.columns, output.perToken,
                      output.allRows});
    return table(rows);
  }

  encast_abi_variant variant(const ArtifactVariant &from,
                             const std::vector<uint32_t> &blobOf) {
    encast_abi_variant to = {};
    to.name = string(from.name);
    to.cpu_features = from.cpuFeatures;
    to.rank = from.rank;
    to.block_bytes = from.blockBytes;
    to.workspace_bytes = from.workspaceBytes;
    to.colours = from.colours;
    std::vector<encast_abi_slot> slots;
    for (const ArtifactSlot &slot : from.slots)
      slots.push_back({string(slot.name), slot.kind, slot.index});
    to.slots = table(slots);
    std::vector<encast_abi_form> forms;
    for (const ArtifactForm &form : from.forms)
      forms.push_back({form.colour, 0, form.outputs, form.bytesPerToken,
                       form.bytesPerSequence, form.bytes});
    to.forms = table(forms);
    std::vector<encast_abi_weight> weights;
    for (size_t i = 0; i < from.weights.size(); ++i)
      weights.push_back({string(from.weights[i].name), blobOf[i], 0});
    to.weights = table(weights);
    steps(from.steps, to);
    return to;
  }

  void steps(const std::vector<ArtifactStep> &from, encast_abi_variant &to) {
    std::vector<encast_abi_step> steps;
    std::vector<encast_abi_call> calls;
    std::vector<std::string> symbols;
    for (const ArtifactStep &step : from) {
      encast_abi_step row = {};
      row.name = string(step.name);
      row.domain = step.domain;
      row.layer = step.layer;
      row.max_rows = step.maxRows;
      row.row_tile = step.rowTile;
      row.split_rows = step.splitRows;
      row.heads = step.heads;
      row.first_call = uint32_t(calls.size());
      row.call_count = uint32_t(step.calls.size());
      steps.push_back(row);
      for (const ArtifactCall &call : step.calls) {
        encast_abi_call row = {};
        row.name = string(call.name);
        row.kernel = string(call.kernel);
        row.modes = call.modes;
        row.panels = call.panels;
        row.panel_tile = call.panelTile;
        row.outputs = call.outputs;
        row.flops_per_row = call.flopsPerRow;
        row.flops_per_row_and_key = call.flopsPerRowAndKey;
        calls.push_back(row);
        symbols.push_back(call.function);
      }
    }
    to.steps = table(steps);
    to.calls = table(calls);
    for (size_t i = 0; i < calls.size(); ++i)
      descriptor.functions.push_back({to.calls.offset +
                                          i * sizeof(encast_abi_call) +
                                          offsetof(encast_abi_call, function),
                                      symbols[i]});
  }

  Descriptor descriptor;
  std::map<std::string, uint64_t> strings;
};

} // namespace

Descriptor buildDescriptor(const ArtifactModel &model,
                           const DescriptorWeights &weights) {
  return DescriptorBuilder().build(model, weights);
}

} // namespace encast
