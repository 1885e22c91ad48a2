//===- Encoder.h - the encoder dialect --------------------------*- C++ -*-===//
///
/// \file
/// What a transformer encoder computes, on tensors of rows; see EncoderOps.td.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_DIALECTS_ENCODER_ENCODER_H
#define ENCAST_DIALECTS_ENCODER_ENCODER_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/Encoder/EncoderDialect.h.inc"
#include "dialects/Encoder/EncoderEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Encoder/EncoderAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/Encoder/EncoderOps.h.inc"

namespace encast::encoder {

/// Which rows a value of the model has: the encoding of its tensor type.
Rows getRows(mlir::Type type);
inline Rows getRows(mlir::Value value) { return getRows(value.getType()); }

/// tensor<?xcolumns xf32> with these rows.
mlir::RankedTensorType getRowsType(mlir::MLIRContext *context, int64_t columns,
                                   Rows rows = Rows::Tokens);

/// Columns of a value of the model.
inline int64_t getColumns(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getDimSize(1);
}

/// Suggests a name for the result of an operation with a `name` attribute: what
/// follows the layer's number ("encoder.layer.3.attention.self" prints as
/// %attention.self), or all of it.
void setResultName(mlir::Operation *op, mlir::OpAsmSetValueNameFn setName);

/// The dictionary attribute of a module that holds what is not computed:
/// family, vocabulary, max_tokens, token_types, pad_id, hidden, layers,
/// default_output and metadata (JSON).
constexpr llvm::StringLiteral kModelAttrName = "encoder.model";

/// String attribute of a printed module: the targets that --target named when
/// it was printed, which finishing it takes unless told otherwise.
constexpr llvm::StringLiteral kTargetsAttrName = "encoder.targets";

} // namespace encast::encoder

#endif // ENCAST_DIALECTS_ENCODER_ENCODER_H
