//===- MemoryFormula.cpp - bytes of the arena -----------------------------===//

#include "runtime/src/MemoryFormula.h"

namespace encast::runtime {
namespace {

/// Sums and products of sizes that remember an overflow.
class Sizes {
public:
  int64_t product(int64_t a, int64_t b) {
    int64_t result;
    bad |= __builtin_mul_overflow(a, b, &result);
    return result;
  }
  int64_t sum(int64_t a, int64_t b) {
    int64_t result;
    bad |= __builtin_add_overflow(a, b, &result);
    return result;
  }
  int64_t roundedUp(int64_t size, int64_t unit) {
    return sum(size, unit - 1) & -unit;
  }
  /// Places `size` bytes at `end`, which moves behind them.
  int64_t place(int64_t size, int64_t &end) {
    int64_t begin = end;
    end = sum(end, roundedUp(size, ENCAST_ALIGNMENT));
    return begin;
  }
  bool overflown() const { return bad; }

private:
  bool bad = false;
};

} // namespace

bool layOutArena(const ArtifactView &view, const encast_abi_variant &variant,
                 int64_t tokens, int64_t sequences, uint64_t outputs,
                 int threads, int64_t *colourOffsets, ArenaLayout &layout) {
  Sizes sizes;
  int64_t end = 0;
  constexpr int64_t index = sizeof(int32_t);
  layout.ids = sizes.place(index * tokens, end);
  layout.types = sizes.place(index * tokens, end);
  layout.positions = sizes.place(index * (tokens + 1), end);
  layout.selected = sizes.place(index * (tokens + sequences), end);
  layout.first = sizes.place(index * sequences, end);
  layout.pick = sizes.place(index * tokens, end);

  for (uint64_t i = 0; i < variant.colours; ++i)
    colourOffsets[i] = 0;
  const auto *forms = view.rows<encast_abi_form>(variant.forms);
  for (uint64_t i = 0; i < variant.forms.count; ++i) {
    const encast_abi_form &form = forms[i];
    if (!(form.outputs & outputs))
      continue;
    int64_t size =
        sizes.sum(form.bytes,
                  sizes.sum(sizes.product(form.bytes_per_token, tokens),
                            sizes.product(form.bytes_per_sequence, sequences)));
    if (size > colourOffsets[form.colour])
      colourOffsets[form.colour] = size;
  }
  layout.colours = end;
  for (uint64_t i = 0; i < variant.colours; ++i)
    colourOffsets[i] = sizes.place(colourOffsets[i], end) - layout.colours;

  layout.blockStride = sizes.roundedUp(variant.block_bytes, ENCAST_ALIGNMENT);
  layout.workspaceStride =
      sizes.roundedUp(variant.workspace_bytes, ENCAST_ALIGNMENT);
  layout.blocks = sizes.place(sizes.product(layout.blockStride, threads), end);
  layout.workspaces =
      sizes.place(sizes.product(layout.workspaceStride, threads), end);
  // At least a page, so that a reservation for nothing is one, too.
  layout.bytes = sizes.roundedUp(end ? end : 1, kPageBytes);
  return !sizes.overflown();
}

int64_t layOutCopies(const ArtifactView &view,
                     const encast_abi_variant &variant, int64_t *offsets) {
  const auto *weights = view.rows<encast_abi_weight>(variant.weights);
  const auto *blobs = view.rows<encast_abi_blob>(view->blobs);
  uint64_t count = variant.weights.count;
  bool marks = false;
  for (uint64_t i = 0; i < count; ++i)
    marks |= (weights[i].flags & ENCAST_WEIGHT_STREAMED) != 0;
  for (uint64_t i = 0; i < view->blobs.count; ++i)
    offsets[i] = -1;
  Sizes sizes;
  int64_t end = 0;
  for (uint64_t i = 0; i < count; ++i) {
    int64_t &offset = offsets[weights[i].blob];
    bool streamed = !marks || weights[i].flags & ENCAST_WEIGHT_STREAMED;
    if (streamed && offset < 0)
      offset = sizes.place(blobs[weights[i].blob].size, end);
  }
  int64_t bytes = sizes.roundedUp(end, kHugePageBytes);
  return sizes.overflown() ? -1 : bytes;
}

} // namespace encast::runtime
