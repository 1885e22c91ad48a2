//===- BuildEncoder.h - from ModelSpec to Encoder IR ------------*- C++ -*-===//
///
/// \file
/// The one builder of Encoder IR, for every family and format.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_FRONTENDS_BUILDENCODER_H
#define ENCAST_FRONTENDS_BUILDENCODER_H

#include "dialects/Encoder/Encoder.h"
#include "frontends/Models/ModelSpec.h"
#include "mlir/IR/OwningOpRef.h"

namespace encast {

/// Builds a module with the model's attributes, its sources, one function
/// `@encode` that computes every output of the spec, and the weights that it
/// reads: checkpoint tensors or rows of them, as stored, but in f32 for row
/// programs and in bf16 where a linear's matrix is exactly that; and a table
/// for each theta of rotary embeddings. Nothing is optimized. The context must
/// have the encoder dialect loaded; the spec must be one that an importer
/// returned.
mlir::OwningOpRef<mlir::ModuleOp> buildEncoder(const ModelSpec &spec,
                                               mlir::MLIRContext &context);

} // namespace encast

#endif // ENCAST_FRONTENDS_BUILDENCODER_H
