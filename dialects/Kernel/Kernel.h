//===- Kernel.h - the kernel dialect ----------------------------*- C++ -*-===//
///
/// \file
/// Which kernel computes what, on which layout; see KernelOps.td.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_DIALECTS_KERNEL_KERNEL_H
#define ENCAST_DIALECTS_KERNEL_KERNEL_H

#include "dialects/Encoder/Encoder.h"
#include "dialects/Kernel/Layout.h"

#include "dialects/Kernel/KernelDialect.h.inc"
#include "dialects/Kernel/KernelEnums.h.inc"

namespace encast::kernel {

/// Rows of f32 as of the encoder, or bf16 planes: tensor<?xPxNxbf16> of 1 to 3
/// planes, with the same encodings.
bool isRowsType(mlir::Type type);

} // namespace encast::kernel

#define GET_ATTRDEF_CLASSES
#include "dialects/Kernel/KernelAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/Kernel/KernelOps.h.inc"

namespace encast::kernel {

/// String attribute of a module from the kernel stage on: the target's name.
constexpr llvm::StringLiteral kTargetAttrName = "kernel.target";

/// Columns of a value, of each plane if it has planes.
inline int64_t getColumns(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getShape().back();
}

/// bf16 planes of a value, 0 if it is f32.
inline int64_t getPlanes(mlir::Value value) {
  auto type = mlir::cast<mlir::RankedTensorType>(value.getType());
  return type.getRank() == 3 ? type.getDimSize(1) : 0;
}

/// Rows of `columns` like those of `like`: f32, or so many bf16 planes.
mlir::RankedTensorType getRowsType(mlir::Value like, int64_t columns,
                                   int64_t planes);

/// Bytes from a row of a value to the next, where it lies row by row.
int64_t getRowBytes(mlir::Value value);

} // namespace encast::kernel

#endif // ENCAST_DIALECTS_KERNEL_KERNEL_H
