//===- TilePacking.h - where bf16 weights lie -------------------*- C++ -*-===//
///
/// \file
/// The layout of bf16 weights that LinearShape describes, as index arithmetic.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_CODEGEN_KERNELS_TILEPACKING_H
#define ENCAST_CODEGEN_KERNELS_TILEPACKING_H

#include "codegen/Kernels/Kernels.h"

#include <cstdint>

namespace encast {

/// Elements of a pair of panels: 32 columns, k rounded up to a multiple of 32.
constexpr int64_t tilePairElements(int64_t k, int64_t planes) {
  return planeStride(k) * planes * 2 * kPanelColumns;
}

/// The element, from the first of all pairs, that holds a plane of the weight
/// of `column` at `kIndex`. A multiplication of tiles takes k in twos.
constexpr int64_t tilePairElement(int64_t k, int64_t planes, int64_t column,
                                  int64_t kIndex, int64_t plane) {
  const int64_t pair = column / (2 * kPanelColumns);
  const int64_t tile = column / kPanelColumns % 2;
  const int64_t step = kIndex / 32;
  const int64_t two = kIndex % 32 / 2;
  return pair * tilePairElements(k, planes) +
         (((step * planes + plane) * 2 + tile) * 16 + two) * 32 +
         column % kPanelColumns * 2 + kIndex % 2;
}

/// The column of the panels that gates result `result` of a gated linear, and
/// the one that is multiplied by it.
constexpr int64_t tileGateColumn(int64_t result) {
  return result / kPanelColumns * 2 * kPanelColumns + result % kPanelColumns;
}
constexpr int64_t tileOtherColumn(int64_t result) {
  return tileGateColumn(result) + kPanelColumns;
}

} // namespace encast

#endif // ENCAST_CODEGEN_KERNELS_TILEPACKING_H
