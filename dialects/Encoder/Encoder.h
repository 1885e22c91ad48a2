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

namespace encast::encoder {

/// Whether this is tensor<?xNxf32> with 1 to 2^20 columns, of all tokens (no
/// encoding) or of the rows that its encoding names.
bool isRowsType(mlir::Type type);
/// Whether this is tensor<?xi32>, of all tokens (no encoding) or of selected
/// ones.
bool isIndexType(mlir::Type type);
/// Whether this is a tensor of 1 to 3 static dimensions, f32, f16 or bf16, of
/// at most 2^40 elements.
bool isWeightType(mlir::Type type);

/// An error unless `op` stands in the recipe of a weight.
mlir::LogicalResult verifyInRecipe(mlir::Operation *op);

/// Trait of the operations that recipes of weights consist of.
template <typename ConcreteType>
struct RecipeOp : mlir::OpTrait::TraitBase<ConcreteType, RecipeOp> {
  static mlir::LogicalResult verifyTrait(mlir::Operation *op) {
    return verifyInRecipe(op);
  }
};

} // namespace encast::encoder

#define GET_ATTRDEF_CLASSES
#include "dialects/Encoder/EncoderAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/Encoder/EncoderOps.h.inc"

namespace encast::encoder {

/// Which rows a value of the model, or an index, has: the encoding of its
/// tensor type.
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

/// The function @encode of the encoder or kernel stage: one block, without
/// arguments and results. Emits an error if the module has none.
mlir::FailureOr<mlir::func::FuncOp> findEncode(mlir::ModuleOp module);

/// For verifiers; each emits an error at `op` if it fails.
/// The type of the weight that `symbol` names.
mlir::FailureOr<mlir::RankedTensorType>
lookupWeight(mlir::Operation *op, llvm::StringRef role,
             mlir::FlatSymbolRefAttr symbol,
             mlir::SymbolTableCollection &tables);
/// Tables have a row for each value of their index, and the result's columns.
mlir::LogicalResult verifyTables(mlir::Operation *op, mlir::ValueRange indices,
                                 mlir::ArrayAttr tables, mlir::Value result,
                                 mlir::SymbolTableCollection &symbols);
mlir::LogicalResult expectRows(mlir::Operation *op, mlir::Value value,
                               llvm::ArrayRef<Rows> expected);
mlir::LogicalResult expectSameColumns(mlir::Operation *op, mlir::Value a,
                                      mlir::Value b);
/// An output's name is unique among the operations of its kind in the block,
/// and there are at most 64.
mlir::LogicalResult verifyOutputName(mlir::Operation *op);

/// The dictionary attribute of a module that holds what is not computed:
/// family, vocabulary, max_tokens, token_types, pad_id, hidden, layers,
/// default_output and metadata (JSON); `attended_length`, without a value, if
/// callers may give how many tokens of a sequence are keys.
constexpr llvm::StringLiteral kModelAttrName = "encoder.model";

/// String attribute of a printed module: the targets that --target named when
/// it was printed, which finishing it takes unless told otherwise.
constexpr llvm::StringLiteral kTargetsAttrName = "encoder.targets";

} // namespace encast::encoder

#endif // ENCAST_DIALECTS_ENCODER_ENCODER_H
