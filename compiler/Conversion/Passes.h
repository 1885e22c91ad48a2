//===- Passes.h - lowerings from one dialect to the next --------*- C++ -*-===//
///
/// \file
/// Descriptions, with IR before and after, are in Passes.td.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_COMPILER_CONVERSION_PASSES_H
#define ENCAST_COMPILER_CONVERSION_PASSES_H

#include "dialects/Kernel/Kernel.h"
#include "dialects/Plan/Plan.h"
#include "mlir/Pass/Pass.h"

namespace encast {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/Conversion/Passes.h.inc"

} // namespace encast

#endif // ENCAST_COMPILER_CONVERSION_PASSES_H
