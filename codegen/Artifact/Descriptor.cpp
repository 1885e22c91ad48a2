//===- Descriptor.cpp - the tables of an artifact as bytes ----------------===//

#include "codegen/Artifact/Descriptor.h"
#include <cassert>
#include <cstddef>
#include <cstring>
#include <map>

namespace encast {
namespace {

/// convert() of each row, in order.
template <typename From, typename Convert>
auto converted(const std::vector<From> &from, Convert convert) {
  std::vector<decltype(convert(from[0]))> rows;
  rows.reserve(from.size());
  for (const From &row : from)
    rows.push_back(convert(row));
  return rows;
}

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
    if (model.attendedLength)
      header.required_features |= ENCAST_FEATURE_ATTENDED_LENGTH;
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
    header.outputs =
        table(converted(model.outputs, [&](const ArtifactOutput &from) {
          return encast_abi_output{string(from.name), from.columns,
                                   from.perToken, from.allRows};
        }));
    const std::vector<uint32_t> *blobOf = weights.blobOf.data();
    header.variants =
        table(converted(model.variants, [&](const ArtifactVariant &from) {
          return variant(from, *blobOf++);
        }));
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

  encast_abi_variant variant(const ArtifactVariant &from,
                             const std::vector<uint32_t> &blobOf) {
    encast_abi_variant to = {};
    to.name = string(from.name);
    to.cpu_features = from.cpuFeatures;
    to.rank = from.rank;
    to.block_bytes = from.blockBytes;
    to.workspace_bytes = from.workspaceBytes;
    to.colours = from.colours;
    to.slots = table(converted(from.slots, [&](const ArtifactSlot &slot) {
      return encast_abi_slot{string(slot.name), slot.kind, slot.index};
    }));
    to.forms = table(converted(from.forms, [](const ArtifactForm &form) {
      return encast_abi_form{form.colour,           0,
                             form.outputs,          form.bytesPerToken,
                             form.bytesPerSequence, form.bytes};
    }));
    const uint32_t *blob = blobOf.data();
    to.weights = table(converted(from.weights, [&](const WeightRecipe &recipe) {
      return encast_abi_weight{string(recipe.name), *blob++, flags(recipe)};
    }));
    steps(from.steps, to);
    return to;
  }

  /// Kernels stream what was packed for them.
  static uint32_t flags(const WeightRecipe &recipe) {
    RecipeStep::Kind last = recipe.steps.back().kind;
    bool isPacked = last == RecipeStep::Kind::PackPanels ||
                    last == RecipeStep::Kind::PackTiles;
    return isPacked ? ENCAST_WEIGHT_STREAMED : 0;
  }

  encast_abi_call call(const ArtifactCall &from) {
    encast_abi_call to = {};
    to.name = string(from.name);
    to.kernel = string(from.kernel);
    to.modes = static_cast<uint16_t>(from.modes);
    to.per_head = from.perHead;
    to.panels = from.panels;
    to.panel_tile = from.panelTile;
    to.outputs = from.outputs;
    to.flops_per_row = from.flopsPerRow;
    to.flops_per_row_and_key = from.flopsPerRowAndKey;
    to.window = from.window;
    return to;
  }

  void steps(const std::vector<ArtifactStep> &from, encast_abi_variant &to) {
    std::vector<encast_abi_call> calls;
    std::vector<std::string> symbols;
    auto steps = converted(from, [&](const ArtifactStep &step) {
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
      for (const ArtifactCall &call : step.calls) {
        calls.push_back(this->call(call));
        symbols.push_back(call.function);
      }
      return row;
    });
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
