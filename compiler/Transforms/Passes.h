//===- Passes.h - passes that stay inside one dialect -----------*- C++ -*-===//
///
/// \file
/// Descriptions, with IR before and after, are in Passes.td.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_COMPILER_TRANSFORMS_PASSES_H
#define ENCAST_COMPILER_TRANSFORMS_PASSES_H

#include "dialects/Encoder/Encoder.h"
#include "dialects/Plan/Plan.h"
#include "mlir/Pass/Pass.h"

namespace encast {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "compiler/Transforms/Passes.h.inc"

} // namespace encast

#endif // ENCAST_COMPILER_TRANSFORMS_PASSES_H
