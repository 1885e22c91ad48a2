//===- Kernel.h - the kernel dialect ----------------------------*- C++ -*-===//
///
/// \file
/// Which kernel computes what, on which layout; see KernelOps.td.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_DIALECTS_KERNEL_KERNEL_H
#define ENCAST_DIALECTS_KERNEL_KERNEL_H

#include "dialects/Encoder/Encoder.h"

#include "dialects/Kernel/KernelDialect.h.inc"
#include "dialects/Kernel/KernelEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Kernel/KernelAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/Kernel/KernelOps.h.inc"

namespace encast::kernel {

/// String attribute of a module from the kernel stage on: the target's name.
constexpr llvm::StringLiteral kTargetAttrName = "kernel.target";

} // namespace encast::kernel

#endif // ENCAST_DIALECTS_KERNEL_KERNEL_H
