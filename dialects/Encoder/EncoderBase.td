//===- EncoderBase.td - what all stages of a model share ----*- tablegen -*-===//
//
// Types of rows and weights, which the kernel dialect keeps.
//
//===----------------------------------------------------------------------===//

#ifndef ENCAST_DIALECTS_ENCODER_ENCODERBASE
#define ENCAST_DIALECTS_ENCODER_ENCODERBASE

include "dialects/Integers.td"
include "mlir/IR/OpBase.td"

def Encoder_RowsTensor : Type<CPred<"::encast::encoder::isRowsType($_self)">,
    "rows (tensor<?xNxf32>, 1 <= N <= 1048576, all tokens or encoded by "
    "#encoder.rows)", "::mlir::RankedTensorType">;
def Encoder_IndexTensor : Type<CPred<"::encast::encoder::isIndexType($_self)">,
    "an integer per token, or per selected one (tensor<?xi32>)",
    "::mlir::RankedTensorType">;
def Encoder_WeightTensor
    : Type<CPred<"::encast::encoder::isWeightType($_self)">,
    "a weight (f32, f16 or bf16, 1 to 3 static dimensions, at most 2^40 "
    "elements)", "::mlir::RankedTensorType">;

/// Where in the model an operation comes from.
def Encoder_Origin {
  dag attributes = (ins OptionalAttr<StrAttr>:$name,
                        OptionalAttr<Encast_Layer>:$layer);
}

/// An operation that recipes of weights consist of.
def Encoder_RecipeTrait : NativeOpTrait<"RecipeOp"> {
  let cppNamespace = "::encast::encoder";
}

#endif // ENCAST_DIALECTS_ENCODER_ENCODERBASE
