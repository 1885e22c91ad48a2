//===- Layout.h - how values lie in memory ----------------------*- C++ -*-===//
///
/// \file
/// The one rule for strides, shared by the lowerings to and from the kernel
/// stage. Sizes count floats, those of planes bf16 elements.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_DIALECTS_KERNEL_LAYOUT_H
#define ENCAST_DIALECTS_KERNEL_LAYOUT_H

#include <cstdint>

namespace encast::kernel {

/// Columns of a panel of weights and of a plane of panel-major values.
constexpr int64_t kPanelColumns = 16;

constexpr int64_t panelsFor(int64_t columns) {
  return (columns + kPanelColumns - 1) / kPanelColumns;
}

/// From a row of a row-major value to the next: whole pairs of panels, which
/// tiles come in, plus a panel where rows would else lie a multiple of 2 KB
/// apart and share cache sets.
constexpr int64_t rowStride(int64_t columns) {
  int64_t stride = (panelsFor(columns) + 1) / 2 * 2 * kPanelColumns;
  return stride % 512 ? stride : stride + kPanelColumns;
}

/// Columns that a head takes in panel-major values.
constexpr int64_t paddedHeadSize(int64_t headSize) {
  return panelsFor(headSize) * kPanelColumns;
}

/// Elements from a bf16 plane of a row to the next: whole tiles of 32 columns.
constexpr int64_t planeStride(int64_t columns) {
  return (columns + 31) / 32 * 32;
}

/// Elements from a row of bf16 planes to the next; rows share no cache sets.
constexpr int64_t planeRowStride(int64_t columns, int64_t planes) {
  return planes * planeStride(columns) + 32;
}

/// Elements from a row to the next of a row-major value in so many bf16 planes;
/// of f32 if that is 0.
constexpr int64_t rowStride(int64_t columns, int64_t planes) {
  return planes ? planeRowStride(columns, planes) : rowStride(columns);
}

} // namespace encast::kernel

#endif // ENCAST_DIALECTS_KERNEL_LAYOUT_H
